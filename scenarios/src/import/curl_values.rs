//! The values of curl's options: parts of forms, encoded data, methods, times.

use super::ImportError;
use super::draft::DraftPart;
use super::url;

/// `--data-urlencode`: `content`, `=content`, `name=content`; the parts in files have no place.
pub(super) fn urlencoded(value: &str, line: usize) -> Result<String, ImportError> {
    match value.split_once('=') {
        Some(("", content)) => Ok(url::encode(content)),
        Some((name, content)) if !name.contains('@') => {
            Ok(format!("{name}={}", url::encode(content)))
        }
        None if !value.contains('@') => Ok(url::encode(value)),
        _ => Err(ImportError::at_line(
            line,
            "`--data-urlencode` reads from a file",
            "write its content as `name=content`",
        )),
    }
}

/// `-F name=text`, `-F name=@file;type=…;filename=…`.
pub(super) fn form_part(value: &str, line: usize) -> Result<DraftPart, ImportError> {
    let mut part = text_part(value, line)?;
    let (is_file, rest) = match part.content.strip_prefix('@') {
        Some(file) => (true, file.to_owned()),
        None => (false, part.content.clone()),
    };
    if rest.starts_with('<') || (is_file && rest == "-") {
        return Err(ImportError::at_line(
            line,
            format!("the part `{}` is read from elsewhere", part.name),
            "send the file itself, as `-F name=@FILE`, or write the text",
        ));
    }
    let mut pieces = rest.split(';');
    let mut content = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.trim().split_once('=') {
            Some(("type", content_type)) => part.content_type = Some(unquoted(content_type)),
            Some(("filename", filename)) => part.filename = Some(unquoted(filename)),
            // A `;` of the text itself.
            _ => {
                content.push(';');
                content.push_str(piece);
            }
        }
    }
    part.is_file = is_file;
    part.content = unquoted(&content);
    Ok(part)
}

pub(super) fn text_part(value: &str, line: usize) -> Result<DraftPart, ImportError> {
    match value.split_once('=') {
        Some((name, content)) if !name.is_empty() => Ok(DraftPart {
            name: name.to_owned(),
            content: content.to_owned(),
            ..DraftPart::default()
        }),
        _ => Err(ImportError::at_line(
            line,
            "a part of a form has no name",
            "write it as `-F name=value`, or `-F name=@FILE`",
        )),
    }
}

fn unquoted(text: &str) -> String {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(text).to_owned()
}

pub(super) fn method(text: &str, line: usize) -> Result<String, ImportError> {
    let upper = text.to_ascii_uppercase();
    let is_method = !upper.is_empty()
        && upper.len() <= 20
        && upper
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        && !matches!(upper.as_str(), "CONNECT" | "TRACE");
    if is_method {
        return Ok(upper);
    }
    Err(ImportError::at_line(
        line,
        format!("`{text}` is no method that a scenario can send"),
        "write GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS behind -X",
    ))
}

pub(super) fn seconds(shown: &str, value: &str, line: usize) -> Result<String, ImportError> {
    let seconds = value.parse::<f64>().ok();
    match seconds.filter(|seconds| (0.001..=86_400.0).contains(seconds)) {
        Some(seconds) => Ok(format!("{}ms", (seconds * 1_000.0).round())),
        None => Err(ImportError::at_line(
            line,
            format!("`{shown} {value}` is no time of up to a day"),
            "write it in seconds, as `-m 10`",
        )),
    }
}

pub(super) fn whole(shown: &str, value: &str, line: usize) -> Result<u32, ImportError> {
    // `-1` is without end, which a load test must not be.
    value
        .parse::<u32>()
        .or(match value {
            "-1" => Ok(100),
            _ => Err(()),
        })
        .map_err(|()| {
            ImportError::at_line(
                line,
                format!("`{shown} {value}` is no whole number"),
                "write it as `--max-redirs 10`",
            )
        })
}
