//! Stands in for the services that are only told things: mail and analytics, as slow as stated.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::http_message::Request;
use crate::peer::lock;
use crate::stub::{Reply, Stub};

/// A mail service and an analytics service on one free loopback port, with the routes
/// - [`ListenerStub::MAIL`][]: takes a mail and answers `{id}`;
/// - [`ListenerStub::ANALYTICS`][]: takes an event and answers `{status:1}`.
///
/// Every answer leaves after the stated latency. A thread per connection.
#[derive(Debug)]
pub struct ListenerStub {
    stub: Stub,
    latest: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl ListenerStub {
    /// The route of mail.
    pub const MAIL: &str = "POST /emails";
    /// The route of events.
    pub const ANALYTICS: &str = "POST /capture";

    /// Starts it. `latency` runs from the request's last byte to the answer's first.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start(latency: Duration) -> io::Result<Self> {
        let latest = Arc::new(Mutex::new(BTreeMap::new()));
        let for_answers = Arc::clone(&latest);
        let stub = Stub::start("listener-stub", latency, move |request| {
            let reply = answer(request);
            let body = String::from_utf8_lossy(&request.body).into_owned();
            lock(&for_answers).insert(reply.route, body);
            reply
        })?;
        Ok(Self { stub, latest })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.stub.addr()
    }

    /// Where mail goes.
    #[must_use]
    pub fn mail_url(&self) -> String {
        format!("{}/emails", self.stub.url())
    }

    /// Where events go.
    #[must_use]
    pub fn analytics_url(&self) -> String {
        format!("{}/capture", self.stub.url())
    }

    /// Requests on a route so far.
    #[must_use]
    pub fn requests(&self, route: &str) -> u64 {
        self.stub.requests(route)
    }

    /// The body of a route's latest request.
    #[must_use]
    pub fn latest(&self, route: &str) -> Option<String> {
        lock(&self.latest).get(route).cloned()
    }
}

fn answer(request: &Request) -> Reply {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/emails") => Reply::new(ListenerStub::MAIL, "200 OK", json!({ "id": "mail-1" })),
        ("POST", "/capture") => {
            Reply::new(ListenerStub::ANALYTICS, "200 OK", json!({ "status": 1 }))
        }
        _ => Reply::new("other", "404 Not Found", json!({})),
    }
}
