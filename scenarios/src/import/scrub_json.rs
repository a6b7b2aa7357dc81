//! Credentials in a text that looks like JSON: numbers keep their digits, variables of a shell may
//! stand anywhere, and what isn't JSON for a parser is read as far as it goes.

use super::scrub::scrub_at;
use super::secret_names::is_secret_name;
use super::secrets::Secrets;

/// A text with variables in the places of the strings and numbers that belong to a credential's
/// name, or to what stands below one.
pub(super) fn scrub(text: &str, secrets: &mut Secrets, depth: usize) -> String {
    let mut reader = Reader {
        rest: text,
        out: String::with_capacity(text.len()),
        open: Vec::new(),
        key: None,
        secrets,
        depth,
    };
    while reader.step() {}
    reader.out
}

struct Reader<'t, 's> {
    rest: &'t str,
    out: String,
    /// For each list or object around: the credential's name that it is below.
    open: Vec<Option<String>>,
    /// The key whose value comes next.
    key: Option<String>,
    secrets: &'s mut Secrets,
    depth: usize,
}

impl Reader<'_, '_> {
    /// The next token; whether there was one.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        match first {
            '"' => self.string(),
            '{' | '[' => {
                let below = self.secret_name();
                self.open.push(below);
                self.key = None;
                self.copy(1);
            }
            '}' | ']' => {
                self.open.pop();
                self.key = None;
                self.copy(1);
            }
            ',' => {
                self.key = None;
                self.copy(1);
            }
            _ => self.bare(),
        }
        true
    }

    fn copy(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.out.push_str(taken);
        self.rest = rest;
    }

    /// The credential's name that a value here belongs to.
    fn secret_name(&self) -> Option<String> {
        let own = self.key.as_ref().filter(|key| is_secret_name(key));
        own.cloned().or_else(|| self.open.last().cloned().flatten())
    }

    fn string(&mut self) {
        let Some(end) = closing_quote(self.rest) else {
            self.copy(self.rest.len());
            return;
        };
        let inner = &self.rest[1..end];
        let behind = &self.rest[end + 1..];
        if behind.trim_start().starts_with(':') {
            let key = unescaped(inner);
            self.copy(end + 1);
            self.copy(self.rest.find(':').map_or(0, |colon| colon + 1));
            self.key = Some(key);
            return;
        }
        let plain = unescaped(inner);
        let hidden = match self.secret_name() {
            Some(name) => self.secrets.hide_value(&name, &plain),
            None => scrub_at(&plain, self.secrets, self.depth + 1),
        };
        self.out.push('"');
        if hidden == plain {
            self.out.push_str(inner);
        } else {
            self.out.push_str(&escaped(&hidden));
        }
        self.out.push('"');
        self.rest = behind;
        self.key = None;
    }

    /// A number, a word, a variable, blanks.
    fn bare(&mut self) {
        let mut end = 0;
        let mut letters = self.rest.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let is_variable = letter == '$' && letters.peek().is_some_and(|(_, next)| *next == '{');
            if is_variable {
                // Up to its brace, which closes nothing else.
                let close = self.rest[at..]
                    .find('}')
                    .map_or(self.rest.len(), |c| at + c + 1);
                while letters.next_if(|(at, _)| *at < close).is_some() {}
                end = close;
                continue;
            }
            if matches!(letter, '"' | '{' | '}' | '[' | ']' | ',') {
                break;
            }
            end = at + letter.len_utf8();
        }
        let run = &self.rest[..end];
        let value = run.trim();
        let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '-')
            && value.parse::<f64>().is_ok();
        match self.secret_name().filter(|_| is_number) {
            Some(name) => {
                let hidden = self.secrets.hide_value(&name, value);
                self.out.push_str(&run.replace(value, &hidden));
                self.rest = &self.rest[end..];
            }
            None => self.copy(end),
        }
    }
}

/// Where a string that begins with its quote ends.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().skip(1).find_map(|(at, letter)| {
        if is_escaped {
            is_escaped = false;
            return None;
        }
        is_escaped = letter == '\\';
        (letter == '"').then_some(at)
    })
}

fn unescaped(inner: &str) -> String {
    // What isn't a string of JSON is taken as it stands.
    serde_json::from_str(&format!("\"{inner}\"")).unwrap_or_else(|_| inner.to_owned())
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_below_a_credentials_name_are_hidden() {
        for (text, expected) in [
            (
                r#"{"amount": 10.00, "password": "hush"}"#,
                r#"{"amount": 10.00, "password": "${password}"}"#,
            ),
            (
                r#"{"id": ${ID}, "password" : "hush","pin":12.50}"#,
                r#"{"id": ${ID}, "password" : "${password}","pin":${pin}}"#,
            ),
            (
                r#"{"credentials": {"a": ["hush", true]}, "a": "b"}"#,
                r#"{"credentials": {"a": ["${credentials}", true]}, "a": "b"}"#,
            ),
            (
                r#"{"inner": "{\"token\": \"hush\", \"n\": 1}"}"#,
                r#"{"inner": "{\"token\": \"${token}\", \"n\": 1}"}"#,
            ),
            (r#"{"token": "a\"b", }"#, r#"{"token": "${token}", }"#),
            (r#"{"token": "${T}"}"#, r#"{"token": "${T}"}"#),
        ] {
            assert_eq!(scrub(text, &mut Secrets::default(), 0), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_holds_no_credential_stays(text in "[\\PC\n]{0,60}|[a:,\"\\\\{}\\[\\]$ 1]{0,40}") {
            prop_assert_eq!(scrub(&text, &mut Secrets::default(), 0), text);
        }
    }
}
