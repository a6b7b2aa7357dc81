//! Files that a scenario names: read whole at load, so that nothing can fail under load, and
//! part of the scenario's identity.

use std::sync::Arc;

use crate::document::{Document, Place};
use crate::error::ScenarioError;

/// A larger body is held once for each user that sends it.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The bytes of a file beside the scenario.
pub(crate) fn bytes(
    document: &Document<'_>,
    place: &Place<'_>,
    file: &str,
) -> Result<Arc<[u8]>, ScenarioError> {
    let path = document.beside(file);
    let unreadable = |error: std::io::Error| {
        document.error(
            place,
            format!("the file {} can't be read: {error}", path.display()),
            "paths are taken from the scenario's folder; check name and permissions",
        )
    };
    let metadata = std::fs::metadata(&path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(document.error(
            place,
            format!("{} is no regular file", path.display()),
            "name a file beside the scenario",
        ));
    }
    let length = metadata.len();
    if length > BYTES_MAX {
        return Err(document.error(
            place,
            format!(
                "the file {} has {length} bytes, expected at most {BYTES_MAX}",
                path.display()
            ),
            "send a smaller file",
        ));
    }
    let bytes = std::fs::read(&path).map_err(unreadable)?;
    document.identify_by(&bytes);
    Ok(bytes.into())
}
