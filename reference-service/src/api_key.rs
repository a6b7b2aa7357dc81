//! Who calls a v2 route: `X-API-Key: sk-<64 hex>`, of which the database has a hash, or the
//! administrator's key, which acts for the user that `X-User-Id` names.

use std::fmt;
use std::str::FromStr;

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::stores::api_keys::ApiKeyStore;

const HEADER: &str = "x-api-key";
const USER_HEADER: &str = "x-user-id";
const PREFIX: &str = "sk-";
const HEX_DIGITS: usize = 64;

/// The administrator's key. Its hash is kept and compared, so that neither a log nor the time of a
/// comparison tells anything of it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminKey {
    hash: String,
}

impl AdminKey {
    fn is(&self, key: &str) -> bool {
        self.hash == sha256(key)
    }
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminKey(…)")
    }
}

/// A text that no header could bring.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a key has one visible ASCII character at least, and no other ones")]
pub struct NoKey;

impl FromStr for AdminKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NoKey);
        }
        Ok(Self { hash: sha256(text) })
    }
}

/// The caller of a request with these headers. What isn't a key costs no look-up.
///
/// # Errors
/// [`Refusal::InvalidApiKey`] if there is no key, or it is nobody's; [`Refusal::InvalidUserId`] if it
/// is the administrator's and the request names nobody to act for.
pub async fn caller(
    store: &dyn ApiKeyStore,
    admin: Option<&AdminKey>,
    headers: &HeaderMap,
) -> Result<Caller, Refusal> {
    let key = text(headers, HEADER).ok_or(Refusal::InvalidApiKey)?;
    if admin.is_some_and(|admin| admin.is(key)) {
        let uid = text(headers, USER_HEADER).ok_or(Refusal::InvalidUserId)?;
        return match store.is_user(uid).await? {
            true => Ok(Caller {
                uid: uid.to_owned(),
            }),
            false => Err(Refusal::InvalidUserId),
        };
    }
    let hash = hash(key).ok_or(Refusal::InvalidApiKey)?;
    match store.user_of_key(&hash).await? {
        Some(uid) => Ok(Caller { uid }),
        None => Err(Refusal::InvalidApiKey),
    }
}

/// A header's value. One that is no text names nothing.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The hash of a key that is one.
fn hash(key: &str) -> Option<String> {
    let digits = key.strip_prefix(PREFIX)?;
    let is_hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    (digits.len() == HEX_DIGITS && digits.bytes().all(is_hex)).then(|| sha256(key))
}

/// In hexadecimal digits.
fn sha256(text: &str) -> String {
    let bytes = Sha256::digest(text.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_key_has_a_hash() {
        let key = format!("sk-{:064x}", 3);
        let found = hash(&key).expect("a key");
        assert_eq!(found.len(), HEX_DIGITS);
        assert_ne!(Some(found), hash(&format!("sk-{:064x}", 4)));
        for bad in [
            "",
            "sk-",
            &key[3..],
            &key[..66],
            &format!("{key}0"),
            &key.replace('3', "G"),
            &key.replace('3', "F"),
        ] {
            assert_eq!(hash(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_administrators_key_is_a_text_that_a_header_takes_and_is_never_shown() {
        let admin: AdminKey = "secret-1".parse().expect("a key");
        assert!(admin.is("secret-1"));
        assert!(!admin.is("secret-2") && !admin.is(""));
        assert_eq!(format!("{admin:?}"), "AdminKey(…)");
        for bad in ["", " ", "two words", "schlüssel", "line\n"] {
            assert_eq!(bad.parse::<AdminKey>(), Err(NoKey), "{bad:?}");
        }
    }
}
