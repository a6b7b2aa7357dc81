//! ID tokens of sign-in services, in development mode.
//!
//! A real service checks a signature against keys that it keeps, which costs CPU and no I/O.
//! This one runs on private servers and trusts any token of the form `id-token-<address>`, so that
//! a scenario can write one for each of its users. Nothing of worth may stand behind it.

use crate::email;

/// What every token begins with.
const PREFIX: &str = "id-token-";
/// Sign-in services whose tokens are accepted.
const SERVICES: [&str; 4] = ["azure", "google", "okta", "saml"];

/// What a token vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The provider type of the service.
    pub provider_type: String,
    /// The user's id at the service: its name, a colon and the address.
    pub provider_uid: String,
    /// The user's address, in lower case.
    pub email: String,
}

/// Checks a token of a sign-in service; `None` if the service is unknown or the token isn't good.
#[must_use]
pub fn verify(service: &str, token: &str) -> Option<Identity> {
    let service = service.to_lowercase();
    let address = email::normalised(token.strip_prefix(PREFIX)?);
    (SERVICES.contains(&service.as_str()) && email::is_address(&address)).then(|| Identity {
        provider_type: format!("sso_{service}"),
        provider_uid: format!("{service}:{address}"),
        email: address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_vouches_for_an_address_at_a_service() {
        let identity = verify("Google", "id-token-U-3@example.test").expect("good");
        assert_eq!(identity.provider_type, "sso_google");
        assert_eq!(identity.provider_uid, "google:u-3@example.test");
        assert_eq!(identity.email, "u-3@example.test");
    }

    #[test]
    fn anything_else_is_refused() {
        for (service, token) in [
            ("github", "id-token-u-3@example.test"),
            ("", "id-token-u-3@example.test"),
            ("google", "token-u-3"),
            ("google", "id-token-"),
            ("google", "id-token-u-3"),
            ("google", ""),
        ] {
            assert_eq!(verify(service, token), None, "{service} {token}");
        }
    }
}
