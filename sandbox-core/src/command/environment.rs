//! What the environment says, taken as it is or refused: what can't be read isn't taken for nothing.

use std::env::VarError;

use super::failure::Failure;

/// A variable's text; nothing if it is unset or empty.
///
/// # Errors
/// When it isn't UTF-8. It isn't shown, since it may be a secret.
pub(super) fn text(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure::Usage(format!(
            "the environment variable {name} isn't UTF-8; set it anew, or unset it"
        ))),
    }
}
