//! Who calls. Tokens are checked without any I/O, as a signed token would be.

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use crate::refusal::Refusal;

/// Users `u-0` … that the seeds bring.
pub const SEEDED_USERS: u32 = 200;
/// The user of a request without credentials: the service runs in development mode.
const DEFAULT_USER: &str = "u-0";

/// The caller of a v1 route: `Authorization: Bearer token-<uid>`, or no such header at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Their id.
    pub uid: String,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Some(header) = parts.headers.get(header::AUTHORIZATION) else {
            return Ok(Self {
                uid: DEFAULT_USER.to_owned(),
            });
        };
        header
            .to_str()
            .ok()
            .and_then(user_of)
            .map(|uid| Self {
                uid: uid.to_owned(),
            })
            .ok_or(Refusal::Unauthorized)
    }
}

/// The user of an `Authorization` header's value, if its token is one that was given out.
fn user_of(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let uid = token.trim().strip_prefix("token-")?;
    (scheme.eq_ignore_ascii_case("bearer") && is_known(uid)).then_some(uid)
}

fn is_known(uid: &str) -> bool {
    let Some(name) = uid.strip_prefix("u-") else {
        return false;
    };
    matches!(name, "free" | "pro")
        || name
            .parse::<u32>()
            .is_ok_and(|number| number < SEEDED_USERS && number.to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_of_seeded_users_are_good() {
        assert_eq!(user_of("Bearer token-u-0"), Some("u-0"));
        assert_eq!(user_of("bearer token-u-199"), Some("u-199"));
        assert_eq!(user_of("Bearer token-u-free"), Some("u-free"));
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer u-0",
            "Basic token-u-0",
            "Bearer token-u-200",
            "Bearer token-u-007",
            "Bearer token-u-+1",
            "Bearer token-",
        ] {
            assert_eq!(user_of(bad), None, "{bad}");
        }
    }
}
