//! Scenario files out of what people have already: curl command lines, browsers' HAR recordings,
//! OpenAPI descriptions.
//!
//! Each importer reads its format into a `Draft`, a scenario in which nothing is final; the
//! writer turns that into a file for people, with a comment wherever something could not be kept.
//! Credentials never get into the file: they become secret variables that the environment fills.
//!
//! ```
//! let imported = unstall_scenarios::import::curl(
//!     "curl https://api.example/v1/usage -H 'authorization: Bearer abc123'",
//!     &unstall_scenarios::import::Options::default(),
//! )?;
//! assert!(imported.text.contains("path = \"/v1/usage\""));
//! assert!(!imported.text.contains("abc123"));
//! # Ok::<(), unstall_scenarios::import::ImportError>(())
//! ```

mod ambient;
mod content;
mod curl;
mod curl_call;
mod curl_options;
mod curl_values;
mod draft;
mod har;
mod mend;
mod multipart;
mod openapi;
mod openapi_content;
mod openapi_security;
mod sample;
mod scrub;
mod scrub_json;
mod secret_names;
mod secrets;
mod shell;
mod url;
mod writer;
mod yaml;

use draft::Draft;

/// A scenario file made of something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The file's text, which `unstall scenarios check` passes.
    pub text: String,
    /// What should be known before it is used: what was left out, where it was sent.
    pub notes: Vec<String>,
}

/// How an import is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The scenario's name; `None`: by what is imported.
    pub name: Option<String>,
    /// Of a recording, the hosts whose requests are kept; the first is the target. Empty: the host
    /// with the most requests that aren't static.
    pub hosts: Vec<String>,
    /// Of a recording, whether images, styles, scripts and fonts are kept, too.
    pub keeps_static: bool,
}

/// Something that can't be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}\n  fix: {fix}")]
pub struct ImportError {
    /// `line 3`, or a JSON pointer into a document.
    pub place: String,
    /// What was found, and what was expected.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl ImportError {
    fn new(place: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
            fix: fix.into(),
        }
    }

    fn at_line(line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(format!("line {line}"), what, fix)
    }
}

/// Imports curl command lines, as they stand in documentation, or as a browser copies them.
///
/// # Errors
/// An unknown option, a shell construct that needs a shell, or no curl command at all.
pub fn curl(text: &str, options: &Options) -> Result<Imported, ImportError> {
    finish(curl::read(text)?, options)
}

/// Imports a browser's recording (HAR 1.2).
///
/// # Errors
/// Not a recording, or one that keeps no request.
pub fn har(text: &str, options: &Options) -> Result<Imported, ImportError> {
    finish(har::read(text, options)?, options)
}

/// Imports an OpenAPI 3.0 or 3.1 description, in JSON or YAML: one request per operation.
///
/// # Errors
/// Not a description, or a reference that leads nowhere.
pub fn openapi(text: &str, options: &Options) -> Result<Imported, ImportError> {
    finish(openapi::read(text)?, options)
}

fn finish(mut draft: Draft, options: &Options) -> Result<Imported, ImportError> {
    if let Some(name) = &options.name {
        draft.name.clone_from(name);
    }
    draft.name = scenario_name(&draft.name);
    if draft.requests.is_empty() {
        return Err(ImportError::new(
            "the whole input",
            "there is no request to import",
            "see what was left out with `--all`, or name other hosts with `--host`",
        ));
    }
    draft.complete();
    Ok(Imported {
        text: writer::write(&draft),
        notes: draft.notes,
    })
}

/// What a scenario may be called, out of any title.
fn scenario_name(title: &str) -> String {
    let mut name = String::new();
    for letter in title.chars().take(60) {
        let letter = letter.to_ascii_lowercase();
        if letter.is_ascii_lowercase() || letter.is_ascii_digit() {
            name.push(letter);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "imported" } else { name }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_title_becomes_a_name() {
        assert_eq!(
            scenario_name("Swagger Petstore – 3.0!"),
            "swagger-petstore-3-0"
        );
        assert_eq!(scenario_name("  "), "imported");
        assert_eq!(scenario_name("ÄÖÜ"), "imported");
    }
}
