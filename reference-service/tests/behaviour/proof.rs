//! The service under proof: its certificate names the routes that it serves, all and no others.
//! That a proof changes no answer is told by the tests of the other files, which run under it, too.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::Method;
use serde_json::Value;
use unstall_loop_monitor::UNMATCHED_ENDPOINT;
use unstall_loop_monitor::certificate::CERTIFICATE_PATH;
use unstall_reference_service::routes;
use unstall_testbed::{Hub, HubStub};

use super::PROVEN_STATES;
use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed};

async fn certificate(client: &reqwest::Client, service: &Service) -> Value {
    let answer = client.get(service.url(CERTIFICATE_PATH)).send().await;
    let answer = answer.expect("an answer");
    answer.json().await.expect("a certificate")
}

fn named(certificate: &Value) -> BTreeSet<String> {
    let routes = certificate["routes"].as_object().expect("routes");
    routes.keys().cloned().collect()
}

/// A path of the template, with ids that nobody has.
fn path(template: &str) -> String {
    let segments = template.split('/').map(|segment| match segment {
        "{id}" | "{session_id}" => "00000000000000ff",
        literal => literal,
    });
    segments.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn the_certificate_names_what_is_served_and_nothing_else() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start(PROVEN_STATES[0], &database_url, &testbed.redis_url());
    let client = reqwest::Client::new();
    let declared: BTreeSet<String> = routes::declared()
        .map(|(method, template)| format!("{method} {template}"))
        .collect();
    let before = certificate(&client, &service).await;
    assert_eq!(named(&before), declared);
    for (method, template) in routes::declared() {
        let url = service.url(&path(template));
        let answer = client.request(method.clone(), url).send().await;
        let answer = answer.expect(template);
        let status = answer.status();
        let body = answer.text().await.expect(template);
        let is_served = status != 405 && body != r#"{"detail":"Not Found"}"#;
        assert!(is_served, "{method} {template}: {status} {body}");
    }
    let nowhere = client.request(Method::GET, service.url("/nowhere")).send();
    assert_eq!(nowhere.await.expect("an answer").status(), 404);
    let after = certificate(&client, &service).await;
    let mut expected = declared;
    expected.insert(UNMATCHED_ENDPOINT.to_owned());
    assert_eq!(named(&after), expected);
    for (route, proof) in after["routes"].as_object().expect("routes") {
        assert!(proof["requests"].as_u64() > Some(0), "{route}: {proof}");
    }
}

/// Else the other tests would run under nothing.
#[tokio::test]
async fn what_blocks_is_caught_where_calls_can_be_caught() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    let client = reqwest::Client::new();
    let start = ("start under proof", false);
    let states = PROVEN_STATES.into_iter().zip([true, false]).chain([start]);
    for (state, blocks) in states {
        let service = Service::start(state, &database_url, &testbed.redis_url());
        let path = "/api/v1/tunnel/workspace/00000000000000a1";
        let answer = client.get(service.url(path)).send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
        let certificate = certificate(&client, &service).await;
        if let Some(reason) = certificate["method"]["reason"].as_str() {
            eprintln!("skipped: no proof here: {reason}");
            return;
        }
        let route = &certificate["routes"]["GET /api/v1/tunnel/workspace/{id}"];
        assert!(route["calls"].as_u64() > Some(0), "{state}: {route}");
        let findings = route["findings"].as_array().map_or(0, Vec::len);
        assert_eq!(findings > 0, blocks, "{state}: {route}");
    }
}

/// Whatever is asked of the code host, and of its cache.
#[tokio::test]
async fn after_the_last_step_no_route_of_the_code_host_blocks() {
    let testbed = shared_testbed();
    let client = reqwest::Client::new();
    let redis = OwnRedis::new(testbed);
    let hub = Hub {
        installations: 12,
        repositories: 3,
    };
    let stub = HubStub::start(Duration::from_millis(2), hub).expect("a stub");
    for (state, blocks) in PROVEN_STATES.into_iter().zip([true, false]) {
        redis.reset();
        let (_, database_url) = fresh_database(testbed);
        let options = ["--hub-url", &stub.url()];
        let service = Service::start_state_with(state, &database_url, &redis.url, &options);
        for path in [
            "user-repos",
            "get-branch-list?repo_name=octo/project-7",
            "project-structure?project_id=p-1&path=src",
        ] {
            let path = format!("/api/v1/github/{path}");
            let answer = client.get(service.url(&path)).send().await;
            assert_eq!(answer.expect("an answer").status(), 200, "{state} {path}");
        }
        let certificate = certificate(&client, &service).await;
        if let Some(reason) = certificate["method"]["reason"].as_str() {
            eprintln!("skipped: no proof here: {reason}");
            return;
        }
        for route in ["user-repos", "get-branch-list", "project-structure"] {
            let route = &certificate["routes"][format!("GET /api/v1/github/{route}")];
            let findings = route["findings"].as_array().map_or(0, Vec::len);
            assert_eq!(findings > 0, blocks, "{state}: {route}");
        }
    }
}
