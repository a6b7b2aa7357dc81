//! What was imported may hold what no scenario can: it is mended where that changes nothing, and
//! else left out with a note.

use super::draft::{DraftBody, DraftRequest, map_literals, variables};
use crate::plan::Template;
use crate::render::is_header_value;
use crate::resolve::values::is_sendable_header;

/// Where a file's content type is of no use.
const TYPE_UNKNOWN: &str = "application/octet-stream";

/// Mends one request.
pub(super) fn mend(request: &mut DraftRequest) {
    mend_path(&mut request.path);
    let headers = std::mem::take(&mut request.headers);
    for (name, value) in headers {
        if is_sendable_header(&name) && is_header_value(&value) && is_template(&value) {
            request.headers.push((name, value));
        } else {
            let name: String = name.chars().filter(|c| !c.is_control()).collect();
            let note = format!("Lost: the header `{name}`, which can't be sent as it was.");
            request.notes.push(note);
        }
    }
    match &mut request.body {
        DraftBody::Text { content_type, .. } | DraftBody::File { content_type, .. } => {
            mend_type(content_type);
        }
        DraftBody::Multipart(parts) => {
            for part in parts {
                if part.content_type.as_ref().is_some_and(|own| !is_type(own)) {
                    part.content_type = None;
                }
            }
        }
        DraftBody::Empty | DraftBody::Json(_) | DraftBody::Form(_) => {}
    }
}

fn is_template(text: &str) -> bool {
    Template::parse(text).is_ok()
}

/// What a path can't hold is percent-encoded, as whoever sent it had to do.
fn mend_path(path: &mut String) {
    if !path.starts_with('/') {
        path.insert(0, '/');
    }
    let is_wrong = |c: char| c.is_control() || c == '?' || c == '#';
    if path.contains(is_wrong) {
        *path = map_literals(path, |literal| {
            let mut mended = String::new();
            for letter in literal.chars() {
                if is_wrong(letter) {
                    crate::encode::push_component(letter.encode_utf8(&mut [0; 4]), &mut mended);
                } else {
                    mended.push(letter);
                }
            }
            mended
        });
    }
}

fn is_type(text: &str) -> bool {
    !text.is_empty() && is_header_value(text)
}

fn mend_type(content_type: &mut String) {
    // It is no template: a variable would be sent as its own text.
    if !is_type(content_type) || !variables(content_type).is_empty() {
        TYPE_UNKNOWN.clone_into(content_type);
    }
}
