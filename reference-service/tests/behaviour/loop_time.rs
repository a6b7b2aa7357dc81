//! What the monitor sees: blocking stores hold the loop asleep, async ones don't.

use std::time::Duration;

use serde_json::Value;
use unstall_testbed::{DelayProxy, Hub, HubStub, IdentityStub, ListenerStub, TrackerStub};

use super::service::{Service, fresh_database, shared_testbed};

const REQUESTS: u64 = 40;
/// Long enough that no answer is there before it is waited for, however busy the machine is.
const ROUND_TRIP: Duration = Duration::from_millis(2);
const ENDPOINTS: [(&str, &str); 9] = [
    (
        "GET /api/v1/usage/usage",
        "/api/v1/usage/usage?start_date=2000-01-01&end_date=2100-01-01",
    ),
    (
        "GET /api/v1/tunnel/workspace/{id}",
        "/api/v1/tunnel/workspace/00000000000000a1",
    ),
    (
        "GET /api/v1/tunnel/workspace/{id}/socket-status",
        "/api/v1/tunnel/workspace/00000000000000a1/socket-status",
    ),
    (
        "GET /api/v1/github/get-branch-list",
        "/api/v1/github/get-branch-list?repo_name=octo/hello",
    ),
    (
        "GET /api/v1/conversations/{id}/shared-emails",
        "/api/v1/conversations/c-0-1/shared-emails",
    ),
    ("GET /api/v1/providers/me", "/api/v1/providers/me"),
    ("GET /api/v1/github/user-repos", "/api/v1/github/user-repos"),
    (
        "GET /api/v1/github/project-structure",
        "/api/v1/github/project-structure?project_id=p-1",
    ),
    (
        "GET /api/v1/integrations/issues/{id}",
        "/api/v1/integrations/issues/ENG-2",
    ),
];
/// Those with a body, after them.
const POSTED: [(&str, &str, &str); 4] = [
    (
        "POST /api/v1/login",
        "/api/v1/login",
        r#"{"email":"u-3@example.test","password":"password"}"#,
    ),
    (
        "POST /api/v1/search",
        "/api/v1/search",
        r#"{"project_id":"p-1","query":"open session"}"#,
    ),
    // With mail, and an event.
    (
        "POST /api/v1/conversations/share",
        "/api/v1/conversations/share",
        r#"{"conversation_id":"c-0-1","recipientEmails":["a@b.test"]}"#,
    ),
    (
        "POST /api/v1/conversations",
        "/api/v1/conversations",
        r#"{"user_id":"u-0","title":"t","status":"active","project_ids":["p-1"],"agent_ids":[]}"#,
    ),
];

/// Nanoseconds asleep and blocks of 200 µs or more, by endpoint, after some requests.
async fn blocked(steps: &str) -> Vec<(&'static str, u64, u64)> {
    let testbed = shared_testbed();
    let (name, _) = fresh_database(testbed);
    let far = |server| DelayProxy::start(server, ROUND_TRIP).expect("a proxy");
    let (postgres, redis) = (
        far(testbed.postgres_address()),
        far(testbed.redis_address()),
    );
    let database_url = testbed.database_url_through(postgres.addr(), &name);
    let redis_url = testbed.redis_url_through(redis.addr());
    let one_of_each = Hub {
        installations: 1,
        repositories: 1,
    };
    let hub = HubStub::start(ROUND_TRIP, one_of_each).expect("a stub");
    let identity = IdentityStub::start(ROUND_TRIP).expect("a stub");
    let tracker = TrackerStub::start(ROUND_TRIP, 7).expect("a stub");
    let told = ListenerStub::start(ROUND_TRIP).expect("a stub");
    let (hub, identity, tracker) = (hub.url(), identity.url(), tracker.url());
    let (mail, analytics) = (told.mail_url(), told.analytics_url());
    let service = Service::start_state_with(
        steps,
        &database_url,
        &redis_url,
        &[
            ["--monitor", "full-split"],
            ["--hub-url", &hub],
            ["--identity-url", &identity],
            ["--tracker-url", &tracker],
            ["--mail-url", &mail],
            ["--analytics-url", &analytics],
        ]
        .concat(),
    );
    let client = reqwest::Client::new();
    let got = ENDPOINTS.map(|(_, path)| client.get(service.url(path)));
    let posted = POSTED.map(|(_, path, body)| {
        let request = client.post(service.url(path)).body(body);
        request.header("content-type", "application/json")
    });
    for request in got.into_iter().chain(posted) {
        for _ in 0..REQUESTS {
            let again = request.try_clone().expect("its body is a text");
            let response = again.send().await.expect("an answer");
            assert!(response.status().is_success(), "{request:?}");
            // Read to its end, so that the connection serves the next one.
            response.bytes().await.expect("a whole answer");
        }
    }
    let snapshot: Value = client
        .get(service.url("/__unstall/snapshot"))
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    let got = ENDPOINTS.into_iter().map(|(name, _)| name);
    let posted = POSTED.into_iter().map(|(name, _, _)| name);
    got.chain(posted)
        .map(|name| {
            let endpoint = &snapshot["endpoints"][name];
            assert_eq!(endpoint["requests"], REQUESTS, "{name}: {snapshot}");
            let number = |field: &str| endpoint["blocked"][field].as_u64().expect("a counter");
            (name, number("slept_ns"), number("events_over_200us"))
        })
        .collect()
}

#[tokio::test]
async fn only_blocking_stores_block_the_loop() {
    for (name, slept_ns, _) in blocked("0").await {
        assert!(
            slept_ns > 0,
            "{name}: the blocking store was never seen asleep"
        );
    }
    for steps in ["start", "0,1,2a,2c,2d,2e,3,4,5"] {
        for (name, _, long_blocks) in blocked(steps).await {
            assert_eq!(
                long_blocks, 0,
                "steps {steps}, {name}: the loop was blocked for 200 µs or more"
            );
        }
    }
}

#[tokio::test]
async fn a_step_moves_its_own_stores_only() {
    let blocked = blocked("0,1,2a").await;
    let (usage, others) = blocked.split_first().expect("several endpoints");
    assert_eq!(usage.2, 0, "{usage:?}: step 2a has landed");
    for (name, slept_ns, _) in others {
        assert!(*slept_ns > 0, "{name}: its step has not landed");
    }
}
