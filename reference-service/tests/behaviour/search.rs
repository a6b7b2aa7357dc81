//! What a search asks of PostgreSQL, and what it answers when that is gone.

use reqwest::{Client, RequestBuilder};
use serde_json::json;

use super::STATES;
use super::service::{Service, fresh_database, shared_testbed};
use super::sql_wire::{Kinds, SqlWire};

const KEY: &str = "sk-0000000000000000000000000000000000000000000000000000000000000000";

fn v1(service: &Service, project_id: &str) -> RequestBuilder {
    let body = json!({ "project_id": project_id, "query": "open session" });
    Client::new()
        .post(service.url("/api/v1/search"))
        .json(&body)
}

fn v2(service: &Service, key: &str, project_id: &str) -> RequestBuilder {
    let body = json!({ "project_id": project_id, "query": "open session" });
    let request = Client::new().post(service.url("/api/v2/search"));
    request.header("x-api-key", key).json(&body)
}

#[tokio::test]
async fn postgres_is_asked_the_same_before_and_after() {
    let testbed = shared_testbed();
    for state in ["start", "0", "0,1,2a,2b,2c", "0,1,2a,2b,2c,2d,2e,3,4,5"] {
        let wire = SqlWire::to(testbed.postgres_address());
        let (name, _) = fresh_database(testbed);
        let database_url = testbed.database_url_through(wire.address, &name);
        let service = Service::start(state, &database_url, &testbed.redis_url());
        wire.take();
        let nobodys = KEY.replace("sk-0", "sk-f");
        for (request, status, selects) in [
            (v1(&service, "p-1"), 200, 2),
            (v1(&service, "p-2"), 404, 1),
            (v1(&service, ""), 422, 0),
            (v2(&service, KEY, "p-1"), 200, 3),
            (v2(&service, KEY, "p-404"), 404, 2),
            (v2(&service, KEY, ""), 422, 1),
            (v2(&service, &nobodys, "p-1"), 401, 1),
            (v2(&service, "", "p-1"), 401, 0),
        ] {
            let case = format!("{state} {request:?}");
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status().as_u16(), status, "{case}");
            answer.bytes().await.expect("a whole answer");
            let expected: Kinds = match selects {
                0 => Kinds::new(),
                selects => Kinds::from([("SELECT".to_owned(), selects)]),
            };
            assert_eq!(wire.take(), expected, "{case}");
        }
    }
}

#[tokio::test]
async fn a_lost_database_is_503() {
    let testbed = shared_testbed();
    for state in STATES {
        let (name, database_url) = fresh_database(testbed);
        let service = Service::start(state, &database_url, &testbed.redis_url());
        let there = v1(&service, "p-1").send().await.expect("an answer");
        assert_eq!(there.status(), 200);
        testbed.drop_database(&name).expect("it is dropped");
        for request in [v1(&service, "p-1"), v2(&service, KEY, "p-1")] {
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 503, "{state}");
            let body = answer.text().await.expect("a body");
            let expected = r#"{"detail":"PostgreSQL can't be reached; try again"}"#;
            assert_eq!(body, expected, "{state}");
        }
    }
}
