//! Single values of the formats: durations, rates, methods, paths, headers, pointers,
//! names. Each check says what was expected and what to write.

use std::time::Duration;

use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::Template;
use crate::template::TemplateError;

/// A request's longest name: it is a table's row and a chart's label.
pub(crate) const REQUEST_NAME_CHARS_MAX: usize = 100;
/// Longer waits are a typo.
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Headers that only the engine can set.
const ENGINE_HEADERS: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// A scenario's name goes into file names, tables and commands.
pub(crate) fn scenario_name(
    document: &Document<'_>,
    place: &Place<'_>,
    name: &str,
) -> Result<(), ScenarioError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.len() <= 60 && name.chars().all(plain) && !name.starts_with('-') {
        return Ok(());
    }
    Err(document.error(
        place,
        format!("`{name}` can't be a name"),
        "use 1 to 60 lower-case letters, digits and `-`, as `usage-check`",
    ))
}

pub(crate) fn request_name(
    document: &Document<'_>,
    place: &Place<'_>,
    name: &str,
) -> Result<(), ScenarioError> {
    let what = if name.trim().is_empty() {
        "the name is empty".to_owned()
    } else if name.chars().count() > REQUEST_NAME_CHARS_MAX {
        format!("the name is longer than {REQUEST_NAME_CHARS_MAX} characters")
    } else if name.trim() != name || name.chars().any(char::is_control) {
        "the name has a line break, a tab or a space at an end".to_owned()
    } else {
        return Ok(());
    };
    Err(document.error(place, what, "name it by method and route, as `GET usage`"))
}

/// A number and its unit.
pub(crate) fn duration(
    document: &Document<'_>,
    place: &Place<'_>,
    text: &str,
) -> Result<Duration, ScenarioError> {
    parse_duration(text).ok_or_else(|| {
        document.error(
            place,
            format!("`{text}` is no duration"),
            "write a number and its unit (us, ms, s, m, h), at most 24h, as `30s`",
        )
    })
}

pub(crate) fn positive_duration(
    document: &Document<'_>,
    place: &Place<'_>,
    text: &str,
) -> Result<Duration, ScenarioError> {
    let duration = duration(document, place, text)?;
    if duration.is_zero() {
        return Err(document.error(
            place,
            format!("`{text}` is no time at all"),
            "write a duration above zero, as `30s`",
        ));
    }
    Ok(duration)
}

fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let bounded = number.starts_with(|c: char| c.is_ascii_digit()) && !number.ends_with('.');
    let number: f64 = bounded.then(|| number.parse().ok())??;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (duration <= DURATION_MAX).then_some(duration)
}

pub(crate) fn rate(
    document: &Document<'_>,
    place: &Place<'_>,
    rate: f64,
    max: f64,
) -> Result<(), ScenarioError> {
    if rate > 0.0 && rate <= max {
        return Ok(());
    }
    Err(document.error(
        place,
        format!("rate {rate}, expected more than 0 and at most {max}"),
        "write requests per second, as `rate = 50`",
    ))
}

pub(crate) fn method(
    document: &Document<'_>,
    place: &Place<'_>,
    method: &str,
) -> Result<(), ScenarioError> {
    let fix = if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        format!("write it upper-case: `{}`", method.to_ascii_uppercase())
    } else {
        "write GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS".to_owned()
    };
    let upper = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    let token = !method.is_empty() && method.len() <= 20 && method.bytes().all(upper);
    if !token {
        return Err(document.error(place, format!("`{method}` is no HTTP method"), fix));
    }
    if matches!(method, "CONNECT" | "TRACE") {
        return Err(document.error(place, format!("{method} is not a request to a route"), fix));
    }
    Ok(())
}

/// A text with variables; who uses which is checked elsewhere.
pub(crate) fn template(
    document: &Document<'_>,
    place: &Place<'_>,
    text: &str,
) -> Result<Template, ScenarioError> {
    Template::parse(text).map_err(|error| template_error(document, place, &error))
}

pub(crate) fn template_error(
    document: &Document<'_>,
    place: &Place<'_>,
    error: &TemplateError,
) -> ScenarioError {
    let fix = "write a variable as `${name}`, and a literal `${` as `$${`";
    document.error(place, error.to_string(), fix)
}

pub(crate) fn path(
    document: &Document<'_>,
    place: &Place<'_>,
    text: &str,
) -> Result<Template, ScenarioError> {
    if !text.starts_with('/') {
        return Err(document.error(
            place,
            format!("the path `{text}` does not start with `/`"),
            "write the route alone, as `/api/v1/usage`; the host comes from `--target`",
        ));
    }
    if text.contains(['?', '#']) {
        return Err(document.error(
            place,
            format!("the path `{text}` has a `?` or `#`"),
            "put parameters into `query = { … }`; for these characters themselves write `%3F`, `%23`",
        ));
    }
    if text.chars().any(|c| c.is_control()) {
        return Err(document.error(
            place,
            "the path has a control character",
            "take it out of the path",
        ));
    }
    template(document, place, text)
}

pub(crate) fn literal_path(
    document: &Document<'_>,
    place: &Place<'_>,
    text: &str,
) -> Result<String, ScenarioError> {
    let parsed = path(document, place, text)?;
    match parsed.as_literal() {
        Some(literal) => {
            let mut encoded = String::new();
            crate::encode::push_path(literal, &mut encoded);
            Ok(encoded)
        }
        None => Err(document.error(
            place,
            "the probe's path has a variable",
            "write the route without variables, as `/health`",
        )),
    }
}

fn is_header_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

fn is_of_the_engine(name: &str) -> bool {
    let mut headers = ENGINE_HEADERS.iter();
    headers.any(|header| header.eq_ignore_ascii_case(name))
}

/// Whether a scenario may send a header of this name.
pub(crate) fn is_sendable_header(name: &str) -> bool {
    is_header_name(name) && !is_of_the_engine(name)
}

/// A header's name in lower case.
pub(crate) fn header_name(
    document: &Document<'_>,
    place: &Place<'_>,
    name: &str,
) -> Result<String, ScenarioError> {
    if !is_header_name(name) {
        return Err(document.error(
            place,
            format!("`{name}` is no header name"),
            "use letters, digits and `-`, as `x-request-id`",
        ));
    }
    Ok(name.to_ascii_lowercase())
}

/// A header to be sent.
pub(crate) fn sent_header_name(
    document: &Document<'_>,
    place: &Place<'_>,
    name: &str,
) -> Result<String, ScenarioError> {
    let name = header_name(document, place, name)?;
    if is_of_the_engine(&name) {
        return Err(document.error(
            place,
            format!("`{name}` is set by the load engine"),
            "take it out: it follows from the target and the body",
        ));
    }
    Ok(name)
}

/// A JSON pointer, RFC 6901.
pub(crate) fn pointer(
    document: &Document<'_>,
    place: &Place<'_>,
    pointer: &str,
) -> Result<(), ScenarioError> {
    let rooted = pointer.is_empty() || pointer.starts_with('/');
    let escaped = pointer
        .split('~')
        .skip(1)
        .all(|after| after.starts_with(['0', '1']));
    if rooted && escaped {
        return Ok(());
    }
    let (what, fix) = if rooted {
        (
            "has a `~` that is neither `~0` nor `~1`",
            "write `~0` for `~` and `~1` for `/` in a key".to_owned(),
        )
    } else {
        let meant = pointer.trim_start_matches("$.").replace('.', "/");
        ("does not start with `/`", format!("write `/{meant}`"))
    };
    Err(document.error(place, format!("the JSON pointer `{pointer}` {what}"), fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(parse_duration("1.5ms"), Some(Duration::from_micros(1500)));
        assert_eq!(parse_duration("0ms"), Some(Duration::ZERO));
        assert_eq!(parse_duration("24h"), Some(DURATION_MAX));
        for bad in [
            "", "30", "s", ".5s", "1.s", "-1s", "1 s", "1d", "25h", "1e3s", "1.2.3s",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
