//! A credential, which is in memory for one operation and nowhere else.

use std::fmt;

use zeroize::Zeroizing;

use super::Invalid;

const KIND: &str = "access token";

/// A token of a code host. Its memory is overwritten when it is dropped.
///
/// It has neither `Clone`, `Display` nor any form that can be stored, and `Debug` doesn't show it.
pub struct AuthToken(Zeroizing<String>);

impl AuthToken {
    /// Takes the text, without a copy of it.
    ///
    /// # Errors
    /// When it is empty or has white space or control characters, which would end the line that hands
    /// it to git. The error doesn't show it.
    pub fn parse(text: String) -> Result<Self, Invalid> {
        let token = Self(Zeroizing::new(text));
        if token.0.is_empty() {
            return Err(Invalid::unshown(KIND, "it must not be empty"));
        }
        if token.0.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Invalid::unshown(
                KIND,
                "it must have no white space or control characters; was a line break copied along?",
            ));
        }
        Ok(token)
    }

    /// The secret itself, for the one operation that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AuthToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AuthToken(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_an_error_shows_the_secret() {
        let token = AuthToken::parse("ghp_secret".to_owned()).expect("a token");
        assert_eq!(format!("{token:?}"), "AuthToken(hidden)");
        assert_eq!(token.expose(), "ghp_secret");
        for text in ["", "ghp_secret\n", "ghp secret", "ghp_secret\0"] {
            let refused = AuthToken::parse(text.to_owned()).expect_err("no token");
            assert!(!format!("{refused} {refused:?}").contains("secret"));
        }
    }
}
