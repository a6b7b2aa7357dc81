//! What is a credential, by its name. A name that is wrongly taken for one costs a variable; one
//! that isn't known costs a key: where in doubt it is one.

/// Anywhere in a name, without its separators.
const PARTS: [&str; 19] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "credential",
    "authorization",
    "signature",
    "sessionid",
    "sessid",
    "privatekey",
    "subscriptionkey",
    "masterkey",
    "signingkey",
    "otpcode",
    "clientassertion",
];
/// The whole name.
const WHOLE: [&str; 3] = ["xauth", "assertion", "cookie"];
/// The whole name, or its last word.
const WORDS: [&str; 10] = [
    "pwd", "pw", "pass", "sid", "jwt", "otp", "pin", "auth", "sig", "psk",
];
/// How many tokens a model may write is no credential.
const COUNTED: [&str; 5] = [
    "tokens",
    "tokencount",
    "tokenlimit",
    "tokentype",
    "tokenizer",
];
/// Several of these are credentials all the same.
const TOKENS: [&str; 8] = [
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "idtoken",
    "apitoken",
    "sessiontoken",
    "csrftoken",
    "bearertoken",
];
/// Headers whose key opens nothing.
const KEYS_OF_NOTHING: [&str; 3] = ["idempotency-key", "x-idempotency-key", "surrogate-key"];
/// A parameter `code` of fewer letters is one of a country, a language or an error.
const CODE_CHARS_MIN: usize = 16;

/// Whether a header carries a credential.
pub(super) fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if KEYS_OF_NOTHING.contains(&name.as_str()) {
        return false;
    }
    matches!(
        name.as_str(),
        "authorization" | "cookie" | "proxy-authorization"
    ) || is_secret_name(&name)
        || name == "key"
        || name.ends_with("-key")
        || name.ends_with("_key")
        || name.contains("session")
}

/// Whether a parameter of a URL carries a credential.
pub(super) fn is_secret_parameter(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_secret_name(name)
        || matches!(lower.as_str(), "key" | "session" | "sess")
        || (lower == "code" && value.chars().count() >= CODE_CHARS_MIN)
}

/// Whether a field, parameter or variable of this name holds a credential.
pub(super) fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    if TOKENS.iter().any(|word| plain.contains(word)) {
        return !plain.contains("tokentype");
    }
    // Without what is counted something else may be left.
    let plain = COUNTED
        .iter()
        .fold(plain, |plain, counted| plain.replace(counted, ""));
    PARTS.iter().any(|part| plain.contains(part))
        || WHOLE.contains(&plain.as_str())
        || WORDS.contains(&plain.as_str())
        || WORDS.contains(&last_word(name).as_str())
}

/// What is behind the last separator or hump, in small letters; separators at the end, as of
/// `user[pwd]`, are none.
fn last_word(name: &str) -> String {
    let name = name.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let mut word = String::new();
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() || (letter.is_ascii_uppercase() && was_small) {
            word.clear();
        }
        if letter.is_ascii_alphanumeric() {
            word.push(letter.to_ascii_lowercase());
        }
        was_small = !letter.is_ascii_uppercase();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_their_names() {
        for name in [
            "password",
            "Client-Secret",
            "access_token",
            "refresh_tokens",
            "X-Api-Key",
            "x-csrf-token",
            "refreshToken",
            "PWD",
            "sessionId",
            "PHPSESSID",
            "connect.sid",
            "db_pass",
            "smtpPass",
            "user[pwd]",
            "passcode",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "max_tokens",
            "token_type",
            "key",
            "id",
            "author",
            "passenger",
            "bypass",
            "content",
            "code",
            "spin",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn headers_and_parameters_have_names_of_their_own() {
        for name in [
            "X-Auth-Key",
            "Ocp-Apim-Subscription-Key",
            "DD-APPLICATION-KEY",
            "x-functions-key",
            "X-Session",
            "Cookie",
        ] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in ["Idempotency-Key", "Accept", "X-Keyboard", "If-Match"] {
            assert!(!is_secret_header(name), "{name}");
        }
        assert!(is_secret_parameter("key", "x") && is_secret_parameter("sig", "x"));
        assert!(is_secret_parameter("code", "0123456789abcdef"));
        assert!(!is_secret_parameter("code", "US") && !is_secret_parameter("sort_key", "x"));
    }
}
