//! Texts with `${variables}`: cut into parts once at load, so that rendering under
//! load only concatenates.
//!
//! `${name}` is a variable, `$${` stands for a literal `${`, and a lone `$` for itself.

use crate::plan::{JsonBody, JsonPart, Part, Template};

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `${` without `}`.
    #[error("`${{` without a closing `}}`")]
    Unclosed,
    /// `${…}` with something that is no name.
    #[error(
        "`${{{0}}}` is not a variable: a name is made of letters, digits, `_` and `-`, and starts with a letter or `_`"
    )]
    Name(String),
}

/// Whether this can be a variable's name.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl Template {
    /// Cuts a text into literal and variable parts.
    ///
    /// # Errors
    /// An unclosed `${`, or a name that is none.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                literal.push_str(&rest[..at - 1]);
                literal.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            literal.push_str(&rest[..at]);
            let after = &rest[at + 2..];
            let end = after.find('}').ok_or(TemplateError::Unclosed)?;
            let name = &after[..end];
            if !is_variable_name(name) {
                return Err(TemplateError::Name(name.chars().take(60).collect()));
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Variable(name.to_owned()));
            rest = &after[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// A text without variables.
    pub fn literal(text: impl Into<String>) -> Self {
        Self {
            parts: vec![Part::Literal(text.into())],
        }
    }

    /// The names of the variables used, in order, with repeats.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// The text, when no variable is used.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

/// The text as a scenario file has it.
impl std::fmt::Display for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Literal(text) => f.write_str(&text.replace("${", "$${")),
            Part::Variable(name) => write!(f, "${{{name}}}"),
        })
    }
}

impl JsonBody {
    /// Serialises a document around the variables in its strings. A string that is
    /// nothing but one variable takes the variable's type.
    ///
    /// # Errors
    /// A string that is no template. Keys are taken as they stand.
    pub fn compile(document: &serde_json::Value) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut text = String::new();
        compile_into(document, &mut text, &mut parts)?;
        if !text.is_empty() {
            parts.push(JsonPart::Text(text));
        }
        Ok(Self { parts })
    }

    /// The names of the variables used, in order, with repeats.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            JsonPart::Value(name) | JsonPart::Inside(name) => Some(name.as_str()),
            JsonPart::Text(_) => None,
        })
    }
}

/// The document as a scenario file means it, with its variables.
impl std::fmt::Display for JsonBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            JsonPart::Text(text) => f.write_str(text),
            JsonPart::Value(name) => write!(f, "\"${{{name}}}\""),
            JsonPart::Inside(name) => write!(f, "${{{name}}}"),
        })
    }
}

fn compile_into(
    value: &serde_json::Value,
    text: &mut String,
    parts: &mut Vec<JsonPart>,
) -> Result<(), TemplateError> {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::String(string) => compile_string(&Template::parse(string)?, text, parts),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                compile_into(item, text, parts)?;
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (at, (key, field)) in fields.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push('"');
                push_json_escaped(key, text);
                text.push_str("\":");
                compile_into(field, text, parts)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

fn compile_string(template: &Template, text: &mut String, parts: &mut Vec<JsonPart>) {
    let flush = |text: &mut String, parts: &mut Vec<JsonPart>| {
        if !text.is_empty() {
            parts.push(JsonPart::Text(std::mem::take(text)));
        }
    };
    if let [Part::Variable(name)] = template.parts.as_slice() {
        flush(text, parts);
        parts.push(JsonPart::Value(name.clone()));
        return;
    }
    text.push('"');
    for part in &template.parts {
        match part {
            Part::Literal(literal) => push_json_escaped(literal, text),
            Part::Variable(name) => {
                flush(text, parts);
                parts.push(JsonPart::Inside(name.clone()));
            }
        }
    }
    text.push('"');
}

/// Appends what stands between the quotes of a JSON string.
pub(crate) fn push_json_escaped(raw: &str, out: &mut String) {
    use std::fmt::Write as _;
    for c in raw.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                // Writing to a String can't fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Part {
        Part::Variable(name.into())
    }

    fn literal(text: &str) -> Part {
        Part::Literal(text.into())
    }

    #[test]
    fn cuts_literals_and_variables() {
        let parsed = Template::parse("/a/${id}/b${x-1}").unwrap();
        assert_eq!(
            parsed.parts,
            [
                literal("/a/"),
                variable("id"),
                literal("/b"),
                variable("x-1")
            ]
        );
        assert_eq!(Template::parse("").unwrap().as_literal(), Some(""));
    }

    #[test]
    fn doubles_escape_and_lone_dollars_stay() {
        assert_eq!(
            Template::parse("a$${b} $5 $").unwrap().as_literal(),
            Some("a${b} $5 $")
        );
    }

    #[test]
    fn rejects_what_is_no_name() {
        assert_eq!(Template::parse("${a"), Err(TemplateError::Unclosed));
        assert_eq!(
            Template::parse("${}"),
            Err(TemplateError::Name(String::new()))
        );
        assert_eq!(
            Template::parse("${1a}"),
            Err(TemplateError::Name("1a".into()))
        );
        assert_eq!(
            Template::parse("${a b}"),
            Err(TemplateError::Name("a b".into()))
        );
    }

    #[test]
    fn json_keeps_a_variable_alone_apart_from_one_inside_a_string() {
        let body = JsonBody::compile(&serde_json::json!({
            "alone": "${n}", "inside": "u-${n}\"", "list": [1, null, "x"],
        }))
        .unwrap();
        assert_eq!(
            body.to_string(),
            r#"{"alone":"${n}","inside":"u-${n}\"","list":[1,null,"x"]}"#
        );
        assert!(body.parts.contains(&JsonPart::Value("n".into())));
        assert!(body.parts.contains(&JsonPart::Inside("n".into())));
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_or_errs_and_its_display_means_the_same(text in "[a$ {}x]{0,20}") {
            if let Ok(template) = Template::parse(&text) {
                let again = Template::parse(&template.to_string()).unwrap();
                proptest::prop_assert_eq!(again, template);
            }
        }

        #[test]
        fn a_document_without_variables_compiles_to_itself(text in "[^$]{0,30}", n in -9i64..9) {
            let document = serde_json::json!({ text.clone(): [text, n, 1.5, true] });
            let compiled = JsonBody::compile(&document).unwrap();
            let back: serde_json::Value = serde_json::from_str(&compiled.to_string()).unwrap();
            proptest::prop_assert_eq!(back, document);
        }
    }
}
