//! Answers of more pieces than a stream keeps, about 1000, that don't come to their end: they are
//! stored from their beginning, or say what of them is lost.

use serde_json::{Value, json};

use super::history::{
    QUICK, STREAM, answer, append, kill, leave_to_the_dead, nothing_is_taken, question,
    said_in_stream, stop, stored, task,
};
use super::leaks::{MESSAGE, open_stream, wait_until};
use super::own_redis::{OwnRedis, Reply};
use super::runs::say;
use super::service::{Service, fresh_database, shared_testbed, start_worker};

async fn stream_loses_its_beginning(redis: &OwnRedis) {
    wait_until("the stream has lost its beginning", async || {
        let first = redis.ask(&["XRANGE", STREAM, "-", "+", "COUNT", "1"]);
        let entry = first.list().remove(0).list().swap_remove(1).list();
        entry
            .into_iter()
            .map(Reply::text)
            .all(|field| field != "queued" && field != "start")
    })
    .await;
}

#[tokio::test]
async fn a_long_answer_that_is_stopped_is_stored_from_its_beginning() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in ["start", "0,1,2a,2b"] {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let long = ["--chunks", "60000", "--rate", "1000"];
        let _worker = start_worker(&database_url, &redis.url, &long);
        let stream = open_stream(&service, 0).await;
        let heard = tokio::spawn(stream.text());
        stream_loses_its_beginning(&redis).await;
        let stopped = stop(&service).await;
        assert_eq!(stopped["saved_partial"], true, "steps {steps}: {stopped}");
        heard.await.expect("no panic").expect("it ends");
        // The worker may be later than the answer.
        nothing_is_taken(&redis).await;
        let rows = stored(&database_url).await;
        let kept = rows.last().expect("a row").3.clone();
        assert!(kept.starts_with("You asked: x"), "steps {steps}: {kept:?}");
        assert_eq!(rows, [question("x"), answer(&kept)], "steps {steps}");
    }
}

/// An echo of so many words that none of them is lost unseen.
#[tokio::test]
async fn a_killed_workers_long_answer_is_stored_from_its_beginning() {
    const WORDS: usize = 20_000;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start("0,1", &database_url, &redis.url);
    let mut worker = start_worker(&database_url, &redis.url, &QUICK);
    let words: Vec<String> = (0..WORDS).map(|n| n.to_string()).collect();
    let path = format!("{MESSAGE}?session_id=s0");
    let stream = say(&service, &path, &words.join("+")).await;
    let heard = tokio::spawn(stream.text());
    stream_loses_its_beginning(&redis).await;
    kill(&worker, &redis);
    worker.wait();
    let _next = start_worker(&database_url, &redis.url, &QUICK);
    heard.await.expect("no panic").expect("it ends");
    nothing_is_taken(&redis).await;
    let asked = words.join(" ");
    let rows = stored(&database_url).await;
    let kept = rows.last().expect("a row").3.clone();
    assert_eq!(rows, [question(&asked), answer(&kept)]);
    // From the first word to the last one that anybody was told.
    assert!(format!("You asked: {asked}").starts_with(&kept));
    let rest = said_in_stream(&redis);
    assert!(rest.len() < kept.len() && kept.ends_with(&rest));
    let status = redis.ask(&["GET", "task:status:c-0-1:s0"]);
    assert_eq!(status.text(), "error");
}

/// A run of which the stream has the pieces at 5 and 6 alone, and what its worker kept, up to an
/// entry.
fn rest_of_an_answer(redis: &OwnRedis, kept: Option<(&str, &str)>) {
    redis.ask(&["SET", "task:status:c-0-1:s0", "running", "EX", "600"]);
    redis.ask(&["SET", "task:id:c-0-1:s0", "t-1", "EX", "600"]);
    for (id, content) in [("5-0", "c "), ("6-0", "d")] {
        redis.ask(&["XADD", STREAM, id, "type", "chunk", "content", content]);
    }
    if let Some((up_to, message)) = kept {
        let said =
            json!({ "message": message, "citations": [], "tool_calls": [], "thinking": null });
        let checkpoint: Value = json!({ "up_to": up_to, "said": said });
        redis.ask(&[
            "SET",
            "agent:said:t-1",
            &checkpoint.to_string(),
            "EX",
            "900",
        ]);
    }
}

/// What is kept, up to which entry, and what is stored then.
const RESTS: [(Option<(&str, &str)>, &str); 4] = [
    (
        Some(("4-0", "a b ")),
        "a b  [A part of this answer is lost.] c d",
    ),
    (Some(("5-0", "a b c ")), "a b c d"),
    (Some(("6-0", "a b c d")), "a b c d"),
    (None, "[The beginning of this answer is lost.] c d"),
];

#[tokio::test]
async fn what_nobody_has_of_an_answer_is_said_in_it() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for (kept, expected) in RESTS {
        // Its user stops it, whose worker is dead.
        for steps in ["start", "0", "0,1", "0,1,2a,2b"] {
            let (_, database_url) = fresh_database(testbed);
            redis.reset();
            let service = Service::start(steps, &database_url, &redis.url);
            rest_of_an_answer(&redis, kept);
            let stopped = stop(&service).await;
            assert_eq!(stopped["message_id"], "t-1", "steps {steps}: {stopped}");
            let rows = stored(&database_url).await;
            assert_eq!(rows, [answer(expected)], "steps {steps}");
        }
        // The next worker finds it.
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        rest_of_an_answer(&redis, kept);
        leave_to_the_dead(&redis, &task("t-1"));
        let _worker = start_worker(&database_url, &redis.url, &QUICK);
        nothing_is_taken(&redis).await;
        assert_eq!(stored(&database_url).await, [answer(expected)]);
    }
}

#[tokio::test]
async fn what_was_kept_and_is_not_readable_counts_as_lost() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    rest_of_an_answer(&redis, None);
    redis.ask(&["SET", "agent:said:t-1", "{", "EX", "900"]);
    append(&redis, &["type", "chunk", "content", " e"]);
    leave_to_the_dead(&redis, &task("t-1"));
    let _worker = start_worker(&database_url, &redis.url, &QUICK);
    nothing_is_taken(&redis).await;
    let expected = "[The beginning of this answer is lost.] c d e";
    assert_eq!(stored(&database_url).await, [answer(expected)]);
}
