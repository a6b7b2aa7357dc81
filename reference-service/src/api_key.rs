//! Who calls a v2 route: `X-API-Key: sk-<64 hex>`, of which the database has a hash.

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::stores::api_keys::ApiKeyStore;

const HEADER: &str = "x-api-key";
const PREFIX: &str = "sk-";
const HEX_DIGITS: usize = 64;

/// The caller of a request with these headers. What isn't a key costs no look-up.
///
/// # Errors
/// [`Refusal::InvalidApiKey`] if there is no key, or it is nobody's.
pub async fn caller(store: &dyn ApiKeyStore, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let key = headers.get(HEADER).and_then(|value| value.to_str().ok()); // not text: no key
    let hash = key.and_then(hash).ok_or(Refusal::InvalidApiKey)?;
    match store.user_of_key(&hash).await? {
        Some(uid) => Ok(Caller { uid }),
        None => Err(Refusal::InvalidApiKey),
    }
}

/// The hash of a key that is one.
fn hash(key: &str) -> Option<String> {
    let digits = key.strip_prefix(PREFIX)?;
    let is_hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    (digits.len() == HEX_DIGITS && digits.bytes().all(is_hex))
        .then(|| hex(&Sha256::digest(key.as_bytes())))
}

fn hex(bytes: &[u8]) -> String {
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
}
