//! Mail and analytics: what they are told in every state, and, once they are told over a bridge,
//! its bounds.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};
use unstall_testbed::{Behaviour, FaultyServer, ListenerStub};

use super::leaks::wait_until;
use super::own_redis::OwnRedis;
use super::runs::say;
use super::service::{Service, fresh_database, shared_testbed};
use super::services_beside::{AWAITED, BLOCKS, with_services};
use super::start::faults;
use super::{PROVEN_STATES, STATES};

const SHARE: &str = "/api/v1/conversations/share";
const CREATE: &str = "/api/v1/conversations";
const MESSAGE: &str = "/api/v1/conversations/c-0-1/message?session_id=s0";

async fn post(service: &Service, path: &str, body: Value) -> (u16, Value) {
    let request = Client::new().post(service.url(path)).json(&body);
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

async fn share(service: &Service, recipients: &[&str]) {
    let body = json!({ "conversation_id": "c-0-1", "recipientEmails": recipients });
    assert_eq!(post(service, SHARE, body).await.0, 201);
}

async fn create(service: &Service) -> String {
    let body = json!({ "user_id": "u-0", "title": "t", "status": "active",
                       "project_ids": ["p-1"], "agent_ids": [] });
    let (status, created) = post(service, CREATE, body).await;
    assert_eq!(status, 200, "{created}");
    created["conversation_id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

fn json_of(text: Option<String>) -> Value {
    serde_json::from_str(&text.expect("it was told")).expect("JSON")
}

/// Tells when the stub has had that many, which over a bridge is after the answer.
async fn told(stub: &ListenerStub, route: &str, times: u64) {
    let what = format!("{route} is told {times} times");
    wait_until(&what, async || stub.requests(route) >= times).await;
    assert_eq!(stub.requests(route), times);
}

#[tokio::test]
async fn every_state_tells_mail_and_analytics_the_same() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for state in STATES.into_iter().chain(PROVEN_STATES) {
        let stub = ListenerStub::start(Duration::from_millis(2)).expect("a stub");
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let (mail, analytics) = (stub.mail_url(), stub.analytics_url());
        let options = ["--mail-url", &*mail, "--analytics-url", &analytics];
        let service = Service::start_state_with(state, &database_url, &redis.url, &options);

        share(&service, &["a@b.test", "c@d.test"]).await;
        told(&stub, ListenerStub::MAIL, 1).await;
        let mail = json_of(stub.latest(ListenerStub::MAIL));
        assert_eq!(mail["to"], json!(["a@b.test", "c@d.test"]), "{state}");
        let id = create(&service).await;
        told(&stub, ListenerStub::ANALYTICS, 1).await;
        let event = json!({ "event": "conversation_created", "distinct_id": "u-0",
                            "properties": { "conversation_id": id } });
        assert_eq!(
            json_of(stub.latest(ListenerStub::ANALYTICS)),
            event,
            "{state}"
        );
        drop(say(&service, MESSAGE, "x").await);
        told(&stub, ListenerStub::ANALYTICS, 2).await;
        let event = json!({ "event": "message_posted", "distinct_id": "u-0",
                            "properties": { "conversation_id": "c-0-1" } });
        assert_eq!(
            json_of(stub.latest(ListenerStub::ANALYTICS)),
            event,
            "{state}"
        );

        // Nothing to tell: no recipients, no conversation, no message.
        share(&service, &[]).await;
        let nobodys = json!({ "conversation_id": "c-404", "recipientEmails": ["a@b.test"] });
        assert_eq!(post(&service, SHARE, nobodys).await.0, 404);
        let public = json!({ "conversation_id": "c-0-1", "visibility": "public" });
        assert_eq!(post(&service, SHARE, public).await.0, 201);
        assert_eq!(post(&service, CREATE, json!({})).await.0, 422);
        let blank = Client::new().post(service.url(MESSAGE));
        let form = "application/x-www-form-urlencoded";
        let blank = blank.header("content-type", form).body("content=+");
        let blank = blank.send().await;
        assert_eq!(blank.expect("an answer").status(), 400);
        // Had one of them told anything, it would be before this.
        share(&service, &["e@f.test"]).await;
        create(&service).await;
        told(&stub, ListenerStub::MAIL, 2).await;
        told(&stub, ListenerStub::ANALYTICS, 3).await;
        let counted = faults(&service).await;
        assert_eq!(
            (counted["bridge_dropped"], counted["bridge_failed"]),
            (0, 0)
        );
    }
}

#[tokio::test]
async fn a_message_is_told_whatever_becomes_of_its_run() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for state in ["start", BLOCKS, AWAITED] {
        let stub = ListenerStub::start(Duration::from_millis(2)).expect("a stub");
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let analytics = stub.analytics_url();
        let options = ["--analytics-url", &*analytics, "--stream-idle-max", "1"];
        let service = Service::start_state_with(state, &database_url, &redis.url, &options);
        // No worker answers.
        let path = service.url(&format!("{MESSAGE}&stream=false"));
        let form = "application/x-www-form-urlencoded";
        let message = Client::new().post(path).header("content-type", form);
        let failed = message.body("content=x").send().await.expect("an answer");
        assert_eq!(failed.status(), 500, "{state}");
        told(&stub, ListenerStub::ANALYTICS, 1).await;
    }
}

#[tokio::test]
async fn what_they_answer_changes_no_answer() {
    let refusing = FaultyServer::start(Behaviour::Refuse).expect("a port");
    for (state, failed) in [("start", 0), (BLOCKS, 0), (AWAITED, 2)] {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        for url in [format!("{}/500", server.url()), refusing.url()] {
            let service = with_services(state, &["--mail-url", &url, "--analytics-url", &url]);
            share(&service, &["a@b.test"]).await;
            create(&service).await;
            let what = format!("{state}: two calls failed");
            wait_until(&what, async || {
                faults(&service).await["bridge_failed"] == failed
            })
            .await;
            assert_eq!(faults(&service).await["bridge_dropped"], 0);
        }
        assert_eq!(server.counts("/500").requests, 2, "{state}");
    }
}

/// What the bridge is for: before step 4, and since step 0, one mail service that hangs stops
/// everybody; after it its calls are given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_service_that_hangs_holds_nobody_after_step_4() {
    for (state, sharer_waits) in [("start", true), (BLOCKS, true), (AWAITED, false)] {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        let url = format!("{}/hang", server.url());
        let service = std::sync::Arc::new(with_services(state, &["--mail-url", &url]));
        let for_task = std::sync::Arc::clone(&service);
        let began = Instant::now();
        let sharing = tokio::spawn(async move { share(&for_task, &["a@b.test"]).await });
        wait_until("it hangs", async || server.counts("/hang").requests == 1).await;
        if sharer_waits {
            assert!(!sharing.is_finished(), "{state}");
            drop(server);
            sharing.await.expect("it is shared all the same");
            continue;
        }
        sharing.await.expect("it is shared");
        let failed = faults(&service).await["bridge_failed"];
        // The call waits two seconds for an answer: who was held by it can't be here before.
        if began.elapsed() < Duration::from_secs(2) {
            assert_eq!(failed, 0);
        }
        wait_until("the call is given up", async || {
            faults(&service).await["bridge_failed"] == 1
        })
        .await;
        share(&service, &["c@d.test"]).await;
        assert_eq!(faults(&service).await["bridge_dropped"], 0);
    }
}

#[tokio::test]
async fn what_the_bridge_has_taken_is_done_after_term_or_told() {
    const MAILS: u64 = 6;
    for (path, done) in [("/slow/50", true), ("/hang", false)] {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        let url = format!("{}{path}", server.url());
        let mut service = with_services(AWAITED, &["--mail-url", &url]);
        for _ in 0..MAILS {
            share(&service, &["a@b.test"]).await;
        }
        service.terminate();
        assert!(service.wait().success());
        let log = service.program.log();
        // How many depends on how long the shares took: the first may have been given up by then.
        let told = log.contains("jobs are left undone at the end");
        assert_eq!(told, !done, "{path}: {log}");
        if done {
            assert_eq!(server.counts(path).requests, MAILS);
        }
    }
}
