//! A multipart form out of its bytes, as browsers copy and record it.

use super::draft::DraftPart;

/// The parts of a form; `None` if the text is none by its content type's boundary.
pub(super) fn parse(content_type: &str, text: &str) -> Option<Vec<DraftPart>> {
    let boundary = parameter(content_type, "boundary")?;
    let delimiter = format!("--{boundary}");
    let mut pieces = text.split(delimiter.as_str());
    // Before the first delimiter there is nothing of the form.
    pieces.next()?;
    let mut parts = Vec::new();
    for piece in pieces {
        if piece.starts_with("--") {
            return (!parts.is_empty()).then_some(parts);
        }
        parts.push(part(piece)?);
    }
    // The last delimiter is missing.
    None
}

fn part(piece: &str) -> Option<DraftPart> {
    let piece = piece.strip_prefix("\r\n").or(piece.strip_prefix('\n'))?;
    let (head, content) = piece
        .split_once("\r\n\r\n")
        .or_else(|| piece.split_once("\n\n"))?;
    let content = content
        .strip_suffix("\r\n")
        .or(content.strip_suffix('\n'))
        .unwrap_or(content);
    let mut part = DraftPart {
        content: content.to_owned(),
        ..DraftPart::default()
    };
    for line in head.lines() {
        let (name, value) = line.split_once(':')?;
        match name.trim().to_ascii_lowercase().as_str() {
            "content-disposition" => {
                part.name = parameter(value, "name")?;
                part.filename = parameter(value, "filename");
            }
            "content-type" => part.content_type = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    (!part.name.is_empty()).then_some(part)
}

/// A parameter behind a `;`, without its quotes.
fn parameter(value: &str, wanted: &str) -> Option<String> {
    let parameters = value.split(';').skip(1);
    let mut found = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, value) = found.find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))?;
    let value = value.trim();
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    Some(inner.unwrap_or(value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_at_the_boundary() {
        let text = "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n\
                    --X\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\n\
                    Content-Type: text/plain\r\n\r\nl1\r\nl2\r\n--X--\r\n";
        let parts = parse("multipart/form-data; boundary=X", text).unwrap();
        assert_eq!(parts.len(), 2);
        assert_eq!(
            (parts[0].name.as_str(), parts[0].content.as_str()),
            ("a", "one")
        );
        assert_eq!(parts[1].filename.as_deref(), Some("f.txt"));
        assert_eq!(parts[1].content_type.as_deref(), Some("text/plain"));
        assert_eq!(parts[1].content, "l1\r\nl2");
    }

    #[test]
    fn what_is_no_form_is_none() {
        for text in ["", "--X", "--X\r\nx: y\r\n\r\nz\r\n--X--", "plain"] {
            assert_eq!(
                parse("multipart/form-data; boundary=X", text),
                None,
                "{text}"
            );
        }
        assert_eq!(parse("multipart/form-data", "--X--"), None);
    }
}
