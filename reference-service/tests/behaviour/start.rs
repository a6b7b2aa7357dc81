//! The faults of the start, which step 0 ends: each is there, is counted, and does no harm that lasts.

use std::collections::BTreeMap;
use std::net::TcpStream;

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::leaks::{Holdings, create, end_run, open_stream, wait_until};
use super::own_redis::OwnRedis;
use super::runs::say;
use super::service::{Service, fresh_database, shared_testbed};

const USAGE: &str = "/api/v1/usage/usage?start_date=2000-01-01&end_date=2100-01-01";
const SESSIONS: &str = "sessions_used_on_other_threads";
const CALLS: &str = "store_calls_queued_for_pool";
const OBJECTS: &str = "stream_objects_queued_beyond_bound";
const THREADS: &str = "stream_threads_beyond_pool";

/// The faults counted so far.
async fn faults(service: &Service) -> BTreeMap<String, u64> {
    let answer = reqwest::get(service.url("/__unstall/snapshot")).await;
    let snapshot: Value = answer.expect("an answer").json().await.expect("JSON");
    serde_json::from_value(snapshot["counters"].clone()).expect("counters")
}

/// Those of these names, and none of any other.
fn only(counted: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = [SESSIONS, CALLS, OBJECTS, THREADS]
        .map(|name| (name.to_owned(), 0))
        .into();
    all.extend(counted.iter().map(|(name, n)| ((*name).to_owned(), *n)));
    all
}

#[tokio::test]
async fn sessions_go_to_other_threads_at_the_start_only() {
    let testbed = shared_testbed();
    for (steps, sessions) in [("start", 1), ("0", 0), ("0,1,2a,2b,2c,2d", 0)] {
        let (_, database_url) = fresh_database(testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        assert_eq!(faults(&service).await, only(&[]), "steps {steps}");
        let usage = reqwest::get(service.url(USAGE)).await.expect("an answer");
        assert_eq!(usage.status(), 200);
        assert_eq!(faults(&service).await[SESSIONS], sessions, "steps {steps}");
        // However many statements one has.
        let login = service.url("/api/v1/sso/login");
        let token = json!({ "email": "u-3@example.test", "sso_provider": "google",
                            "id_token": "id-token-u-3@example.test" });
        let login = reqwest::Client::new().post(login).json(&token).send();
        assert_eq!(login.await.expect("an answer").status(), 200);
        assert_eq!(faults(&service).await, only(&[(SESSIONS, 2 * sessions)]));
        // Redis has none.
        let tunnel = "/api/v1/tunnel/workspace/00000000000000a1";
        let tunnel = reqwest::get(service.url(tunnel)).await.expect("an answer");
        assert_eq!(tunnel.status(), 200);
        assert_eq!(faults(&service).await[SESSIONS], 2 * sessions);
    }
}

#[tokio::test]
async fn each_stream_has_a_thread_that_ends_with_its_client() {
    const STREAMS: usize = 50;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start("start", &database_url, &redis.url);
    let holdings = Holdings::of(&service).await;
    let mut streams = Vec::new();
    for session in 0..STREAMS {
        streams.push(open_stream(&service, session).await);
    }
    assert!(holdings.threads() >= holdings.at_rest.0 + STREAMS);
    // Beyond the 40 that the pool has; and nobody who needs the pool waits for them.
    assert_eq!(faults(&service).await[THREADS], 10);
    assert_eq!(create(service.url("/api/v1/conversations")).await, 200);
    // Half end, and the clients of the others leave.
    (0..STREAMS / 2).for_each(|session| end_run(&redis, session));
    let left = streams.split_off(STREAMS / 2);
    for stream in streams {
        stream.text().await.expect("it ends");
    }
    drop(left);
    holdings.are_returned("start").await;
    // With their places: the next ones are within the pool's size again.
    let _one_more = open_stream(&service, STREAMS).await;
    assert_eq!(faults(&service).await[THREADS], 10);
}

#[tokio::test]
async fn a_slow_client_s_objects_wait_without_bound_and_all_arrive() {
    const CHUNKS: usize = 400;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    // More in all than the sockets between service and client hold.
    let piece = "x".repeat(64 * 1024);
    for steps in ["start", "0"] {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let path = "/api/v1/conversations/c-0-1/message?session_id=s0";
        let stream = say(&service, path, "x").await;
        let chunk = ["XADD", "chat:stream:c-0-1:s0", "*", "type", "chunk"];
        for _ in 0..CHUNKS {
            redis.ask(&[&chunk[..], &["content", &piece]].concat());
        }
        end_run(&redis, 0);
        if steps == "start" {
            wait_until("objects wait", async || faults(&service).await[OBJECTS] > 0).await;
        }
        let whole = stream.text().await.expect("it ends");
        let objects: Vec<Value> = serde_json::Deserializer::from_str(&whole)
            .into_iter()
            .map(|object| object.expect("whole objects"))
            .collect();
        // The first says that it is queued.
        assert_eq!(objects.len(), 1 + CHUNKS, "steps {steps}");
        let is_whole = |object: &Value| object["message"] == piece;
        assert!(objects[1..].iter().all(is_whole), "steps {steps}");
        let beyond = faults(&service).await[OBJECTS];
        assert_eq!(beyond > 0, steps == "start", "steps {steps}: {beyond}");
    }
}

#[tokio::test]
async fn a_full_pool_keeps_calls_waiting_and_not_the_loop() {
    const BEYOND: u64 = 5;
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start("start", &database_url, &testbed.redis_url());
    let mut locker = PgConnection::connect(&database_url)
        .await
        .expect("connects");
    let mut lock = locker.begin().await.expect("begins");
    sqlx::query("LOCK TABLE messages")
        .execute(&mut *lock)
        .await
        .expect("nobody else has it");
    // Each takes a thread, whether it waits for the table or for a connection.
    let calls: Vec<_> = (0..40 + BEYOND)
        .map(|_| tokio::spawn(reqwest::get(service.url(USAGE))))
        .collect();
    wait_until("the pool is full", async || {
        faults(&service).await[CALLS] == BEYOND
    })
    .await;
    let health = reqwest::get(service.url("/health")).await;
    assert_eq!(health.expect("an answer").status(), 200);
    lock.rollback().await.expect("lets go");
    for call in calls {
        let answer = call.await.expect("no panic").expect("an answer");
        // Who waited too long for a connection was told so.
        assert!(matches!(answer.status().as_u16(), 200 | 503));
    }
    let usage = reqwest::get(service.url(USAGE)).await.expect("an answer");
    assert_eq!(usage.status(), 200);
    assert_eq!(faults(&service).await[CALLS], BEYOND);
}

#[tokio::test]
async fn an_idle_stream_keeps_no_state_from_ending() {
    let testbed = shared_testbed();
    for steps in ["start", "0"] {
        let redis = OwnRedis::new(testbed);
        let (_, database_url) = fresh_database(testbed);
        let mut service = Service::start(steps, &database_url, &redis.url);
        let stream = open_stream(&service, 0).await;
        service.terminate();
        let ended = tokio::task::spawn_blocking(move || {
            let status = service.wait();
            assert!(TcpStream::connect(service.address).is_err());
            status
        });
        assert!(ended.await.expect("no panic").success(), "steps {steps}");
        // Whatever the client makes of a connection that is cut.
        let _cut = stream.text().await;
    }
}
