//! What is kept of an answer that doesn't come to its end: its user stops it, its worker is told to
//! end, is killed, or Redis loses it. And that nothing is kept twice.

use nix::sys::signal::Signal;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use unstall_reference_service::run::Task;

use super::STATES;
use super::leaks::{open_stream, wait_until};
use super::own_redis::{OwnRedis, Reply};
use super::runs::messages;
use super::service::{
    Running, Service, fresh_database, seeded_testbed, shared_testbed, start_worker,
};

pub(crate) const STREAM: &str = "chat:stream:c-0-1:s0";
const DEAD: &str = "agent:taken:dead";
pub(crate) const ENDLESS: [&str; 4] = ["--chunks", "60000", "--rate", "20"];
pub(crate) const QUICK: [&str; 2] = ["--rate", "1000"];

/// A message without what differs each time: sender, type, status, content, citations, tool calls,
/// thinking.
pub(crate) type Row = (
    Option<String>,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
);

pub(crate) async fn stored(database_url: &str) -> Vec<Row> {
    let mut connection = PgConnection::connect(database_url).await.expect("connects");
    sqlx::query_as(
        "SELECT sender_id, type, status, content, citations, tool_calls::text, thinking \
         FROM messages WHERE conversation_id = 'c-0-1' AND id NOT LIKE 'm-%' \
         ORDER BY created_at",
    )
    .fetch_all(&mut connection)
    .await
    .expect("messages are there")
}

pub(crate) fn answer(content: &str) -> Row {
    let text = |text: &str| Some(text.to_owned());
    let word = str::to_owned;
    (
        None,
        word("AI_GENERATED"),
        word("ACTIVE"),
        word(content),
        None,
        text("[]"),
        None,
    )
}

pub(crate) fn question(content: &str) -> Row {
    (
        Some("u-0".to_owned()),
        "HUMAN".to_owned(),
        "ACTIVE".to_owned(),
        content.to_owned(),
        None,
        None,
        None,
    )
}

pub(crate) fn task(id: &str) -> Task {
    Task {
        task_id: id.to_owned(),
        conversation_id: "c-0-1".to_owned(),
        run_id: "s0".to_owned(),
        user_id: "u-0".to_owned(),
        content: "x".to_owned(),
        agent_id: None,
        regenerate: false,
    }
}

pub(crate) fn append(redis: &OwnRedis, fields: &[&str]) {
    redis.ask(&[&["XADD", STREAM, "*"][..], fields].concat());
}

/// What the stream still has of the answer.
pub(crate) fn said_in_stream(redis: &OwnRedis) -> String {
    let entries = redis.ask(&["XRANGE", STREAM, "-", "+"]).list();
    let texts = entries.into_iter().filter_map(|entry| {
        let fields = entry.list().swap_remove(1).list();
        let fields: Vec<String> = fields.into_iter().map(Reply::text).collect();
        let at = fields.iter().position(|field| field == "content")?;
        Some(fields[at + 1].clone())
    });
    texts.collect()
}

/// A run in the middle of an answer that has everything an answer can have.
pub(crate) fn half_an_answer(redis: &OwnRedis, task_id: &str) {
    redis.ask(&["SET", "task:status:c-0-1:s0", "running", "EX", "600"]);
    redis.ask(&["SET", "task:id:c-0-1:s0", task_id, "EX", "600"]);
    append(redis, &["type", "queued"]);
    append(redis, &["type", "start"]);
    for (content, citations, calls, thinking) in [
        ("Half ", r#"["a.rs"]"#, "[]", "First "),
        (
            "an answer's",
            r#"["a.rs","b.rs"]"#,
            r#"[{"name":"search"}]"#,
            "this",
        ),
    ] {
        let content = ["type", "chunk", "content", content];
        let sources = ["citations_json", citations, "tool_calls_json", calls];
        append(
            redis,
            &[&content[..], &sources, &["thinking", thinking]].concat(),
        );
    }
}

pub(crate) fn whole_row() -> Row {
    let text = |text: &str| Some(text.to_owned());
    let (sender, kind, status, ..) = answer("");
    (
        sender,
        kind,
        status,
        "Half an answer's".to_owned(),
        text("a.rs,b.rs"),
        text(r#"[{"name":"search"}]"#),
        text("First this"),
    )
}

/// A worker that has died with a task, as it is seen once its sign of life has expired.
pub(crate) fn leave_to_the_dead(redis: &OwnRedis, task: &Task) {
    let text = serde_json::to_string(task).expect("texts");
    redis.ask(&["RPUSH", DEAD, &text]);
    redis.ask(&["SADD", "agent:workers", "dead"]);
}

/// A worker is killed, and the time passes after which it counts as dead.
pub(crate) fn kill(worker: &Running, redis: &OwnRedis) {
    worker.signal(Signal::SIGKILL);
    for key in redis.ask(&["KEYS", "agent:alive:*"]).texts() {
        redis.ask(&["DEL", &key]);
    }
}

pub(crate) async fn nothing_is_taken(redis: &OwnRedis) {
    wait_until("no task is in a worker's list", async || {
        redis.ask(&["KEYS", "agent:taken:*"]).texts().is_empty()
    })
    .await;
}

pub(crate) async fn stop(service: &Service) -> Value {
    let path = service.url("/api/v1/conversations/c-0-1/stop?session_id=s0");
    let stopped = reqwest::Client::new().post(path).send().await;
    stopped.expect("an answer").json().await.expect("JSON")
}

/// Reads on until so many pieces of the answer have come.
async fn read_pieces(stream: &mut reqwest::Response, pieces: usize) -> String {
    let mut body = String::new();
    while messages(&body).len() < pieces {
        let piece = stream.chunk().await.expect("it goes on");
        body += std::str::from_utf8(&piece.expect("it goes on")).expect("text");
    }
    body
}

#[tokio::test]
async fn the_loop_and_the_worker_store_the_same_row() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        half_an_answer(&redis, "t-1");
        let stopped = stop(&service).await;
        // The id that the worker would have given it.
        assert_eq!(stopped["message_id"], "t-1", "steps {steps}: {stopped}");
        assert_eq!(stored(&database_url).await, [whole_row()], "steps {steps}");
    }
    let (_, database_url) = fresh_database(testbed);
    redis.reset();
    half_an_answer(&redis, "t-1");
    leave_to_the_dead(&redis, &task("t-1"));
    let _worker = start_worker(&database_url, &redis.url, &QUICK);
    nothing_is_taken(&redis).await;
    assert_eq!(stored(&database_url).await, [whole_row()], "the worker");
}

#[tokio::test]
async fn an_answer_that_two_store_is_there_once_as_far_as_it_came() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let mut connection = PgConnection::connect(&database_url)
            .await
            .expect("connects");
        for (earlier, kept, is_saved) in [
            ("Half ", whole_row(), true),
            ("Half an answer's", whole_row(), true),
            (
                "Half an answer's end",
                answer("Half an answer's end"),
                false,
            ),
        ] {
            // As a worker stores it that ends meanwhile.
            sqlx::query(
                "INSERT INTO messages (id, conversation_id, content, type, tool_calls) \
                 VALUES ('t-1', 'c-0-1', $1, 'AI_GENERATED', '[]') \
                 ON CONFLICT (id) DO UPDATE SET content = excluded.content, \
                 citations = NULL, tool_calls = '[]', thinking = NULL",
            )
            .bind(earlier)
            .execute(&mut connection)
            .await
            .expect("is stored");
            half_an_answer(&redis, "t-1");
            let stopped = stop(&service).await;
            assert_eq!(stopped["saved_partial"], is_saved, "{steps}: {stopped}");
            assert_eq!(stored(&database_url).await, [kept], "steps {steps}");
        }
    }
}

#[tokio::test]
async fn what_is_not_the_users_is_not_stored() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        half_an_answer(&redis, "t-1");
        let path = service.url("/api/v1/conversations/c-0-1/stop?session_id=s0");
        let stranger = reqwest::Client::new()
            .post(path)
            .header("authorization", "Bearer token-u-7");
        let stopped: Value = stranger
            .send()
            .await
            .expect("an answer")
            .json()
            .await
            .expect("JSON");
        assert_eq!(stopped["saved_partial"], false, "steps {steps}: {stopped}");
        assert_eq!(stored(&database_url).await, [], "steps {steps}");
    }
}

/// A stop takes most of a second, in which its service may die, too.
#[tokio::test]
async fn a_stop_that_was_cut_off_is_made_up_for_by_the_next() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in ["start", "0", "0,1,2a,2b"] {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let _worker = start_worker(&database_url, &redis.url, &ENDLESS);
        let mut stream = open_stream(&service, 0).await;
        read_pieces(&mut stream, 2).await;
        let path = service.url("/api/v1/conversations/c-0-1/stop?session_id=s0");
        let cut_off = tokio::spawn(reqwest::Client::new().post(path).send());
        wait_until("the worker is told", async || {
            redis.ask(&["EXISTS", "cancel:c-0-1:s0"]).number() == 1
        })
        .await;
        service.program.signal(Signal::SIGKILL);
        assert!(cut_off.await.expect("asked").is_err(), "steps {steps}");
        wait_until("the worker has stopped", async || {
            redis.ask(&["GET", "task:status:c-0-1:s0"]).text() == "cancelled"
        })
        .await;
        let said = said_in_stream(&redis);
        let service = Service::start(steps, &database_url, &redis.url);
        let stopped = stop(&service).await;
        assert_eq!(stopped["saved_partial"], true, "steps {steps}: {stopped}");
        let expected = [question("x"), answer(&said)];
        assert_eq!(stored(&database_url).await, expected, "steps {steps}");
        nothing_is_taken(&redis).await;
    }
}

#[tokio::test]
async fn a_worker_that_is_told_to_end_stores_what_it_has_said() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start("0,1", &database_url, &redis.url);
    let mut worker = start_worker(&database_url, &redis.url, &ENDLESS);
    let mut stream = open_stream(&service, 0).await;
    let mut body = read_pieces(&mut stream, 3).await;
    worker.signal(Signal::SIGTERM);
    assert!(worker.wait().success());
    body += &stream.text().await.expect("it ends");
    let said = messages(&body).concat();
    let rows = stored(&database_url).await;
    let kept = rows.last().expect("a row").3.clone();
    // The last piece may have been on its way.
    assert!(kept.starts_with(&said), "{kept:?} {said:?}");
    assert_eq!(rows, [question("x"), answer(&kept)]);
    nothing_is_taken(&redis).await;

    // Who stops it now finds it ended and stored.
    let stopped = stop(&service).await;
    assert_eq!(stopped["saved_partial"], false, "{stopped}");
    assert_eq!(stored(&database_url).await, rows);
}

#[tokio::test]
async fn what_a_worker_cannot_store_as_it_ends_is_stored_by_the_next() {
    let mut testbed = seeded_testbed();
    let (_, database_url) = fresh_database(&testbed);
    let service = Service::start("0,1", &database_url, &testbed.redis_url());
    let mut worker = start_worker(&database_url, &testbed.redis_url(), &ENDLESS);
    let mut stream = open_stream(&service, 0).await;
    let mut body = read_pieces(&mut stream, 3).await;
    testbed.kill_postgres().expect("it is ours");
    worker.signal(Signal::SIGTERM);
    assert!(worker.wait().success());
    // Its readers are told all the same.
    body += &stream.text().await.expect("it ends");
    testbed.revive_postgres().expect("it comes up");
    assert_eq!(stored(&database_url).await, [question("x")]);

    let _next = start_worker(&database_url, &testbed.redis_url(), &QUICK);
    nothing_is_taken(&OwnRedis::of(&testbed)).await;
    let said = messages(&body).concat();
    assert_eq!(stored(&database_url).await, [question("x"), answer(&said)]);
}

#[tokio::test]
async fn a_killed_workers_half_answers_are_stored_by_the_next() {
    const RUNS: usize = 5;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start("0,1", &database_url, &redis.url);
    let first = start_worker(&database_url, &redis.url, &ENDLESS);
    let mut streams = Vec::new();
    for session in 0..RUNS {
        let mut stream = open_stream(&service, session).await;
        let body = read_pieces(&mut stream, 2).await;
        streams.push((stream, body));
    }
    kill(&first, &redis);
    let _next = start_worker(&database_url, &redis.url, &ENDLESS);
    let mut expected = Vec::new();
    for (stream, body) in streams {
        // Its readers are told: the silence after which they would give up is two minutes.
        let rest = stream.text().await.expect("it ends");
        expected.push(answer(&messages(&(body + &rest)).concat()));
    }
    nothing_is_taken(&redis).await;
    let mut kept = stored(&database_url).await;
    kept.retain(|row| row.1 == "AI_GENERATED");
    kept.sort();
    expected.sort();
    assert_eq!(kept, expected);
    for session in 0..RUNS {
        let status = redis.ask(&["GET", &format!("task:status:c-0-1:s{session}")]);
        assert_eq!(status.text(), "error");
    }
}

/// Dead before it said anything: as it took the task, or after it stored the question.
#[tokio::test]
async fn a_run_that_a_dead_worker_had_hardly_begun_is_answered_whole() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for has_begun in [false, true] {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        redis.ask(&["SET", "task:status:c-0-1:s0", "queued", "EX", "600"]);
        append(&redis, &["type", "queued"]);
        if has_begun {
            append(&redis, &["type", "start"]);
            let mut connection = PgConnection::connect(&database_url)
                .await
                .expect("connects");
            sqlx::query(
                "INSERT INTO messages (id, conversation_id, content, sender_id, type) \
                 VALUES ('question-t-1', 'c-0-1', 'x', 'u-0', 'HUMAN')",
            )
            .execute(&mut connection)
            .await
            .expect("is stored");
        }
        leave_to_the_dead(&redis, &task("t-1"));
        let _worker = start_worker(&database_url, &redis.url, &QUICK);
        nothing_is_taken(&redis).await;
        let expected = [question("x"), answer("You asked: x")];
        assert_eq!(stored(&database_url).await, expected, "begun: {has_begun}");
        let status = redis.ask(&["GET", "task:status:c-0-1:s0"]);
        assert_eq!(status.text(), "completed");
    }
}

/// It died between its last word and letting the task go, or somebody stopped its run.
#[tokio::test]
async fn a_dead_workers_run_that_has_ended_is_left_alone() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    for is_there in [true, false] {
        redis.reset();
        if is_there {
            half_an_answer(&redis, "t-1");
            append(&redis, &["type", "end", "status", "completed"]);
        }
        let entries = redis.ask(&["XLEN", STREAM]).number();
        leave_to_the_dead(&redis, &task("t-1"));
        let _worker = start_worker(&database_url, &redis.url, &QUICK);
        nothing_is_taken(&redis).await;
        assert_eq!(redis.ask(&["XLEN", STREAM]).number(), entries);
        assert_eq!(stored(&database_url).await, []);
    }
}

#[tokio::test]
async fn what_redis_loses_is_stored() {
    let mut testbed = seeded_testbed();
    let (_, database_url) = fresh_database(&testbed);
    let service = Service::start("0,1", &database_url, &testbed.redis_url());
    let _worker = start_worker(&database_url, &testbed.redis_url(), &ENDLESS);
    let mut stream = open_stream(&service, 0).await;
    let mut body = read_pieces(&mut stream, 3).await;
    testbed.restart_redis().expect("it comes up");
    body += &stream.text().await.expect("it ends, plainly");
    let said = messages(&body).concat();
    wait_until("the answer is stored", async || {
        stored(&database_url).await.len() == 2
    })
    .await;
    let rows = stored(&database_url).await;
    let kept = rows.last().expect("a row").3.clone();
    assert!(kept.starts_with(&said), "{kept:?} {said:?}");
    assert_eq!(rows, [question("x"), answer(&kept)]);
}

#[tokio::test]
async fn an_answer_waits_for_postgres_and_is_stored_once() {
    const ENTRIES: i64 = 8;
    let mut testbed = seeded_testbed();
    let (_, database_url) = fresh_database(&testbed);
    let service = Service::start("0,1", &database_url, &testbed.redis_url());
    let pace = ["--chunks", "6", "--rate", "5"];
    let _worker = start_worker(&database_url, &testbed.redis_url(), &pace);
    let mut stream = open_stream(&service, 0).await;
    let mut body = read_pieces(&mut stream, 2).await;
    testbed.kill_postgres().expect("it is ours");
    let redis = OwnRedis::of(&testbed);
    wait_until("everything is said but the end", async || {
        // Queued, start and six pieces.
        redis.ask(&["XLEN", STREAM]).number() == ENTRIES
    })
    .await;
    testbed.revive_postgres().expect("it comes up");
    body += &stream.text().await.expect("it ends");
    assert_eq!(redis.ask(&["XLEN", STREAM]).number(), ENTRIES + 1);
    let said = messages(&body).concat();
    assert_eq!(said, "You asked: x and so on ");
    assert_eq!(stored(&database_url).await, [question("x"), answer(&said)]);
    let status = redis.ask(&["GET", "task:status:c-0-1:s0"]);
    assert_eq!(status.text(), "completed");
    nothing_is_taken(&redis).await;
}
