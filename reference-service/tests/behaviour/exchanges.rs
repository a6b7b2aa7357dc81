//! Requests to ask of every state, and what is kept of the answers.

use reqwest::{Client, Method};
use serde_json::{Deserializer, Value};

use super::service::Service;

/// One request.
pub(crate) struct Exchange {
    pub(crate) method: Method,
    /// `{new}` is the conversation that was created last; in the body, too.
    pub(crate) path: &'static str,
    /// The whole header.
    pub(crate) authorization: Option<&'static str>,
    /// The whole header.
    pub(crate) api_key: Option<&'static str>,
    /// The whole header.
    pub(crate) user_id: Option<&'static str>,
    /// Content type and body.
    pub(crate) body: Option<(&'static str, &'static str)>,
}

impl Exchange {
    pub(crate) const fn get(path: &'static str) -> Self {
        Self {
            method: Method::GET,
            path,
            authorization: None,
            api_key: None,
            user_id: None,
            body: None,
        }
    }

    pub(crate) const fn post(path: &'static str) -> Self {
        Self {
            method: Method::POST,
            path,
            authorization: None,
            api_key: None,
            user_id: None,
            body: None,
        }
    }

    pub(crate) const fn json(path: &'static str, body: &'static str) -> Self {
        Self {
            method: Method::POST,
            path,
            authorization: None,
            api_key: None,
            user_id: None,
            body: Some(("application/json", body)),
        }
    }

    pub(crate) const fn delete(path: &'static str, body: &'static str) -> Self {
        Self {
            method: Method::DELETE,
            path,
            authorization: None,
            api_key: None,
            user_id: None,
            body: Some(("application/json", body)),
        }
    }

    pub(crate) const fn form(path: &'static str, body: &'static str) -> Self {
        let body = Some(("application/x-www-form-urlencoded", body));
        Self {
            method: Method::POST,
            path,
            authorization: None,
            api_key: None,
            user_id: None,
            body,
        }
    }

    pub(crate) const fn multipart(path: &'static str, body: &'static str) -> Self {
        let body = Some(("multipart/form-data; boundary=b", body));
        Self {
            method: Method::POST,
            path,
            authorization: None,
            api_key: None,
            user_id: None,
            body,
        }
    }

    pub(crate) const fn sent_by(mut self, authorization: &'static str) -> Self {
        self.authorization = Some(authorization);
        self
    }

    pub(crate) const fn sent_with_key(mut self, api_key: &'static str) -> Self {
        self.api_key = Some(api_key);
        self
    }

    pub(crate) const fn sent_for(mut self, user_id: &'static str) -> Self {
        self.user_id = Some(user_id);
        self
    }
}

/// Asks everything in order, and writes down statuses, telling headers and bodies.
pub(crate) async fn transcript(service: &Service, exchanges: &[Exchange]) -> String {
    let client = Client::new();
    let mut new = String::new();
    let mut lines = Vec::new();
    for exchange in exchanges {
        let mut request = client.request(
            exchange.method.clone(),
            service.url(&exchange.path.replace("{new}", &new)),
        );
        if let Some(authorization) = exchange.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(api_key) = exchange.api_key {
            request = request.header("x-api-key", api_key);
        }
        if let Some(user_id) = exchange.user_id {
            request = request.header("x-user-id", user_id);
        }
        if let Some((content_type, body)) = exchange.body {
            request = request
                .header("content-type", content_type)
                .body(body.replace("{new}", &new));
        }
        let response = request.send().await.expect(exchange.path);
        let status = response.status().as_u16();
        let mut headers = String::new();
        for name in ["content-type", "www-authenticate", "allow"] {
            if let Some(value) = response.headers().get(name) {
                headers += &format!(" {name}: {};", value.to_str().expect("plain text"));
            }
        }
        assert!(
            response.headers().contains_key("x-request-id"),
            "{}",
            exchange.path
        );
        let mut body = response.text().await.expect(exchange.path);
        body = same_form(&body);
        if let Some(id) = conversation_id(&body) {
            assert_eq!(id.get_version_num(), 7, "{body}");
            new = id.to_string();
        }
        if !new.is_empty() {
            body = body.replace(&new, "{new}");
        }
        let user = exchange
            .authorization
            .or(exchange.api_key)
            .map(|header| format!(" ({header})"))
            .unwrap_or_default();
        let sent = exchange
            .body
            .map(|(_, body)| format!(" {body:?}"))
            .unwrap_or_default();
        lines.push(format!(
            "{} {}{user}{sent}\n  {status}{headers}\n  {body}",
            exchange.method, exchange.path
        ));
    }
    lines.join("\n")
}

fn conversation_id(body: &str) -> Option<uuid::Uuid> {
    let body: Value = serde_json::from_str(body).ok()?;
    Some(
        body.get("conversation_id")?
            .as_str()?
            .parse()
            .expect("a UUID"),
    )
}

/// JSON objects in one form: the order of an object's fields and the space between them mean
/// nothing. Other text stays as it is.
fn same_form(body: &str) -> String {
    let values: Result<Vec<Value>, _> = Deserializer::from_str(body).into_iter().collect();
    values.map_or_else(
        |_no_json| body.to_owned(),
        |values| values.into_iter().map(comparable).collect(),
    )
}

/// Without what is said by each parser in its own words, and what differs from one run to the next.
fn comparable(mut body: Value) -> String {
    replace_parsers_words(&mut body);
    replace_chance(&mut body);
    body.to_string()
}

/// Where and why a text isn't JSON.
fn replace_parsers_words(body: &mut Value) {
    let errors = body.get_mut("detail").and_then(Value::as_array_mut);
    for error in errors.into_iter().flatten() {
        if error["type"] == "json_invalid" {
            assert!(error["loc"][1].is_u64(), "{error}");
            assert!(error["ctx"]["error"].is_string(), "{error}");
            error["loc"][1] = "{place}".into();
            error["ctx"]["error"] = "{reason}".into();
        }
    }
}

/// Random tokens and times.
fn replace_chance(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(replace_chance),
        Value::Object(fields) => {
            for (name, value) in fields {
                let by_chance = matches!(
                    name.as_str(),
                    "linking_token"
                        | "linked_at"
                        | "last_used_at"
                        | "message_id"
                        | "cursor"
                        | "startedAt"
                        | "lastActivity"
                        | "estimatedCompletion"
                );
                if by_chance && !value.is_null() {
                    *value = format!("{{{name}}}").into();
                } else {
                    replace_chance(value);
                }
            }
        }
        _ => (),
    }
}
