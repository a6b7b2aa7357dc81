//! An operation's credentials, by the description's security schemes: each is a secret variable
//! that the environment fills.

use serde_json::Value as Json;

use super::ImportError;
use super::draft::DraftRequest;
use super::openapi::{Import, add_cookie, escaped};
use super::secrets::BASIC_NOTE;

/// One credential: where it goes, and the template of its value.
#[derive(Clone)]
pub(super) enum Credential {
    Header(String, String),
    Query(String, String),
}

impl Import<'_> {
    /// The first of the alternatives that the operation, or the whole API, asks for.
    pub(super) fn security(
        &mut self,
        request: &mut DraftRequest,
        operation: &Json,
        place: &str,
    ) -> Result<(), ImportError> {
        let description = self.description;
        let asked = operation
            .get("security")
            .or(description.root.get("security"));
        let first = asked
            .and_then(Json::as_array)
            .and_then(|asked| asked.first());
        let names: Vec<String> = first
            .and_then(Json::as_object)
            .map(|first| first.keys().cloned().collect())
            .unwrap_or_default();
        for name in names {
            for credential in self.scheme(&name, place)? {
                match credential {
                    Credential::Header(header, value) if header == "cookie" => {
                        let (name, value) = value.split_once('=').unwrap_or(("session", &value));
                        add_cookie(request, name, value);
                    }
                    Credential::Header(header, value) => request.set_header(&header, value),
                    Credential::Query(name, value) => request.query.push((name, value)),
                }
            }
        }
        Ok(())
    }

    fn scheme(&mut self, name: &str, place: &str) -> Result<Vec<Credential>, ImportError> {
        if let Some(known) = self.schemes.get(name) {
            return Ok(known.clone());
        }
        let pointer = format!("/components/securitySchemes/{}", escaped(name));
        let description = self.description;
        let scheme = description.root.pointer(&pointer).ok_or_else(|| {
            ImportError::new(
                format!("{place}/security"),
                format!("there is no security scheme `{name}`"),
                format!("declare it at #{pointer}"),
            )
        })?;
        let scheme = description.resolve(scheme, &format!("#{pointer}"))?;
        let text = |key: &str| scheme[key].as_str().unwrap_or_default();
        let is_basic = text("scheme").eq_ignore_ascii_case("basic");
        let credentials = match (text("type"), text("in")) {
            ("http", _) if is_basic => {
                let value = self.credential_for("basic", "basic_credentials", Some(BASIC_NOTE));
                vec![Credential::Header(
                    "authorization".to_owned(),
                    format!("Basic {value}"),
                )]
            }
            ("http" | "oauth2" | "openIdConnect", _) => {
                let value = self.credential_for("bearer", "token", None);
                vec![Credential::Header(
                    "authorization".to_owned(),
                    format!("Bearer {value}"),
                )]
            }
            ("apiKey", "query") => {
                let value = self.credential_for(&format!("scheme {name}"), name, None);
                vec![Credential::Query(text("name").to_owned(), value)]
            }
            ("apiKey", "cookie") => {
                let value = self.credential_for(&format!("scheme {name}"), name, None);
                vec![Credential::Header(
                    "cookie".to_owned(),
                    format!("{}={value}", text("name")),
                )]
            }
            ("apiKey", _) => {
                let value = self.credential_for(&format!("scheme {name}"), name, None);
                vec![Credential::Header(text("name").to_ascii_lowercase(), value)]
            }
            (other, _) => {
                self.draft.note(format!(
                    "Lost: the security scheme {name} ({other}), see --client-certificate."
                ));
                Vec::new()
            }
        };
        self.schemes.insert(name.to_owned(), credentials.clone());
        Ok(credentials)
    }
}
