//! Fingerprints of texts, for keys and names that must not collide.

use sha2::{Digest, Sha256};

/// SHA-256 of several texts as 64 hexadecimal digits. Each text's length goes in before it, so that no
/// two lists of texts are the same bytes.
pub(crate) fn digest_hex(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_one_text_ends_makes_a_difference() {
        assert_ne!(digest_hex(&["ab", "c"]), digest_hex(&["a", "bc"]));
        assert_ne!(digest_hex(&["a"]), digest_hex(&["a", ""]));
        assert_eq!(digest_hex(&["a"]).len(), 64);
    }
}
