//! Serves the snapshot from an axum router, to this machine or to who knows the token.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;

use crate::monitor::{Access, Monitor};
use crate::wire::{REFUSAL_PREFIX, STALLS_AFTER};

/// Added by proxies; a request with one of them comes from elsewhere, whatever its peer.
const FORWARDED: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

impl Monitor {
    /// Routes for the snapshot (JSON), for Prometheus (text) and, with the feature `prove`, for the
    /// [certificate](Monitor::certificate) at
    /// [`CERTIFICATE_PATH`](crate::certificate::CERTIFICATE_PATH), to be merged into a service's
    /// router outside of the monitor's [layer](Monitor::layer).
    ///
    /// They answer a peer on the loopback interface that came without a proxy, which needs
    /// `into_make_service_with_connect_info::<SocketAddr>()`, and who sends the configured token
    /// as `Authorization: Bearer`. Everyone else gets 403.
    pub fn router<S>(&self) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let access = &self.inner.access;
        let router = Router::new()
            .route(&access.snapshot_path, get(snapshot))
            .route(&access.metrics_path, get(metrics));
        #[cfg(feature = "prove")]
        let router = router.route(crate::certificate::CERTIFICATE_PATH, get(certificate));
        router
            .route_layer(middleware::from_fn_with_state(self.clone(), admit))
            .with_state(self.clone())
    }
}

async fn snapshot(State(monitor): State<Monitor>, RawQuery(query): RawQuery) -> Response {
    match stalls_after(query.as_deref().unwrap_or_default()) {
        Ok(None) => Json(monitor.snapshot()).into_response(),
        Ok(Some(number)) => Json(monitor.snapshot_with_stalls_after(number)).into_response(),
        Err(refusal) => (StatusCode::BAD_REQUEST, refusal).into_response(),
    }
}

/// The number in the query, if there is one; other parameters are somebody else's.
fn stalls_after(query: &str) -> Result<Option<u64>, String> {
    let mut parameters = query.split('&').filter_map(|text| text.split_once('='));
    let Some((_, number)) = parameters.find(|(name, _)| *name == STALLS_AFTER) else {
        return Ok(None);
    };
    number.parse().map(Some).map_err(|_| {
        format!("{REFUSAL_PREFIX}{STALLS_AFTER}: a whole number is expected, such as 42\n")
    })
}

async fn metrics(State(monitor): State<Monitor>) -> Response {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], monitor.prometheus()).into_response()
}

#[cfg(feature = "prove")]
async fn certificate(State(monitor): State<Monitor>) -> Response {
    // It reads this program's symbols from disk.
    match tokio::task::spawn_blocking(move || monitor.certificate()).await {
        Ok(certificate) => Json(certificate).into_response(),
        Err(_) => {
            let text = "the certificate couldn't be made: see the service's standard error\n";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn admit(State(monitor): State<Monitor>, request: Request, next: Next) -> Response {
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|info| info.0);
    match monitor.inner.access.admits(peer, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            let text = format!("{REFUSAL_PREFIX}{refusal}");
            (StatusCode::FORBIDDEN, text).into_response()
        }
    }
}

impl Access {
    /// Whether to answer; if not, the text that says what to do.
    fn admits(&self, peer: Option<SocketAddr>, headers: &HeaderMap) -> Result<(), &'static str> {
        // A proxy that adds no header can't be told from this machine, so a token is asked of all.
        if let Some(token) = &self.token {
            return match bearer(headers) {
                Some(sent) if same(sent, token.as_bytes()) => Ok(()),
                Some(_) => Err("the token is not the monitor's\n"),
                None => Err("send the monitor's token as `Authorization: Bearer`\n"),
            };
        }
        let Some(peer) = peer else {
            return Err("the monitor can't see who asks: serve the router with \
                 into_make_service_with_connect_info::<SocketAddr>(), or configure a token\n");
        };
        if FORWARDED.iter().any(|name| headers.contains_key(*name)) {
            return Err(
                "the monitor answers no proxy: ask from this machine, or send its token as \
                 `Authorization: Bearer`\n",
            );
        }
        if peer.ip().to_canonical().is_loopback() {
            Ok(())
        } else {
            Err(
                "the monitor answers this machine only: ask from loopback, or send its token as \
                 `Authorization: Bearer`\n",
            )
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

/// In time that tells nothing but the length.
fn same(sent: &[u8], token: &[u8]) -> bool {
    let differences = sent
        .iter()
        .zip(token)
        .fold(0, |bits, (a, b)| bits | (a ^ b));
    sent.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(token: Option<&str>) -> Access {
        Access {
            snapshot_path: "/s".to_owned(),
            metrics_path: "/m".to_owned(),
            token: token.map(str::to_owned),
        }
    }

    #[test]
    fn the_query_says_from_which_stall_on() {
        assert_eq!(stalls_after(""), Ok(None));
        assert_eq!(stalls_after("x=1&y"), Ok(None));
        assert_eq!(stalls_after("x=1&stalls_after=42"), Ok(Some(42)));
        for wrong in ["stalls_after=", "stalls_after=-1", "stalls_after=1e3"] {
            let refusal = stalls_after(wrong).expect_err(wrong);
            assert!(refusal.contains("a whole number is expected"), "{refusal}");
        }
    }

    fn from(address: &str) -> Option<SocketAddr> {
        Some(address.parse().expect("an address"))
    }

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header value"));
        headers
    }

    #[test]
    fn loopback_may_ask_and_others_may_not() {
        let access = access(None);
        let none = HeaderMap::new();
        for peer in [
            "127.0.0.1:9",
            "127.9.9.9:9",
            "[::1]:9",
            "[::ffff:127.0.0.1]:9",
        ] {
            assert_eq!(access.admits(from(peer), &none), Ok(()), "{peer}");
        }
        for peer in [
            "10.0.0.1:9",
            "[2001:db8::1]:9",
            "[::ffff:10.0.0.1]:9",
            "0.0.0.0:9",
        ] {
            assert!(access.admits(from(peer), &none).is_err(), "{peer}");
        }
        let unknown = access.admits(None, &none).expect_err("unknown peer");
        assert!(unknown.contains("connect_info"), "{unknown}");
    }

    #[test]
    fn a_proxy_on_this_machine_is_no_loopback_peer() {
        let access = access(None);
        for name in FORWARDED {
            let headers = headers(name, "10.0.0.1");
            assert!(
                access.admits(from("127.0.0.1:9"), &headers).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_token_opens_from_anywhere_and_a_wrong_one_nowhere() {
        let access = access(Some("secret"));
        let good = headers("authorization", "bearer secret");
        assert_eq!(access.admits(from("10.0.0.1:9"), &good), Ok(()));
        assert_eq!(access.admits(None, &good), Ok(()));
        for wrong in ["Bearer secre", "Bearer secret2", "Bearer ", "Bearer SECRET"] {
            let wrong = headers("authorization", wrong);
            assert!(
                access.admits(from("127.0.0.1:9"), &wrong).is_err(),
                "{wrong:?}"
            );
        }
        let basic = headers("authorization", "Basic secret");
        assert!(access.admits(from("10.0.0.1:9"), &basic).is_err());
    }
}
