//! What each variant asks of Redis for one request about runs, by kind: the counts of the
//! service being migrated, and only KEYS and the connections differ after step 1.
//!
//! No worker runs: its commands would be counted, too.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::EXAMPLES;
use super::round_trips::{ask, counted};
use super::runs::say;
use super::service::{Service, fresh_database, seeded_testbed};

type Counts = BTreeMap<String, u64>;

fn counts<const N: usize>(pairs: [(&str, u64); N]) -> Counts {
    pairs
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

/// Waits until so many stream readers wait inside XREAD. Gives the connections that it made.
async fn readers_wait(redis: SocketAddr, readers: usize) -> u64 {
    let wanted = format!("blocked_clients:{readers}");
    for look in 1..6000 {
        let info = ask(redis, "INFO clients");
        if info.lines().any(|line| line.trim_end() == wanted) {
            return look;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("there are never {readers} readers");
}

#[tokio::test]
async fn a_message_costs_k_plus_six_commands_and_its_task() {
    for (steps, connects) in [
        ("start", 2),
        ("0", 2),
        ("0,1", 0),
        (EXAMPLES[0], 2),
        (EXAMPLES[1], 0),
    ] {
        let testbed = seeded_testbed();
        let redis = testbed.redis_address();
        let (_, database_url) = fresh_database(&testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        for live_runs in 0..3 {
            ask(redis, "CONFIG RESETSTAT");
            let path = "/api/v1/conversations/c-0-1/message?session_id=s";
            let stream = say(&service, path, "hello").await;
            let looks = readers_wait(redis, 1).await;
            let (mut commands, connections) = counted(redis);
            // The reader has found the stream, read its first entry, and looked again; whether
            // a command that waits is counted is Redis' affair.
            commands.remove("xread");
            if steps == "start" {
                // Its readers look again every second: a machine that is slow sees more.
                let looks = commands.entry("exists".to_owned()).or_default();
                assert!(*looks >= live_runs + 1 + 2, "{looks}");
                *looks = live_runs + 1 + 2;
            }
            let expected = counts([
                ("exists", live_runs + 1 + 2),
                ("set", 3),
                ("xadd", 1),
                ("expire", 1),
                ("rpush", 1),
            ]);
            assert_eq!(commands, expected, "steps {steps}, {live_runs} live runs");
            // The reader has a connection of its own in both.
            assert_eq!(connections - looks, connects + 1, "steps {steps}");
            let run = match live_runs {
                0 => "s".to_owned(),
                n => format!("s-{n}"),
            };
            let end = format!("XADD chat:stream:c-0-1:{run} * type end status completed");
            ask(redis, &end);
            stream.text().await.expect("it ends");
            readers_wait(redis, 0).await;
        }
    }
}

/// What the shared reader asks for itself: connecting, waiting, being woken.
const OF_READER: [&str; 9] = [
    "client|id",
    "client|setname",
    "client|unblock",
    "cluster|info",
    "ping",
    "quit",
    "select",
    "type",
    "xread",
];

#[tokio::test]
async fn a_reader_without_a_thread_asks_once_whether_a_stream_is_there() {
    let testbed = seeded_testbed();
    let redis = testbed.redis_address();
    let (_, database_url) = fresh_database(&testbed);
    let service = Service::start("0,1,6", &database_url, &testbed.redis_url());
    ask(redis, "CONFIG RESETSTAT");
    let mut streams = Vec::new();
    for session in ["a", "b", "c"] {
        let path = format!("/api/v1/conversations/c-0-1/message?session_id={session}");
        let mut stream = say(&service, &path, "hello").await;
        stream.chunk().await.expect("it begins").expect("queued");
        streams.push(stream);
    }
    let looks = readers_wait(redis, 1).await;
    let (mut commands, connections) = counted(redis);
    // More, if the machine is so slow that it looks again.
    assert!(commands.get("type") >= Some(&3), "{commands:?}");
    for name in OF_READER {
        commands.remove(name);
    }
    // The message's own, with one run of each base.
    let expected = counts([
        ("exists", 3),
        ("set", 9),
        ("xadd", 3),
        ("expire", 3),
        ("rpush", 3),
    ]);
    assert_eq!(commands, expected);
    assert_eq!(connections - looks, 1);
}

const REQUESTS: u64 = 10;

async fn commands_of(service: &Service, redis: SocketAddr, path: &str) -> (Counts, u64) {
    ask(redis, "CONFIG RESETSTAT");
    for _ in 0..REQUESTS {
        let response = reqwest::get(service.url(path)).await.expect(path);
        assert_eq!(response.status(), 200, "{path}");
    }
    counted(redis)
}

#[tokio::test]
async fn sessions_are_looked_up_by_one_command_of_each_kind() {
    let testbed = seeded_testbed();
    let redis = testbed.redis_address();
    ask(redis, "XADD chat:stream:c-0-1:s 1-0 type queued");
    ask(redis, "SET task:status:c-0-1:s running");
    for (steps, look_up, connections) in [
        ("start", "keys", REQUESTS),
        ("0", "keys", REQUESTS),
        ("0,1", "scan", 0),
        (EXAMPLES[0], "keys", REQUESTS),
        (EXAMPLES[1], "scan", 0),
    ] {
        let (_, database_url) = fresh_database(&testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        let session = "/api/v1/conversations/c-0-1/active-session";
        let expected = [look_up, "xrevrange", "exists", "xinfo|stream", "get"];
        assert_eq!(
            commands_of(&service, redis, session).await,
            (counts(expected.map(|name| (name, REQUESTS))), connections),
            "steps {steps}"
        );
        // Redis' words for a stream that goes between two of them.
        assert!(ask(redis, "XINFO STREAM gone").contains("no such key"));
        let status = "/api/v1/conversations/c-0-1/task-status";
        assert_eq!(
            commands_of(&service, redis, status).await,
            (
                counts([look_up, "get"].map(|name| (name, REQUESTS))),
                connections
            ),
            "steps {steps}"
        );
    }
}

#[tokio::test]
async fn a_stop_costs_the_same_commands() {
    let testbed = seeded_testbed();
    let redis = testbed.redis_address();
    for (steps, look_up, connections) in [
        ("start", "keys", 1),
        ("0", "keys", 1),
        ("0,1", "scan", 0),
        (EXAMPLES[0], "keys", 1),
        (EXAMPLES[1], "scan", 0),
    ] {
        let (_, database_url) = fresh_database(&testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        for (query, looked_up) in [("", 1), ("?session_id=s", 0)] {
            // From its beginning: else what it lacks would be looked for.
            ask(redis, "XADD chat:stream:c-0-1:s 1-0 type queued");
            ask(
                redis,
                "XADD chat:stream:c-0-1:s 2-0 type chunk content half",
            );
            ask(redis, "SET task:status:c-0-1:s running");
            ask(redis, "SET task:id:c-0-1:s t");
            ask(redis, "CONFIG RESETSTAT");
            let response = reqwest::Client::new()
                .post(service.url(&format!("/api/v1/conversations/c-0-1/stop{query}")))
                .send()
                .await
                .expect("an answer");
            assert_eq!(response.status(), 200);
            let mut expected = counts([
                ("set", 2),
                ("get", 1 + looked_up),
                ("exists", 1),
                ("xrange", 1),
                ("xadd", 1),
                ("expire", 1),
                ("del", 1),
            ]);
            if looked_up == 1 {
                expected.insert(look_up.to_owned(), 1);
            }
            assert_eq!(counted(redis), (expected, connections), "steps {steps}");
            assert_eq!(ask(redis, "KEYS *c-0-1*").trim_end(), "*0");
        }
    }
}
