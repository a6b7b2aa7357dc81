//! Requests to ask of every state, and what is kept of the answers.

use reqwest::{Client, Method};
use serde_json::Value;

use super::service::Service;

/// One request.
pub(crate) struct Exchange {
    pub(crate) method: Method,
    /// `{new}` is the conversation that was created last; in the body, too.
    pub(crate) path: &'static str,
    /// The whole header.
    pub(crate) authorization: Option<&'static str>,
    /// Content type and body.
    pub(crate) body: Option<(&'static str, &'static str)>,
}

impl Exchange {
    pub(crate) const fn get(path: &'static str) -> Self {
        Self {
            method: Method::GET,
            path,
            authorization: None,
            body: None,
        }
    }

    pub(crate) const fn post(path: &'static str) -> Self {
        Self {
            method: Method::POST,
            path,
            authorization: None,
            body: None,
        }
    }

    pub(crate) const fn json(path: &'static str, body: &'static str) -> Self {
        Self {
            method: Method::POST,
            path,
            authorization: None,
            body: Some(("application/json", body)),
        }
    }

    pub(crate) const fn delete(path: &'static str, body: &'static str) -> Self {
        Self {
            method: Method::DELETE,
            path,
            authorization: None,
            body: Some(("application/json", body)),
        }
    }

    pub(crate) const fn form(path: &'static str, body: &'static str) -> Self {
        let body = Some(("application/x-www-form-urlencoded", body));
        Self {
            method: Method::POST,
            path,
            authorization: None,
            body,
        }
    }

    pub(crate) const fn multipart(path: &'static str, body: &'static str) -> Self {
        let body = Some(("multipart/form-data; boundary=b", body));
        Self {
            method: Method::POST,
            path,
            authorization: None,
            body,
        }
    }

    pub(crate) const fn sent_by(mut self, authorization: &'static str) -> Self {
        self.authorization = Some(authorization);
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
        if let Some(id) = conversation_id(&body) {
            assert_eq!(id.get_version_num(), 7, "{body}");
            new = id.to_string();
        }
        if !new.is_empty() {
            body = body.replace(&new, "{new}");
        }
        body = without_chance(&body);
        let user = exchange
            .authorization
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

/// Replaces what differs from one run to the next: random tokens and times.
fn without_chance(body: &str) -> String {
    let Ok(mut parsed) = serde_json::from_str::<Value>(body) else {
        return body.to_owned();
    };
    if replace_chance(&mut parsed) {
        parsed.to_string()
    } else {
        body.to_owned()
    }
}

fn replace_chance(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| replace_chance(item) | found),
        Value::Object(fields) => fields.iter_mut().fold(false, |found, (name, value)| {
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
                return true;
            }
            replace_chance(value) | found
        }),
        _ => false,
    }
}
