//! YAML, read as JSON would be: descriptions of APIs are written in either.

use serde_json::Value as Json;

use super::ImportError;

/// Reads a YAML document.
pub(super) fn parse(text: &str) -> Result<Json, ImportError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        // It begins with the place, which is told already.
        let reason = match first.split_once(": ") {
            Some(("error", rest)) => rest.split_once(": ").map_or(rest, |(_, reason)| reason),
            _ => first,
        };
        ImportError::at_line(
            usize::try_from(line).unwrap_or(usize::MAX),
            format!("neither JSON nor YAML: {reason}"),
            "mend the YAML here; a description begins with `openapi: 3.1.0`",
        )
    })
}
