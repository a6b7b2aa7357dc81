//! What each variant asks of PostgreSQL for one request of steps 2c to 2e, by kind: the counts of
//! the service being migrated, the same before and after.
//!
//! Its table of counts leaves BEGIN out, which its clients send by itself before a transaction's
//! first statement; here it is counted.

use reqwest::Client;
use serde_json::{Value, json};

use super::service::{Service, fresh_database, shared_testbed};
use super::sql_wire::{Kinds, SqlWire};

const START: &str = "start";
const BLOCKING: &str = "0";
const ASYNC: &str = "0,1,2a,2b,2c,2d,2e";

/// A request, its status, and `(SELECT, INSERT, UPDATE, commits)`, where a commit is a BEGIN and
/// a COMMIT.
type Case = (&'static str, &'static str, Value, u16, (u64, u64, u64, u64));

fn cases() -> Vec<Case> {
    let share = "/api/v1/conversations/share";
    let sso = |email: &str, service: &str| json!({ "email": email, "sso_provider": service, "id_token": format!("id-token-{email}") });
    let recipients = |id: &str| json!({ "conversation_id": id, "recipientEmails": ["a@b.test"] });
    let access = "/api/v1/conversations/c-0-1/access";
    let emails = "/api/v1/conversations/c-0-1/shared-emails";
    let sign_up = "/api/v1/signup";
    let login = "/api/v1/sso/login";
    vec![
        ("POST", share, recipients("c-0-1"), 201, (1, 0, 1, 1)),
        ("GET", emails, Value::Null, 200, (1, 0, 0, 0)),
        (
            "DELETE",
            access,
            json!({ "emails": ["a@b.test"] }),
            200,
            (1, 0, 1, 1),
        ),
        (
            "DELETE",
            access,
            json!({ "emails": ["a@b.test"] }),
            400,
            (1, 0, 0, 1),
        ),
        ("POST", share, recipients("c-404"), 404, (1, 0, 0, 1)),
        ("POST", share, json!({}), 422, (0, 0, 0, 0)),
        (
            "POST",
            sign_up,
            json!({ "uid": "u-3", "email": "u-3@example.test" }),
            200,
            (3, 0, 0, 0),
        ),
        (
            "POST",
            sign_up,
            json!({ "uid": "n-1", "email": "n-1@b.test" }),
            201,
            (2, 3, 0, 2),
        ),
        (
            "POST",
            sign_up,
            json!({ "uid": "n-2", "email": "n-1@b.test" }),
            409,
            (2, 0, 0, 0),
        ),
        (
            "POST",
            login,
            sso("u-3@example.test", "google"),
            200,
            (9, 1, 2, 3),
        ),
        (
            "POST",
            login,
            sso("u-free@example.test", "google"),
            200,
            (8, 1, 1, 2),
        ),
        (
            "POST",
            login,
            sso("u-3@example.test", "okta"),
            202,
            (5, 2, 0, 2),
        ),
        ("POST", login, sso("n-3@b.test", "okta"), 202, (2, 3, 0, 2)),
        ("POST", login, sso("a@gmail.com", "okta"), 403, (1, 0, 0, 0)),
        (
            "POST",
            login,
            json!({ "email": "a@b.test", "sso_provider": "okta", "id_token": "x" }),
            401,
            (0, 0, 0, 0),
        ),
        (
            "GET",
            "/api/v1/providers/me",
            Value::Null,
            200,
            (1, 0, 0, 0),
        ),
    ]
}

fn cases_of_the_code_host() -> Vec<Case> {
    vec![
        (
            "GET",
            "/api/v1/github/user-repos",
            Value::Null,
            200,
            (5, 0, 0, 0),
        ),
        (
            "GET",
            "/api/v1/github/project-structure?project_id=p-1",
            Value::Null,
            200,
            (1, 0, 0, 0),
        ),
        (
            "GET",
            "/api/v1/github/project-structure?project_id=p-404",
            Value::Null,
            404,
            (1, 0, 0, 0),
        ),
        (
            "GET",
            "/api/v1/github/get-branch-list?repo_name=octo/hello",
            Value::Null,
            200,
            (0, 0, 0, 0),
        ),
    ]
}

fn kinds((selects, inserts, updates, commits): (u64, u64, u64, u64)) -> Kinds {
    [
        ("SELECT", selects),
        ("INSERT", inserts),
        ("UPDATE", updates),
        ("BEGIN", commits),
        ("COMMIT", commits),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(kind, count)| (kind.to_owned(), count))
    .collect()
}

#[tokio::test]
async fn postgres_is_asked_the_same_before_and_after() {
    let testbed = shared_testbed();
    for steps in [START, BLOCKING, ASYNC] {
        let wire = SqlWire::to(testbed.postgres_address());
        let (name, _) = fresh_database(testbed);
        let database_url = testbed.database_url_through(wire.address, &name);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        wire.take();
        for (method, path, body, status, expected) in
            cases().into_iter().chain(cases_of_the_code_host())
        {
            let method = method.parse().expect("a method");
            let mut request = Client::new().request(method, service.url(path));
            if !body.is_null() {
                request = request.json(&body);
            }
            let answer = request.send().await.expect(path);
            let case = format!("steps {steps} {path} {body}");
            assert_eq!(answer.status().as_u16(), status, "{case}");
            answer.bytes().await.expect("a whole answer");
            assert_eq!(wire.take(), kinds(expected), "{case}");
        }
    }
}
