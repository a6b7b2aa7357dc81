//! A code host that is slow, broken or hostile: what it did is told, alike at every state, and
//! nothing of it stays.

use std::time::Duration;

use unstall_testbed::Hub;

use super::leaks::{Holdings, wait_until};
use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed};
use super::watched_hub::{At, WatchedHub};

const REPOS: &str = "/api/v1/github/user-repos";
const BRANCHES: &str = "/api/v1/github/get-branch-list?repo_name=octo/project-7";
const STRUCTURE: &str = "/api/v1/github/project-structure?project_id=p-1&path=src";
const START: &str = "start";
const BLOCKING: &str = "0";
const CACHE_AWAITED: &str = "0,1,2a,2b,2c,2d,2e,3";
const AWAITED: &str = "0,1,2a,2b,2c,2d,2e,3,4";
const HUB: Hub = Hub {
    installations: 3,
    repositories: 1,
};
/// More than is read of any answer.
const TOO_LONG: usize = (8 << 20) + 1;

const UNAVAILABLE: At =
    At::Bytes("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}");
const MOVED: At =
    At::Bytes("HTTP/1.1 301 Moved\r\nLocation: /user/orgs\r\nContent-Length: 0\r\n\r\n");
const HTML: At = At::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>");
const OTHER_SHAPE: At =
    At::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}");
/// A token that would put a header of its own into the next call.
const INJECTED: At =
    At::Bytes("HTTP/1.1 201 Created\r\nContent-Length: 23\r\n\r\n{\"token\":\"a\\r\\nX-A: b\"}\n");
const CUT: At = At::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[");
const NO_HTTP: At = At::Bytes("SSH-2.0-hub\r\n");
const CLOSED: At = At::Bytes("");

/// The request, the hub's route that it needs, as the hub sees it and as errors name it, and what
/// the hub does there, with what is told of it.
type Case = (
    &'static str,
    (&'static str, &'static str),
    &'static [(At, &'static str)],
);

const NO_ANSWER: &str = "got no whole answer";
const LATE: &str = "got no answer in time";
const TOO_MUCH: &str = "was answered with more than is read";
const CASES: [Case; 5] = [
    (
        REPOS,
        ("GET /user/orgs", "GET /user/orgs"),
        &[
            (UNAVAILABLE, "was answered with status 503"),
            (MOVED, "was answered with status 301"),
            (
                HTML,
                "wasn't answered with the JSON that its API promises: no JSON at line 1 column 1",
            ),
            (At::FullPage, "has more than 100 pages"),
            (CLOSED, NO_ANSWER),
        ],
    ),
    (
        REPOS,
        (
            "POST /app/installations/2/",
            "POST /app/installations/2/access_tokens",
        ),
        &[
            (UNAVAILABLE, "was answered with status 503"),
            (
                INJECTED,
                "wasn't answered with the JSON that its API promises: another shape or value at line 1 column 23",
            ),
            (At::Hang, LATE),
        ],
    ),
    (
        REPOS,
        (
            "GET /installation/repositories",
            "GET /installation/repositories",
        ),
        &[
            (
                OTHER_SHAPE,
                "wasn't answered with the JSON that its API promises: another shape or value at line 1 column 15",
            ),
            (At::Drip, LATE),
        ],
    ),
    (
        BRANCHES,
        (
            "GET /repos/octo/project-7/branches",
            "GET /repos/octo/project-7/branches",
        ),
        &[
            (At::Long(TOO_LONG), TOO_MUCH),
            (CUT, NO_ANSWER),
            (At::Drip, LATE),
        ],
    ),
    (
        STRUCTURE,
        (
            "GET /repos/octo/project-1/git/trees/main",
            "GET /repos/octo/project-1/git/trees/main",
        ),
        &[
            (NO_HTTP, NO_ANSWER),
            (At::Long(TOO_LONG), TOO_MUCH),
            (
                OTHER_SHAPE,
                "wasn't answered with the JSON that its API promises: another shape or value at line 1 column 15",
            ),
        ],
    ),
];

async fn status_and_body(service: &Service, path: &str) -> (u16, String) {
    let response = reqwest::get(service.url(path)).await.expect(path);
    (
        response.status().as_u16(),
        response.text().await.expect(path),
    )
}

#[tokio::test]
async fn what_a_hub_did_wrong_is_told_and_the_next_request_is_served() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in [START, BLOCKING, CACHE_AWAITED, AWAITED] {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let hub = WatchedHub::start(HUB);
        let start = |timeout_s| {
            let options = ["--hub-url", &hub.url, "--hub-timeout", timeout_s];
            Service::start_state_with(steps, &database_url, &redis.url, &options)
        };
        // What is long takes its time to come.
        let (service, patient) = (start("1"), start("5"));
        let holdings = Holdings::of(&service).await;
        let holdings_of_patient = Holdings::of(&patient).await;
        for (path, (route, call), faults) in CASES {
            for (at, how) in faults {
                hub.watch(route, *at);
                let expected = format!(r#"{{"detail":"The code host failed: {call} {how}"}}"#);
                let asked = match at {
                    At::Long(_) => &patient,
                    _ => &service,
                };
                let answer = status_and_body(asked, path).await;
                assert_eq!(answer, (500, expected), "steps {steps}: {at:?} at {route}");
                let asked = hub.seen().0;
                assert!(asked > 0, "steps {steps}: {at:?} at {route} was not asked");
            }
        }
        hub.watch("nothing", At::Right);
        // Nothing wrong was kept.
        for path in [REPOS, BRANCHES, STRUCTURE] {
            let (status, body) = status_and_body(&service, path).await;
            assert_eq!(status, 200, "steps {steps} {path}: {body}");
        }
        holdings.are_returned(steps).await;
        holdings_of_patient.are_returned(steps).await;
    }
}

#[tokio::test]
async fn a_hub_that_is_not_there_is_told() {
    let testbed = shared_testbed();
    for steps in [START, BLOCKING, AWAITED] {
        let (_, database_url) = fresh_database(testbed);
        let options = ["--hub-url", "http://127.0.0.1:1/api"];
        let service =
            Service::start_state_with(steps, &database_url, &testbed.redis_url(), &options);
        let expected =
            r#"{"detail":"The code host failed: GET /user/orgs got no whole answer"}"#.to_owned();
        assert_eq!(
            status_and_body(&service, REPOS).await,
            (500, expected),
            "steps {steps}"
        );
        // What is cached needs no hub.
        let cached = "/api/v1/github/get-branch-list?repo_name=octo/hello";
        assert_eq!(status_and_body(&service, cached).await.0, 200);
    }
}

/// The calls that step 4 moves: since step 0, and until it, one that hangs stops everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_hangs_stops_everybody_before_step_4_only() {
    const HOUR: Duration = Duration::from_secs(3600);
    let testbed = shared_testbed();
    for (steps, others_wait) in [
        (START, false),
        (BLOCKING, true),
        (CACHE_AWAITED, true),
        (AWAITED, false),
    ] {
        let (_, database_url) = fresh_database(testbed);
        let hub = WatchedHub::start(HUB);
        hub.watch("POST /app/installations/", At::Hang);
        // For longer than the machine itself may be held up.
        let options = ["--hub-url", &hub.url, "--hub-timeout", "10"];
        let service =
            Service::start_state_with(steps, &database_url, &testbed.redis_url(), &options);
        let listing = tokio::spawn(reqwest::get(service.url(REPOS)));
        wait_until("the hub is asked", async || hub.seen().0 > 0).await;
        let patience = if others_wait {
            Duration::from_millis(300)
        } else {
            HOUR
        };
        let health = reqwest::get(service.url("/health"));
        let answered = tokio::time::timeout(patience, health).await;
        assert_eq!(answered.is_err(), others_wait, "steps {steps}");
        let answer = listing.await.expect("no panic").expect("an answer");
        assert_eq!(answer.status(), 500, "steps {steps}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_calls_along_after_step_4() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    let hub = WatchedHub::start(HUB);
    hub.watch("POST /app/installations/", At::Hang);
    let options = ["--hub-url", &hub.url, "--hub-timeout", "3600"];
    let service = Service::start_state_with(AWAITED, &database_url, &testbed.redis_url(), &options);
    let holdings = Holdings::of(&service).await;
    let listing = tokio::spawn(reqwest::get(service.url(REPOS)));
    wait_until("a call for each installation", async || hub.seen().0 == 3).await;
    listing.abort();
    wait_until("all calls are given up", async || hub.left() == 3).await;
    holdings.are_returned(AWAITED).await;
}
