//! E-mail addresses: whether a text is one, and whose it may be.

/// RFC 5321 §4.5.3.1.1, in bytes.
const LOCAL_PART_MAX: usize = 64;
/// RFC 5321 §4.5.3.1.3 less the angle brackets, in bytes.
const ADDRESS_MAX: usize = 254;

/// Domains whose addresses belong to persons and not to firms; new accounts aren't made for them.
const PERSONAL_DOMAINS: [&str; 12] = [
    "aol.com",
    "gmail.com",
    "gmx.com",
    "googlemail.com",
    "hotmail.com",
    "icloud.com",
    "live.com",
    "mail.com",
    "outlook.com",
    "proton.me",
    "protonmail.com",
    "yahoo.com",
];

/// An address as accounts are looked up by: no white space around it, lower case.
#[must_use]
pub fn normalised(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Whether a text has the form of an address: one `@`, something before it, a domain with a dot
/// behind it. Only a mail to it could tell more.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else {
        return false;
    };
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"(),:;<>[]\\".contains(&byte));
    let has_labels = domain.contains('.')
        && domain.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        });
    text.len() <= ADDRESS_MAX
        && (1..=LOCAL_PART_MAX).contains(&local.len())
        && is_plain
        && has_labels
}

/// Whether an address is one of the large providers of private mail.
#[must_use]
pub fn is_personal(address: &str) -> bool {
    address
        .rsplit_once('@')
        .is_some_and(|(_, domain)| PERSONAL_DOMAINS.contains(&domain.to_lowercase().as_str()))
}

/// What stands before the `@`, for people without a name.
#[must_use]
pub fn local_part(address: &str) -> &str {
    address.split('@').next().unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_form() {
        for good in ["u-0@example.test", "a.b+c@mail.example.co.uk", "A@B.C"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "@",
            "a@",
            "@example.test",
            "a@example",
            "a@.test",
            "a@example..test",
            "a@-example.test",
            "a@exam_ple.test",
            "a b@example.test",
            "a@b@example.test",
            "a\u{0}@example.test",
            "ä@example.test",
            "a,b@example.test",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
        let long = |local: usize| format!("{}@example.test", "x".repeat(local));
        assert!(is_address(&long(64)));
        assert!(!is_address(&long(65)));
        assert!(!is_address(&format!("a@{}.test", "x".repeat(250))));
    }

    #[test]
    fn personal_addresses_are_told_by_their_domain() {
        assert!(is_personal("someone@gmail.com"));
        assert!(is_personal("someone@GMail.com"));
        assert!(!is_personal("gmail.com@example.test"));
        assert!(!is_personal("someone@example.test"));
        assert_eq!(local_part("someone@example.test"), "someone");
    }
}
