//! Runs over which everybody falls who begins with them: how often that is tried, and what their
//! clients, their status and their history say then.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::history::{
    QUICK, STREAM, half_an_answer, kill, leave_to_the_dead, nothing_is_taken, question, stored,
    task, whole_row,
};
use super::leaks::{MESSAGE, wait_until};
use super::own_redis::OwnRedis;
use super::runs::{messages, say};
use super::service::{Service, fresh_database, seeded_testbed, shared_testbed, start_worker};

/// Thought about for so long that who has begun with it has said nothing.
const QUESTION: &str = "Think for 600 s";
/// As long as a worker waits between two looks for runs that were begun.
const LOOK: Duration = Duration::from_secs(2);

/// How it is with a conversation's task, and whether its run is at work.
async fn is_active(service: &Service) -> bool {
    let path = service.url("/api/v1/conversations/c-0-1/task-status");
    let status = reqwest::get(path).await.expect("an answer");
    let status: Value = status.json().await.expect("JSON");
    status["isActive"].as_bool().expect("a flag")
}

async fn attempts_are_forgotten(redis: &OwnRedis) {
    wait_until("attempts are forgotten", async || {
        let counts = redis.ask(&["KEYS", "agent:attempts:*"]);
        counts.texts().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_run_that_three_workers_died_over_ends_as_failed() {
    const ATTEMPTS: i64 = 3;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in ["start", "0", "0,1", "0,1,2a,2b,2c,2d,2e,3,4,5,6"] {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let path = format!("{MESSAGE}?session_id=s0");
        let stream = say(&service, &path, &QUESTION.replace(' ', "+")).await;
        for attempt in 1..=ATTEMPTS {
            let worker = start_worker(&database_url, &redis.url, &QUICK);
            wait_until("it is begun with, and its question is stored", async || {
                // It is queued, and started once in each attempt.
                redis.ask(&["XLEN", STREAM]).number() == 1 + attempt
                    && !stored(&database_url).await.is_empty()
            })
            .await;
            assert!(is_active(&service).await, "steps {steps}");
            kill(&worker, &redis);
        }
        let mut last = start_worker(&database_url, &redis.url, &QUICK);
        // Its reader is told: the silence after which it would give up is two minutes.
        let body = stream.text().await.expect("it ends");
        assert_eq!(messages(&body), [""], "steps {steps}: queued, and no piece");
        nothing_is_taken(&redis).await;
        attempts_are_forgotten(&redis).await;
        let status = redis.ask(&["GET", "task:status:c-0-1:s0"]);
        assert_eq!(status.text(), "error", "steps {steps}");
        assert!(!is_active(&service).await, "steps {steps}");
        assert_eq!(stored(&database_url).await, [question(QUESTION)]);
        // Queued, three starts, one end.
        assert_eq!(redis.ask(&["XLEN", STREAM]).number(), 1 + ATTEMPTS + 1);
        last.signal(Signal::SIGTERM);
        assert!(last.wait().success());
        let log = last.log();
        assert!(log.contains("a run is given up"), "{log}");
    }
}

/// Its worker died, and the next answers: what was counted is forgotten.
#[tokio::test]
async fn a_run_that_is_answered_in_the_end_is_counted_no_longer() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    redis.ask(&["SET", "task:status:c-0-1:s0", "queued", "EX", "600"]);
    redis.ask(&["XADD", STREAM, "*", "type", "queued"]);
    redis.ask(&["SET", "agent:attempts:t-1", "1", "EX", "600"]);
    leave_to_the_dead(&redis, &task("t-1"));
    let _worker = start_worker(&database_url, &redis.url, &QUICK);
    nothing_is_taken(&redis).await;
    attempts_are_forgotten(&redis).await;
    let status = redis.ask(&["GET", "task:status:c-0-1:s0"]);
    assert_eq!(status.text(), "completed");
}

/// It is found again and again, and never an attempt at its answer.
#[tokio::test]
async fn an_answer_that_waits_for_postgres_is_not_given_up() {
    let mut testbed = seeded_testbed();
    let redis = OwnRedis::whole(&testbed);
    let (_, database_url) = fresh_database(&testbed);
    let _worker = start_worker(&database_url, &redis.url, &QUICK);
    testbed.kill_postgres().expect("it is ours");
    half_an_answer(&redis, "t-1");
    leave_to_the_dead(&redis, &task("t-1"));
    wait_until("its readers are told", async || {
        redis.ask(&["GET", "task:status:c-0-1:s0"]).text() == "error"
    })
    .await;
    // More looks than attempts.
    tokio::time::sleep(5 * LOOK).await;
    testbed.revive_postgres().expect("it comes up");
    nothing_is_taken(&redis).await;
    assert_eq!(stored(&database_url).await, [whole_row()]);
}
