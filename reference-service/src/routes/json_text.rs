//! A body that should be JSON, read but not parsed.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};

use crate::refusal::Refusal;
use crate::validation::{Body, FieldError};

/// The body, and whether its Content-Type says that it is JSON.
#[derive(Debug)]
pub(super) struct JsonText {
    bytes: Bytes,
    is_json: bool,
}

impl JsonText {
    /// Its object, whose fields are to be checked. A text that isn't sent as JSON is no object,
    /// whatever it says: the original is a FastAPI service, which doesn't look into it.
    ///
    /// # Errors
    /// One error if it isn't one.
    pub(super) fn object(&self) -> Result<Body, Vec<FieldError>> {
        if self.is_json || self.bytes.is_empty() {
            Body::parse(&self.bytes)
        } else {
            Err(Body::not_an_object(&String::from_utf8_lossy(&self.bytes)))
        }
    }

    /// All of it, for routes that read it by hand.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonText {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let is_json = says_json(request.headers());
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|_too_large_or_cut| Refusal::BodyTooLarge)?;
        Ok(Self { bytes, is_json })
    }
}

/// `application/json`, or a format that is made of it, as in `application/problem+json`.
fn says_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .and_then(|kind| kind.trim().split_once('/'))
        .is_some_and(|(main, kind)| {
            let kind = kind.to_ascii_lowercase();
            main.eq_ignore_ascii_case("application") && (kind == "json" || kind.ends_with("+json"))
        })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn json_has_a_type_of_its_own() {
        let says = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            says_json(&headers)
        };
        assert!(says("application/json"));
        assert!(says("Application/JSON; charset=utf-8"));
        assert!(says("application/problem+json"));
        assert!(!says("text/plain"));
        assert!(!says("application/x-www-form-urlencoded"));
        assert!(!says_json(&HeaderMap::new()));
    }
}
