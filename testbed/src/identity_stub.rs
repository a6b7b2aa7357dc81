//! Stands in for an identity service and a team's chat: a sign-in by password and a notification
//! hook, both as slow as stated.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_message::Request;
use crate::peer::lock;
use crate::stub::{Reply, Stub};

const DOMAIN: &str = "@example.test";

/// An identity service on a free loopback port, with the routes
/// - [`IdentityStub::SIGN_IN`][]: `{email,password}`; the account `<uid>@example.test` has the password
///   [`IdentityStub::PASSWORD`] and gets `{"idToken":"token-<uid>",…}`, anybody else 400 with
///   `{"error":{"code":400,"message":…}}`;
/// - [`IdentityStub::HOOK`][]: takes a notification;
/// - `GET /health`.
///
/// Every answer leaves after the stated latency. A thread per connection.
#[derive(Debug)]
pub struct IdentityStub {
    stub: Stub,
    latest: Arc<Mutex<Option<String>>>,
}

impl IdentityStub {
    /// The route of a sign-in.
    pub const SIGN_IN: &str = "POST /v1/accounts:signInWithPassword";
    /// The route of a notification.
    pub const HOOK: &str = "POST /hook";
    /// Everybody's password.
    pub const PASSWORD: &str = "password";

    /// Starts it. `latency` runs from the request's last byte to the answer's first.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start(latency: Duration) -> io::Result<Self> {
        let latest = Arc::new(Mutex::new(None));
        let for_answers = Arc::clone(&latest);
        let stub = Stub::start("identity-stub", latency, move |request| {
            if request.method == "POST" && request.path == "/hook" {
                let text = String::from_utf8_lossy(&request.body).into_owned();
                *lock(&for_answers) = Some(text);
            }
            answer(request)
        })?;
        Ok(Self { stub, latest })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.stub.addr()
    }

    /// `http://…` without a path.
    #[must_use]
    pub fn url(&self) -> String {
        self.stub.url()
    }

    /// Where notifications go.
    #[must_use]
    pub fn hook_url(&self) -> String {
        format!("{}/hook", self.url())
    }

    /// Requests on a route so far, refused ones included.
    #[must_use]
    pub fn requests(&self, route: &str) -> u64 {
        self.stub.requests(route)
    }

    /// The body of the latest notification.
    #[must_use]
    pub fn latest_notification(&self) -> Option<String> {
        lock(&self.latest).clone()
    }
}

fn answer(request: &Request) -> Reply {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/accounts:signInWithPassword") => sign_in(&request.body),
        ("POST", "/hook") => Reply::new(IdentityStub::HOOK, "200 OK", json!("ok")),
        ("GET", "/health") => Reply::new("GET /health", "200 OK", json!({ "status": "ok" })),
        _ => Reply::new("other", "404 Not Found", refusal(404, "NOT_FOUND")),
    }
}

fn sign_in(body: &[u8]) -> Reply {
    let refused = |message| {
        Reply::new(
            IdentityStub::SIGN_IN,
            "400 Bad Request",
            refusal(400, message),
        )
    };
    // What isn't JSON has no fields.
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(email) = body["email"].as_str() else {
        return refused("INVALID_EMAIL");
    };
    let Some(password) = body["password"].as_str() else {
        return refused("MISSING_PASSWORD");
    };
    match email.strip_suffix(DOMAIN).filter(|uid| !uid.is_empty()) {
        Some(uid) if password == IdentityStub::PASSWORD => Reply::new(
            IdentityStub::SIGN_IN,
            "200 OK",
            json!({ "localId": uid, "email": email, "idToken": format!("token-{uid}"), "registered": true }),
        ),
        _ => refused("INVALID_LOGIN_CREDENTIALS"),
    }
}

fn refusal(code: u16, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(body: &str) -> &'static str {
        sign_in(body.as_bytes()).status
    }

    #[test]
    fn accounts_of_the_seeds_sign_in_with_the_password() {
        let reply = sign_in(br#"{"email":"u-3@example.test","password":"password"}"#);
        assert_eq!(
            (reply.status, &reply.body["idToken"]),
            ("200 OK", &json!("token-u-3"))
        );
    }

    #[test]
    fn others_are_refused() {
        for body in [
            "",
            "{}",
            r#"{"email":"u-3@example.test"}"#,
            r#"{"email":"u-3@example.test","password":"wrong"}"#,
            r#"{"email":"u-3@elsewhere.test","password":"password"}"#,
            r#"{"email":"@example.test","password":"password"}"#,
        ] {
            assert_eq!(status(body), "400 Bad Request", "{body}");
        }
    }
}
