//! Stands in for an issue tracker: one query of GraphQL, answered as slowly as stated.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_message::Request;
use crate::stub::{Reply, Stub};

const PREFIX: &str = "ENG-";
/// What a tracker says instead of null.
const NOT_FOUND: &str = "Entity not found: Issue";

/// An issue tracker on a free loopback port, with the route [`TrackerStub::GRAPHQL`]:
/// `{query,variables:{id}}`; whatever the query asks for, the answer is
/// `{data:{issue:{id,identifier,title,description,url,priority,state,assignee}}}` for the identifiers
/// `ENG-1` to `ENG-<issues>`, and an error of GraphQL, with status 200, for any other.
///
/// Every answer leaves after the stated latency. A thread per connection.
#[derive(Debug)]
pub struct TrackerStub {
    stub: Stub,
}

impl TrackerStub {
    /// The route of queries.
    pub const GRAPHQL: &str = "POST /graphql";

    /// Starts it. `latency` runs from the request's last byte to the answer's first.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start(latency: Duration, issues: u32) -> io::Result<Self> {
        let stub = Stub::start("tracker-stub", latency, move |request| {
            answer(request, issues)
        })?;
        Ok(Self { stub })
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

    /// Requests on a route so far, refused ones included.
    #[must_use]
    pub fn requests(&self, route: &str) -> u64 {
        self.stub.requests(route)
    }
}

fn answer(request: &Request, issues: u32) -> Reply {
    if (request.method.as_str(), request.path.as_str()) != ("POST", "/graphql") {
        return Reply::new("other", "404 Not Found", json!({}));
    }
    // What isn't JSON has no fields.
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if !body["query"].is_string() {
        let error = errors("Syntax Error: no query");
        return Reply::new(TrackerStub::GRAPHQL, "400 Bad Request", error);
    }
    let number = body["variables"]["id"]
        .as_str()
        .and_then(|id| id.strip_prefix(PREFIX)?.parse::<u32>().ok())
        .filter(|number| (1..=issues).contains(number));
    let body = number.map_or_else(|| errors(NOT_FOUND), issue);
    Reply::new(TrackerStub::GRAPHQL, "200 OK", body)
}

fn issue(number: u32) -> Value {
    let identifier = format!("{PREFIX}{number}");
    let assignee = number.is_multiple_of(2).then(|| json!({ "name": "Ada" }));
    json!({ "data": { "issue": {
        "id": format!("issue-{number}"),
        "identifier": identifier,
        "title": format!("Issue {number}"),
        "description": format!("What issue {number} is about"),
        "url": format!("https://tracker.test/{identifier}"),
        "priority": number % 5,
        "state": { "name": if number.is_multiple_of(3) { "Done" } else { "In Progress" } },
        "assignee": assignee,
    } } })
}

fn errors(message: &str) -> Value {
    json!({ "data": null, "errors": [{ "message": message, "path": ["issue"] }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, path: &str, body: &str) -> Reply {
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            body: body.as_bytes().to_vec(),
            ..Request::default()
        };
        answer(&request, 7)
    }

    fn query(id: &str) -> Reply {
        let body = json!({ "query": "query { issue { id } }", "variables": { "id": id } });
        ask("POST", "/graphql", &body.to_string())
    }

    #[test]
    fn issues_have_numbers() {
        let reply = query("ENG-6");
        assert_eq!(reply.status, "200 OK");
        let issue = &reply.body["data"]["issue"];
        assert_eq!(issue["identifier"], "ENG-6");
        assert_eq!(
            (&issue["state"]["name"], &issue["assignee"]["name"]),
            (&json!("Done"), &json!("Ada"))
        );
        assert_eq!(
            query("ENG-7").body["data"]["issue"]["assignee"],
            json!(null)
        );
    }

    #[test]
    fn what_is_not_there_is_an_error_of_graphql() {
        for id in ["ENG-0", "ENG-8", "ENG-", "7", ""] {
            let reply = query(id);
            assert_eq!(reply.status, "200 OK");
            assert_eq!(reply.body["errors"][0]["message"], NOT_FOUND, "{id}");
        }
    }

    #[test]
    fn what_is_no_query_is_refused() {
        assert_eq!(ask("POST", "/graphql", "{").status, "400 Bad Request");
        assert_eq!(ask("GET", "/graphql", "").status, "404 Not Found");
        assert_eq!(ask("POST", "/", "{}").status, "404 Not Found");
    }
}
