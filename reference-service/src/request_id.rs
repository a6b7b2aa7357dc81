//! `X-Request-ID` on every answer: the caller's, if it is one that can be logged safely, else a new one.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use uuid::Uuid;

const NAME: HeaderName = HeaderName::from_static("x-request-id");
const BYTES_MAX: usize = 128;

/// Middleware around all routes.
pub async fn with_request_id(request: Request, next: Next) -> Response {
    let id = request
        .headers()
        .get(NAME)
        .filter(|value| is_sane(value.as_bytes()))
        .cloned();
    let id = id.unwrap_or_else(fresh);
    let mut response = next.run(request).await;
    response.headers_mut().insert(NAME, id);
    response
}

fn fresh() -> HeaderValue {
    let mut buffer = Uuid::encode_buffer();
    let id = Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
    HeaderValue::from_str(id).expect("hex digits and hyphens are a valid header")
}

fn is_sane(id: &[u8]) -> bool {
    (1..=BYTES_MAX).contains(&id.len())
        && id
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sane_ids_are_short_and_plain() {
        assert!(is_sane(b"req-1.2_3:4"));
        assert!(is_sane(&[b'a'; 128]));
        assert!(!is_sane(&[b'a'; 129]));
        assert!(!is_sane(b""));
        assert!(!is_sane(b"a b"));
        assert!(!is_sane("é".as_bytes()));
    }
}
