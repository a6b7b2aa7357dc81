//! The services beside this one: what they are asked, what their answers become, and what happens
//! when they are down or hostile.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;
use unstall_testbed::{Behaviour, FaultyServer, IdentityStub, TrackerStub};

use super::exchanges::transcript;
use super::leaks::wait_until;
use super::same_answers::differences;
use super::service::{Service, fresh_database, shared_testbed};
use super::service_exchanges;
use super::{PROVEN_STATES, STATES};

/// Only step 4 moves the calls.
pub(crate) const BLOCKS: &str = "0,1,2a,2b,2c,2d,2e,3";
pub(crate) const AWAITED: &str = "0,1,2a,2b,2c,2d,2e,3,4";
const LATENCY: Duration = Duration::from_millis(2);
const LOGIN: &str = "/api/v1/login";
const ISSUE: &str = "/api/v1/integrations/issues/ENG-2";
const CREDENTIALS: &str = r#"{"email":"u-3@example.test","password":"password"}"#;

/// The service with options for those beside it.
pub(crate) fn with_services(state: &str, options: &[&str]) -> Service {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    Service::start_state_with(state, &database_url, &testbed.redis_url(), options)
}

/// Status and body.
async fn answer(request: reqwest::RequestBuilder) -> (u16, String) {
    let answer = request.send().await.expect("an answer");
    (
        answer.status().as_u16(),
        answer.text().await.expect("a body"),
    )
}

async fn log_in(service: &Service) -> (u16, String) {
    let request = Client::new().post(service.url(LOGIN));
    let request = request.header("content-type", "application/json");
    answer(request.body(CREDENTIALS)).await
}

async fn issue(service: &Service) -> (u16, String) {
    answer(Client::new().get(service.url(ISSUE))).await
}

#[tokio::test]
async fn every_state_answers_the_same_and_asks_the_same() {
    let mut first: Option<String> = None;
    for state in STATES.into_iter().chain(PROVEN_STATES) {
        let identity = IdentityStub::start(LATENCY).expect("a stub");
        let tracker = TrackerStub::start(LATENCY, 7).expect("a stub");
        let (identity_url, tracker_url) = (identity.url(), tracker.url());
        let options = [
            "--identity-url",
            &identity_url,
            "--tracker-url",
            &tracker_url,
        ];
        let service = with_services(state, &options);
        let answers = transcript(&service, &service_exchanges::all()).await;
        // One call for each that passed the checks, and no other.
        assert_eq!(identity.requests(IdentityStub::SIGN_IN), 6, "{state}");
        assert_eq!(tracker.requests(TrackerStub::GRAPHQL), 5, "{state}");
        let Some(first) = &first else {
            first = Some(answers);
            continue;
        };
        let differences = differences(first, &answers);
        assert!(
            differences.is_empty(),
            "{state} answers otherwise:\n{differences}"
        );
    }
    insta::assert_snapshot!(first.expect("there is a first state"));
}

/// Without addresses.
#[tokio::test]
async fn services_that_nobody_named_are_502() {
    for state in ["start", "0", AWAITED] {
        let service = with_services(state, &[]);
        let (status, body) = log_in(&service).await;
        assert_eq!(status, 502, "{state}");
        assert!(body.contains("start with --identity-url"), "{body}");
        let (status, body) = issue(&service).await;
        assert_eq!(status, 502, "{state}");
        assert!(body.contains("start with --tracker-url"), "{body}");
    }
}

/// What a service does, the login's status, and the issue's.
const HOSTILE: [(&str, u16, u16); 12] = [
    ("/400", 400, 502),
    ("/503", 503, 502),
    ("/wrong-shape", 502, 502),
    ("/not-json", 502, 502),
    ("/rubbish", 502, 502),
    ("/half-head", 502, 502),
    ("/close", 502, 502),
    ("/reset-in-body", 502, 502),
    ("/truncated-chunked", 502, 502),
    ("/large/2000000", 502, 502),
    ("/redirect/302/loop", 502, 502),
    ("/204", 502, 502),
];

#[tokio::test]
async fn hostile_services_get_the_apis_errors_in_every_state() {
    let refusing = FaultyServer::start(Behaviour::Refuse).expect("a port");
    for state in ["start", BLOCKS, AWAITED] {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        let cases = HOSTILE
            .iter()
            .map(|(path, login, issue)| (format!("{}{path}", server.url()), *login, *issue))
            .chain([(refusing.url(), 502, 502)]);
        for (url, login_status, issue_status) in cases {
            // The service's own path is in what the server takes for a query.
            let url = format!("{url}?rest=");
            let service = with_services(state, &["--identity-url", &url, "--tracker-url", &url]);
            let case = format!("{state} {url}");
            let (status, body) = log_in(&service).await;
            assert_eq!(status, login_status, "{case}: {body}");
            let body: Value = serde_json::from_str(&body).expect("JSON");
            assert!(body["error"].is_string(), "{case}: {body}");
            let (status, body) = issue(&service).await;
            assert_eq!(status, issue_status, "{case}: {body}");
            let body: Value = serde_json::from_str(&body).expect("JSON");
            assert!(body["detail"].is_string(), "{case}: {body}");
            let health = reqwest::get(service.url("/health")).await;
            assert_eq!(health.expect("an answer").status(), 200, "{case}");
        }
    }
}

/// What step 4 is for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_hangs_stops_everybody_before_step_4_only() {
    for (state, others_wait) in [("start", false), (BLOCKS, true), (AWAITED, false)] {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        let url = format!("{}/hang?rest=", server.url());
        let service = std::sync::Arc::new(with_services(state, &["--identity-url", &url]));
        let for_task = std::sync::Arc::clone(&service);
        let login = tokio::spawn(async move { log_in(&for_task).await });
        wait_until("it is asked", async || server.counts("/hang").requests > 0).await;
        let health = reqwest::get(service.url("/health"));
        let patience = Duration::from_millis(if others_wait { 300 } else { 3_600_000 });
        let answered = tokio::time::timeout(patience, health).await;
        assert_eq!(answered.is_err(), others_wait, "{state}");
        assert!(!login.is_finished(), "{state}");
        drop(server);
        let (status, body) = login.await.expect("no panic");
        assert_eq!(status, 502, "{state}: {body}");
    }
}

#[tokio::test]
async fn after_step_4_a_service_that_hangs_is_given_up() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    let url = format!("{}/hang-in-body?rest=", server.url());
    let service = with_services(AWAITED, &["--identity-url", &url, "--tracker-url", &url]);
    let began = Instant::now();
    let ((login, _), (issue, _)) = tokio::join!(log_in(&service), issue(&service));
    assert_eq!((login, issue), (502, 502));
    assert!(began.elapsed() >= Duration::from_secs(30));
}
