//! Servers, workers and clients that are killed while the scenarios of all steps are at work: what
//! comes of each request, what is held afterwards, and that nobody need help.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use unstall_testbed::{Testbed, TestbedError};

use super::faulty_load::{CUT_SHORT, GOOD, Killed, Load, REQUESTS, Tally, assert_explained};
use super::leaks::{Holdings, PATIENCE, end_run, open_stream, wait_until};
use super::own_redis::OwnRedis;
use super::service::{Running, Service, fresh_database, seeded_testbed, start_worker, succeed};

/// The first, the last, and one in between: with stores of all three kinds.
const STATES: [&str; 4] = ["start", "0", "0,1,2a", "0,1,2a,2b,2c,2d,2e,3,4,5,6"];
/// Connections that a pool of PostgreSQL has at most, pools of a service, and the worker's.
const CONNECTIONS_MAX: i64 = 20 * 3 + 1;
const PACE: [&str; 2] = ["--rate", "200"];
/// Slots that streams and sessions share before step 6.
const SLOTS: usize = 40;

/// A service and its worker on servers that may be killed.
struct Stage<'a> {
    steps: &'static str,
    testbed: &'a mut Testbed,
    database: String,
    database_url: String,
    service: Service,
    worker: Running,
}

impl<'a> Stage<'a> {
    fn set(testbed: &'a mut Testbed, steps: &'static str) -> Self {
        OwnRedis::whole(testbed).reset();
        let (database, database_url) = fresh_database(testbed);
        let redis_url = testbed.redis_url();
        let mut options = vec!["--steps", steps, "--stream-idle-max", "2"];
        options.extend(["--database-url", &database_url, "--redis-url", &redis_url]);
        let service = Service::start_with(&options);
        let worker = start_worker(&database_url, &redis_url, &PACE);
        Self {
            steps,
            database,
            database_url,
            service,
            worker,
            testbed,
        }
    }

    fn redis(&self) -> OwnRedis {
        OwnRedis::of(self.testbed)
    }

    fn clients_of_redis(&self) -> usize {
        let clients = self.redis().ask(&["CLIENT", "LIST"]).text();
        // Not ours that asks.
        clients.lines().count() - 1
    }

    async fn clients_of_postgres(&self) -> i64 {
        let mut connection = PgConnection::connect(&self.database_url)
            .await
            .expect("connects");
        let query =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()";
        let count = sqlx::query_scalar(query).bind(&self.database);
        count.fetch_one(&mut connection).await.expect("a number")
    }

    /// Until threads, tasks and connections to Redis are those of before: what clients that have left
    /// had asked for is done, too.
    async fn is_at_rest(&self, holdings: &AtRest) {
        let steps = self.steps;
        Holdings {
            service: &self.service,
            client: reqwest::Client::new(),
            at_rest: holdings.threads_and_tasks,
        }
        .are_returned(steps)
        .await;
        let what = format!("steps {steps}: connections to Redis are closed");
        wait_until(&what, async || {
            self.clients_of_redis() <= holdings.clients_of_redis
        })
        .await;
    }

    /// Fails if something is held that was not before: threads, tasks, connections, slots.
    async fn nothing_is_held(self, holdings: &AtRest) {
        let steps = self.steps;
        self.is_at_rest(holdings).await;
        let connections = self.clients_of_postgres().await;
        assert!(
            connections <= CONNECTIONS_MAX,
            "steps {steps}: {connections}"
        );

        // Nobody answers, so that forty streams are there at once: none of the slots is lost.
        drop(self.worker);
        let redis = OwnRedis::of(self.testbed);
        let speaking = tokio::spawn(speak(OwnRedis::of(self.testbed)));
        let mut streams = Vec::new();
        for session in 0..SLOTS {
            let opened = tokio::time::timeout(PATIENCE, open_stream(&self.service, session)).await;
            streams.push(opened.unwrap_or_else(|_| {
                panic!("steps {steps}: of {SLOTS} slots only {session} are there")
            }));
        }
        speaking.abort();
        // It is told to end within its next pause.
        let _aborted = speaking.await;
        (0..SLOTS).for_each(|session| end_run(&redis, session));
        for stream in streams {
            stream.text().await.expect("it ends");
        }
    }
}

/// Keeps the runs of streams that nobody answers from being idle: one that ends by its silence
/// would give its slot to the next, and a lost slot would go unseen.
async fn speak(redis: OwnRedis) {
    let said = ["NOMKSTREAM", "*", "type", "chunk", "content", "a"];
    loop {
        for session in 0..SLOTS {
            let stream = format!("chat:stream:c-0-1:s{session}");
            redis.ask(&[&["XADD", &*stream][..], &said].concat());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

struct AtRest {
    threads_and_tasks: (usize, u64),
    clients_of_redis: usize,
}

impl AtRest {
    async fn of(stage: &Stage<'_>) -> Self {
        Self {
            threads_and_tasks: Holdings::of(&stage.service).await.at_rest,
            clients_of_redis: stage.clients_of_redis(),
        }
    }
}

/// A server that is killed, and comes back.
struct Server {
    name: &'static str,
    kill: fn(&mut Testbed) -> Result<(), TestbedError>,
    revive: fn(&mut Testbed) -> Result<(), TestbedError>,
    /// Requests of which each fails while it is gone.
    needed_by: &'static [&'static str],
    /// Requests that don't suffer.
    not_needed_by: &'static [&'static str],
}

const POSTGRES: Server = Server {
    name: "PostgreSQL",
    kill: Testbed::kill_postgres,
    revive: Testbed::revive_postgres,
    needed_by: &[
        "POST message",
        "GET usage",
        "POST share",
        "GET shared-emails",
        "POST sso-login",
        "GET providers-me",
    ],
    not_needed_by: &["GET workspace", "GET branch-list"],
};

const REDIS: Server = Server {
    name: "Redis",
    kill: Testbed::kill_redis,
    revive: |testbed| {
        testbed.revive_redis()?;
        succeed(&["seed", "--redis-url", &testbed.redis_url()]);
        Ok(())
    },
    needed_by: &[
        "POST message",
        "GET task-status",
        "GET workspace",
        "GET branch-list",
    ],
    not_needed_by: &["GET usage", "GET shared-emails"],
};

async fn a_killed_server_is_503_and_a_new_one_is_found(server: &Server) {
    let refused = format!(
        r#"503 {{"detail":"{} can't be reached; try again"}}"#,
        server.name
    );
    let mut testbed = seeded_testbed();
    for steps in STATES {
        let stage = Stage::set(&mut testbed, steps);
        let at_rest = AtRest::of(&stage).await;
        let load = Load::start(&stage.service);
        load.until_each(&REQUESTS, GOOD, &Tally::new()).await;
        (server.kill)(stage.testbed).expect("it is ours");
        load.until_each(server.needed_by, &refused, &load.so_far())
            .await;
        load.until_each(server.not_needed_by, GOOD, &load.so_far())
            .await;
        (server.revive)(stage.testbed).expect("it comes up");
        load.until_each(&REQUESTS, GOOD, &load.so_far()).await;
        let tally = load.end().await;
        assert_explained(&tally, Killed::Server(server.name), steps);
        stage.nothing_is_held(&at_rest).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postgres_is_503_and_a_new_one_is_found() {
    a_killed_server_is_503_and_a_new_one_is_found(&POSTGRES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_is_503_and_a_new_one_is_found() {
    a_killed_server_is_503_and_a_new_one_is_found(&REDIS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_cuts_streams_short_and_the_next_goes_on() {
    let mut testbed = seeded_testbed();
    for steps in STATES {
        let mut stage = Stage::set(&mut testbed, steps);
        let at_rest = AtRest::of(&stage).await;
        let load = Load::start(&stage.service);
        load.until_each(&REQUESTS, GOOD, &Tally::new()).await;
        stage.worker.signal(Signal::SIGKILL);
        load.until_each(&["POST message"], CUT_SHORT, &load.so_far())
            .await;
        let next = start_worker(&stage.database_url, &stage.testbed.redis_url(), &PACE);
        stage.worker = next;
        load.until_each(&REQUESTS, GOOD, &load.so_far()).await;
        let tally = load.end().await;
        assert_explained(&tally, Killed::Worker, steps);
        // What the dead one had is found once it counts as dead.
        let redis = stage.redis();
        wait_until("no task is left", async || {
            redis.ask(&["KEYS", "agent:taken:*"]).texts().is_empty()
                && redis.ask(&["LLEN", "agent:runs"]).number() == 0
        })
        .await;
        stage.nothing_is_held(&at_rest).await;
    }
}

/// Asks, and leaves after a while.
async fn leave(service: &Service, path: &str, body: Value, after: Duration) {
    let client = reqwest::Client::new();
    let request = match body {
        Value::Null => client.get(service.url(path)),
        Value::String(form) => client
            .post(service.url(path))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form),
        json => client.post(service.url(path)).json(&json),
    };
    let whole = async {
        let answer = request.send().await.expect("an answer");
        answer.text().await.expect("a whole answer")
    };
    // Who isn't answered by then is gone, and its connection with it.
    let _left = tokio::time::timeout(after, whole).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_at_any_moment_take_nothing_along() {
    let mut testbed = seeded_testbed();
    for steps in STATES {
        let stage = Stage::set(&mut testbed, steps);
        let at_rest = AtRest::of(&stage).await;
        let new = serde_json::json!({ "user_id": "x", "title": "t", "status": "active",
                                      "project_ids": ["p-1"], "agent_ids": ["a-1"] });
        for after_ms in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
            let after = Duration::from_millis(after_ms);
            let form = Value::String("content=three+short+words".to_owned());
            let stream = format!("/api/v1/conversations/c-0-1/message?session_id=l{after_ms}");
            let stop = format!("/api/v1/conversations/c-0-1/stop?session_id=l{after_ms}");
            tokio::join!(
                leave(&stage.service, &stream, form, after),
                leave(&stage.service, "/api/v1/conversations", new.clone(), after),
                leave(
                    &stage.service,
                    "/api/v1/usage/usage?start_date=2000-01-01&end_date=2100-01-01",
                    Value::Null,
                    after
                ),
                leave(&stage.service, "/api/v1/providers/me", Value::Null, after),
                leave(
                    &stage.service,
                    "/api/v1/tunnel/workspace/00000000000000a1",
                    Value::Null,
                    after
                ),
            );
            leave(&stage.service, &stop, Value::String(String::new()), after).await;
        }
        // A stop that is still being done would end the next run.
        stage.is_at_rest(&at_rest).await;
        // Others are served as ever.
        let load = Load::start(&stage.service);
        load.until_each(&REQUESTS, GOOD, &Tally::new()).await;
        assert_explained(&load.end().await, Killed::Nothing, steps);
        stage.nothing_is_held(&at_rest).await;
    }
}
