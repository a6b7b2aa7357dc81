//! Runs through the service and a worker: ids, cursors, stops, and what is stored of them.

use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::{Connection, PgConnection};
use unstall_testbed::DelayProxy;

use super::EXAMPLES;
use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed, start_worker};

const STATES: [&str; 8] = [
    "start",
    "0",
    "0,1",
    "0,6",
    "0,1,2a,2b,2c,2d,2e,3,4",
    "0,1,2a,2b,2c,2d,2e,3,4,5,6",
    EXAMPLES[0],
    EXAMPLES[1],
];
const CONVERSATION: &str = "/api/v1/conversations/c-0-1";

pub(crate) async fn say(service: &Service, path: &str, content: &str) -> reqwest::Response {
    let response = reqwest::Client::new()
        .post(service.url(path))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("content={content}"))
        .send()
        .await
        .expect(path);
    assert_eq!(response.status(), 200, "{path}");
    response
}

async fn post(service: &Service, path: &str) -> reqwest::Response {
    let client = reqwest::Client::new();
    client.post(service.url(path)).send().await.expect(path)
}

/// The objects' messages.
pub(crate) fn messages(body: &str) -> Vec<String> {
    serde_json::Deserializer::from_str(body)
        .into_iter::<Value>()
        .map(|object| {
            let object = object.expect("whole objects");
            object["message"].as_str().expect("a text").to_owned()
        })
        .collect()
}

async fn rows(database_url: &str) -> Vec<(String, String, String)> {
    let mut connection = PgConnection::connect(database_url).await.expect("connects");
    sqlx::query_as(
        "SELECT type, status, content FROM messages \
         WHERE conversation_id = 'c-0-1' AND id NOT LIKE 'm-%' ORDER BY created_at",
    )
    .fetch_all(&mut connection)
    .await
    .expect("messages are there")
}

fn row(kind: &str, status: &str, content: &str) -> (String, String, String) {
    (kind.to_owned(), status.to_owned(), content.to_owned())
}

#[tokio::test]
async fn messages_at_once_get_runs_of_their_own() {
    const AT_ONCE: usize = 8;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let message = format!("{CONVERSATION}/message");
        // Runs that wait when the worker comes are answered, and what is no task is passed over.
        redis.ask(&["RPUSH", "agent:runs", "{"]);
        let mut answers: Vec<_> = (0..AT_ONCE)
            .map(|n| {
                let url = service.url(&message);
                tokio::spawn(async move {
                    let client = reqwest::Client::new();
                    let form = "application/x-www-form-urlencoded";
                    let request = client.post(url).header("content-type", form);
                    let response = request.body(format!("content={n}")).send().await;
                    response.expect("an answer").text().await.expect("a stream")
                })
            })
            .collect();
        while redis.ask(&["LLEN", "agent:runs"]).number() < 1 + AT_ONCE as i64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
        for (n, answer) in answers.drain(..).enumerate() {
            let expected = ["", "You ", "asked: ", &n.to_string()].map(str::to_owned);
            assert_eq!(messages(&answer.await.expect("asked")), expected, "{steps}");
        }
        let keys = redis.ask(&["KEYS", "chat:stream:c-0-1:*"]).texts();
        let mut expected = vec!["chat:stream:c-0-1:conversation:u-0:new".to_owned()];
        expected
            .extend((1..AT_ONCE).map(|n| format!("chat:stream:c-0-1:conversation:u-0:new-{n}")));
        assert_eq!(keys, expected, "steps {steps}");
    }
}

#[tokio::test]
async fn a_cursor_replays_from_its_entry_on() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let _worker = start_worker(&database_url, &redis.url, &["--chunks", "6"]);
        let answer = say(
            &service,
            &format!("{CONVERSATION}/message?session_id=s"),
            "x",
        )
        .await;
        let all = messages(&answer.text().await.expect("a stream"));
        assert_eq!(all, ["", "You ", "asked: ", "x ", "and ", "so ", "on "]);
        let entries: Vec<String> = redis
            .ask(&["XRANGE", "chat:stream:c-0-1:s", "-", "+"])
            .list()
            .into_iter()
            .map(|entry| entry.list().swap_remove(0).text())
            .collect();
        // queued, start, six chunks, end
        assert_eq!(entries.len(), 9);
        for (n, expected) in [(0, &all[..]), (1, &all[1..]), (4, &all[3..]), (8, &[][..])] {
            let path = format!("{CONVERSATION}/resume/s?cursor={}", entries[n]);
            let rest = post(&service, &path).await.text().await.expect("a stream");
            assert_eq!(messages(&rest), expected, "steps {steps}, entry {n}");
        }
    }
}

#[tokio::test]
async fn a_stopped_run_ends_and_what_it_said_is_kept() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        for query in ["", "?session_id=s"] {
            let (_, database_url) = fresh_database(testbed);
            redis.reset();
            let service = Service::start(steps, &database_url, &redis.url);
            let slow = ["--chunks", "1000", "--rate", "20"];
            let _worker = start_worker(&database_url, &redis.url, &slow);
            let path = format!("{CONVERSATION}/message?session_id=s");
            let mut stream = say(&service, &path, "x").await;
            let mut body = String::new();
            while messages(&body).len() < 4 {
                let piece = stream
                    .chunk()
                    .await
                    .expect("it goes on")
                    .expect("it goes on");
                body += std::str::from_utf8(&piece).expect("text");
            }
            let stopped: Value = post(&service, &format!("{CONVERSATION}/stop{query}"))
                .await
                .json()
                .await
                .expect("JSON");
            assert_eq!(stopped["saved_partial"], true, "steps {steps}: {stopped}");
            assert!(
                stopped["message_id"].is_string(),
                "steps {steps}: {stopped}"
            );
            body += &stream.text().await.expect("it ends");
            let said = messages(&body).concat();
            assert!(said.starts_with("You asked: x"), "{said}");

            // Reservations alone outlive a stop.
            let keys = redis.ask(&["KEYS", "*c-0-1*"]).texts();
            assert_eq!(keys, ["chat:stream:reservation:c-0-1:s"], "steps {steps}");
            let rows = rows(&database_url).await;
            let kept = &rows.last().expect("a row").2;
            // A stop that holds the loop holds its stream, too, and deletes it before the last
            // pieces were read: in the original, what was kept can be more than what was heard. So
            // can it with step 6 alone, whose reader is on the loop that a stop still holds.
            let holds_its_stream = steps == EXAMPLES[0] || steps == "0,6";
            let heard_less = holds_its_stream && kept.starts_with(&said);
            assert!(*kept == said || heard_less, "steps {steps}: {kept} {said}");
            let expected = [
                row("HUMAN", "ACTIVE", "x"),
                row("AI_GENERATED", "ACTIVE", kept),
            ];
            assert_eq!(rows, expected, "steps {steps}");
        }
    }
}

#[tokio::test]
async fn a_regeneration_archives_the_answers_before_it() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
        let at_once = format!("{CONVERSATION}/message?stream=false");
        for content in ["one", "two"] {
            say(&service, &at_once, content).await;
        }
        let again = reqwest::Client::new()
            .post(service.url(&format!("{CONVERSATION}/regenerate?stream=false")))
            .header("content-type", "application/json")
            .body("{}")
            .send()
            .await
            .expect("an answer");
        let answer: Value = again.json().await.expect("JSON");
        assert_eq!(answer["message"], "You asked: two", "steps {steps}");
        let expected = [
            row("HUMAN", "ACTIVE", "one"),
            row("AI_GENERATED", "ACTIVE", "You asked: one"),
            row("HUMAN", "ACTIVE", "two"),
            row("AI_GENERATED", "ARCHIVED", "You asked: two"),
            row("AI_GENERATED", "ACTIVE", "You asked: two"),
        ];
        assert_eq!(rows(&database_url).await, expected, "steps {steps}");
    }
}

#[tokio::test]
async fn pieces_come_no_sooner_than_the_rate_allows() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start("0,1", &database_url, &redis.url);
    let pace = ["--chunks", "10", "--rate", "50", "--jitter", "0.5"];
    let _worker = start_worker(&database_url, &redis.url, &pace);
    let began = Instant::now();
    let answer = say(&service, &format!("{CONVERSATION}/message"), "x").await;
    let pieces = messages(&answer.text().await.expect("a stream"));
    assert_eq!(pieces.len(), 11);
    assert!(began.elapsed() >= Duration::from_millis(200));
}

/// Nanoseconds asleep and blocks of 200 µs or more of an endpoint.
fn blocked(snapshot: &Value, endpoint: &str) -> (u64, u64) {
    let blocked = &snapshot["endpoints"][endpoint]["blocked"];
    let number = |field: &str| blocked[field].as_u64().expect(endpoint);
    (number("slept_ns"), number("events_over_200us"))
}

#[tokio::test]
async fn only_blocking_stores_hold_the_loop() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    // Long enough that no answer is there before it is waited for.
    let far = |server| DelayProxy::start(server, Duration::from_millis(2)).expect("a proxy");
    let (postgres, far_redis) = (
        far(testbed.postgres_address()),
        far(testbed.redis_address()),
    );
    for steps in ["start", "0", "0,1", "0,1,2a"] {
        let (name, database_url) = fresh_database(testbed);
        redis.reset();
        let far_database_url = testbed.database_url_through(postgres.addr(), &name);
        let far_redis_url = redis.url_through(testbed, far_redis.addr());
        let mut options = vec!["--monitor", "full-split", "--steps", steps];
        options.extend(["--database-url", &far_database_url]);
        options.extend(["--redis-url", &far_redis_url]);
        let service = Service::start_with(&options);
        let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
        for _ in 0..10 {
            let at_once = format!("{CONVERSATION}/message?stream=false");
            say(&service, &at_once, "x").await;
            for path in ["active-session", "task-status"] {
                let url = service.url(&format!("{CONVERSATION}/{path}"));
                assert_eq!(reqwest::get(url).await.expect(path).status(), 200, "{path}");
            }
        }
        let stopped = post(&service, &format!("{CONVERSATION}/stop?session_id=none")).await;
        assert_eq!(stopped.status(), 200);
        let snapshot = reqwest::get(service.url("/__unstall/snapshot"));
        let snapshot: Value = snapshot
            .await
            .expect("an answer")
            .json()
            .await
            .expect("JSON");
        let of = |endpoint: &str| blocked(&snapshot, endpoint);
        let stop = of("POST /api/v1/conversations/{id}/stop");
        let routes = [
            "POST …/message",
            "GET …/active-session",
            "GET …/task-status",
        ]
        .map(|name| of(&name.replace('…', "/api/v1/conversations/{id}")));
        if steps == "0" {
            assert!(stop.0 >= 200_000_000, "it sleeps 0.2 s: {stop:?}");
        } else {
            assert_eq!(stop.1, 0, "steps {steps}: {stop:?}");
        }
        let [message, session, task] = routes;
        // A message waits for the usage check first, which step 2a moves.
        assert_eq!(
            message.0 > 0,
            matches!(steps, "0" | "0,1"),
            "steps {steps}: {message:?}"
        );
        for route in [session, task] {
            assert_eq!(route.1 > 0, steps == "0", "steps {steps}: {route:?}");
        }
    }
}
