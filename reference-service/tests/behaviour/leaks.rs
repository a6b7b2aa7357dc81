//! Clients that go, workers that die, a Redis that restarts: no thread, task or key stays.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use unstall_reference_service::run::Task;
use unstall_testbed::DelayProxy;

use super::own_redis::OwnRedis;
use super::runs::say;
use super::service::{Service, fresh_database, seeded_testbed, shared_testbed, start_worker};

/// While a stream holds a thread of the pool.
const POOLED: [&str; 2] = ["0", "0,1,2a,2b,2c,2d,2e,3,4"];
const STATES: [&str; 4] = ["start", POOLED[0], POOLED[1], "0,1,2a,2b,2c,2d,2e,3,4,5,6"];
const STREAMS: usize = 10;
pub(crate) const MESSAGE: &str = "/api/v1/conversations/c-0-1/message";
/// A time that only a fault needs, on a busy machine, too. It is less than the two minutes after
/// which a stream ends by its silence: that would hide that nobody was told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// What a service holds.
pub(crate) struct Holdings<'a> {
    pub(crate) service: &'a Service,
    /// One connection for all looks, so that it counts the same each time.
    pub(crate) client: reqwest::Client,
    /// Threads, tasks.
    pub(crate) at_rest: (usize, u64),
}

impl<'a> Holdings<'a> {
    /// Looks after a first run's pool threads have gone.
    pub(crate) async fn of(service: &'a Service) -> Self {
        let client = reqwest::Client::new();
        let mut holdings = Self {
            service,
            client,
            at_rest: (0, 0),
        };
        holdings.now().await;
        // Longer than the pool keeps an idle thread.
        tokio::time::sleep(Duration::from_secs(1)).await;
        holdings.at_rest = holdings.now().await;
        holdings
    }

    pub(crate) fn threads(&self) -> usize {
        let tasks = format!("/proc/{}/task", self.service.program.process_id());
        std::fs::read_dir(tasks).expect("it runs").count()
    }

    async fn now(&self) -> (usize, u64) {
        let url = self.service.url("/__unstall/snapshot");
        let answer = self.client.get(url).send().await.expect("an answer");
        let snapshot: Value = answer.json().await.expect("JSON");
        let tasks = &snapshot["runtime_metrics"]["alive_tasks"];
        (self.threads(), tasks.as_u64().expect("a number"))
    }

    /// Fails if it isn't at rest again within [`PATIENCE`].
    pub(crate) async fn are_returned(&self, steps: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.now().await;
            if now.0 <= self.at_rest.0 && now.1 <= self.at_rest.1 {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "steps {steps}: {now:?} (threads, tasks) are held, {:?} at rest",
                self.at_rest
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// No key of a run lives for ever.
fn assert_keys_expire(redis: &OwnRedis) {
    for key in redis.ask(&["KEYS", "*c-0-1*"]).texts() {
        let ttl_s = redis.ask(&["TTL", &key]).number();
        assert!(ttl_s > 0, "{key}: {ttl_s}");
    }
}

pub(crate) fn end_run(redis: &OwnRedis, session: usize) {
    let stream = format!("chat:stream:c-0-1:s{session}");
    let end = ["*", "type", "end", "status", "completed"];
    redis.ask(&[&["XADD", &*stream][..], &end].concat());
}

/// Starts a run that no worker takes; its stream has said that it is queued.
pub(crate) async fn open_stream(service: &Service, session: usize) -> reqwest::Response {
    let path = format!("{MESSAGE}?session_id=s{session}");
    let mut stream = say(service, &path, "x").await;
    stream.chunk().await.expect("it begins").expect("queued");
    stream
}

#[tokio::test]
async fn a_client_that_is_gone_holds_its_thread_until_the_run_ends() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in POOLED {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let holdings = Holdings::of(&service).await;
        for session in 0..STREAMS {
            drop(open_stream(&service, session).await);
        }
        assert!(
            holdings.threads() >= holdings.at_rest.0 + STREAMS,
            "steps {steps}: the fault of the pool is not there"
        );
        assert_keys_expire(&redis);
        (0..STREAMS).for_each(|session| end_run(&redis, session));
        holdings.are_returned(steps).await;
    }
}

/// Creates a conversation; gives the status.
pub(crate) async fn create(url: String) -> u16 {
    let body =
        r#"{"user_id":"u-0","title":"t","status":"active","project_ids":["p-1"],"agent_ids":[]}"#;
    let request = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json");
    let created = request.body(body).send().await;
    created.expect("an answer").status().as_u16()
}

/// Fails if it doesn't come true within [`PATIENCE`].
pub(crate) async fn wait_until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Answers of an agent that are stored, beside the seeded ones.
async fn answers(database_url: &str) -> i64 {
    let mut connection = PgConnection::connect(database_url).await.expect("connects");
    let query = "SELECT count(*) FROM messages WHERE conversation_id = 'c-0-1' \
                 AND id NOT LIKE 'm-%' AND type = 'AI_GENERATED'";
    sqlx::query_scalar(query)
        .fetch_one(&mut connection)
        .await
        .expect("messages are there")
}

/// The client of a stop leaves while the service waits for the worker.
async fn leave_a_stop(steps: &str, redis: &OwnRedis) {
    let (_, database_url) = fresh_database(shared_testbed());
    redis.reset();
    let service = Service::start(steps, &database_url, &redis.url);
    let slow = ["--chunks", "1000", "--rate", "20"];
    let _worker = start_worker(&database_url, &redis.url, &slow);
    let mut stream = open_stream(&service, 0).await;
    for _ in 0..3 {
        stream.chunk().await.expect("it goes on").expect("a piece");
    }
    drop(stream);
    let url = service.url("/api/v1/conversations/c-0-1/stop?session_id=s0");
    let stop = tokio::spawn(reqwest::Client::new().post(url).send());
    let cancel = ["EXISTS", "cancel:c-0-1:s0"];
    wait_until("the worker is told", async || {
        redis.ask(&cancel).number() == 1
    })
    .await;
    stop.abort();
    let what = format!("steps {steps}: a reservation is all that is left");
    wait_until(&what, async || {
        let keys = redis.ask(&["KEYS", "*c-0-1*"]).texts();
        keys == ["chat:stream:reservation:c-0-1:s0"]
    })
    .await;
    assert_eq!(answers(&database_url).await, 1, "steps {steps}");
}

/// The client of a message leaves while its run is handed over.
async fn leave_a_message(steps: &str, redis: &OwnRedis) {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    redis.reset();
    // Far enough for it to be seen between two commands.
    let far = DelayProxy::start(testbed.redis_address(), Duration::from_millis(100));
    let far_url = redis.url_through(testbed, far.as_ref().expect("a proxy").addr());
    let service = Service::start(steps, &database_url, &far_url);
    let url = service.url(&format!("{MESSAGE}?session_id=s0"));
    let message = tokio::spawn(async move {
        let client = reqwest::Client::new();
        let form = "application/x-www-form-urlencoded";
        let request = client.post(url).header("content-type", form);
        request.body("content=x").send().await
    });
    let there = |key: &str| redis.ask(&["EXISTS", key]).number() == 1;
    wait_until("the run is queued", async || there("task:status:c-0-1:s0")).await;
    message.abort();
    let what = format!("steps {steps}: the task's id is the last thing to be written");
    wait_until(&what, async || there("task:id:c-0-1:s0")).await;
    assert_eq!(redis.ask(&["LLEN", "agent:runs"]).number(), 1);
}

#[tokio::test]
async fn what_a_client_began_goes_to_its_end_without_it() {
    let redis = OwnRedis::new(shared_testbed());
    for steps in STATES {
        leave_a_stop(steps, &redis).await;
        leave_a_message(steps, &redis).await;
    }
}

#[tokio::test]
async fn forty_streams_keep_sessions_waiting_until_one_ends() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in POOLED {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let holdings = Holdings::of(&service).await;
        let mut streams = Vec::new();
        for session in 0..40 {
            streams.push(open_stream(&service, session).await);
        }
        let create = tokio::spawn(create(service.url("/api/v1/conversations")));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!create.is_finished(), "steps {steps}: a session was free");
        // Routes without a session don't wait.
        let health = reqwest::get(service.url("/health"))
            .await
            .expect("an answer");
        assert_eq!(health.status(), 200);
        end_run(&redis, 7);
        assert_eq!(create.await.expect("asked"), 200);
        (0..40).for_each(|session| end_run(&redis, session));
        for stream in streams {
            stream.text().await.expect("it ends");
        }
        holdings.are_returned(steps).await;
    }
}

#[tokio::test]
async fn a_killed_workers_runs_end_by_their_silence() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let mut options = vec!["--steps", steps, "--stream-idle-max", "1"];
        options.extend(["--database-url", &database_url, "--redis-url", &redis.url]);
        let service = Service::start_with(&options);
        let holdings = Holdings::of(&service).await;
        let endless = ["--chunks", "60000", "--rate", "20"];
        let worker = start_worker(&database_url, &redis.url, &endless);
        let mut streams = Vec::new();
        for session in 0..STREAMS {
            let mut stream = open_stream(&service, session).await;
            stream.chunk().await.expect("it goes on").expect("a piece");
            streams.push(stream);
        }
        worker.signal(Signal::SIGKILL);
        for stream in streams {
            stream.text().await.expect("it ends, plainly");
        }
        holdings.are_returned(steps).await;
        assert_keys_expire(&redis);
    }
}

#[tokio::test]
async fn a_worker_that_is_told_to_end_says_so_to_its_readers() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    // Its readers would wait for two minutes if they were told nothing.
    let service = Service::start("0,1", &database_url, &redis.url);
    let endless = ["--chunks", "60000", "--rate", "20"];
    let mut worker = start_worker(&database_url, &redis.url, &endless);
    let mut streams = Vec::new();
    for session in 0..STREAMS {
        let mut stream = open_stream(&service, session).await;
        stream.chunk().await.expect("it goes on").expect("a piece");
        streams.push(stream);
    }
    worker.signal(Signal::SIGTERM);
    assert!(worker.wait().success());
    for session in 0..STREAMS {
        let status = redis.ask(&["GET", &format!("task:status:c-0-1:s{session}")]);
        assert_eq!(status.text(), "error");
    }
    for stream in streams {
        stream.text().await.expect("it ends");
    }
}

/// Queues a run, as the service does.
fn queue(redis: &OwnRedis, run_id: &str) {
    let task = Task {
        task_id: run_id.to_owned(),
        conversation_id: "c-0-1".to_owned(),
        run_id: run_id.to_owned(),
        user_id: "u-0".to_owned(),
        content: "x".to_owned(),
        agent_id: None,
        regenerate: false,
    };
    let run = task.run();
    redis.ask(&["SET", &run.status_key(), "queued", "EX", "600"]);
    redis.ask(&["XADD", &run.stream_key(), "*", "type", "queued"]);
    let task = serde_json::to_string(&task).expect("texts");
    redis.ask(&["RPUSH", "agent:runs", &task]);
}

#[tokio::test]
async fn a_worker_that_is_told_to_end_loses_no_run() {
    const RUNS: usize = 100;
    let testbed = seeded_testbed();
    let redis = OwnRedis::whole(&testbed);
    // Looks are so far apart that one is always on its way.
    let far = DelayProxy::start(testbed.redis_address(), Duration::from_millis(10));
    let far_url = redis.url_through(&testbed, far.as_ref().expect("a proxy").addr());
    let (_, database_url) = fresh_database(&testbed);
    let mut all: Vec<String> = (0..RUNS).map(|n| format!("r{n}")).collect();
    all.iter().for_each(|run_id| queue(&redis, run_id));
    let endless = ["--chunks", "60000", "--rate", "20"];
    let mut worker = start_worker(&database_url, &far_url, &endless);
    let list = |key: &str| redis.ask(&["LRANGE", key, "0", "-1"]).texts();
    let waiting = || list("agent:runs");
    wait_until("a run is taken", async || waiting().len() < RUNS).await;
    worker.signal(Signal::SIGTERM);
    assert!(worker.wait().success());
    // What it took and didn't come to is the next worker's.
    let taken = redis.ask(&["KEYS", "agent:taken:*"]).texts();
    let mut kept: Vec<String> = waiting()
        .iter()
        .chain(&taken.iter().flat_map(|key| list(key)).collect::<Vec<_>>())
        .map(|task| serde_json::from_str::<Task>(task).expect("a task").run_id)
        .collect();
    kept.extend(all.iter().filter_map(|run_id| {
        let status = redis.ask(&["GET", &format!("task:status:c-0-1:{run_id}")]);
        (status.text() == "error").then(|| run_id.clone())
    }));
    // Each is still in a list or said to have ended. Both is a run whose end the next worker sees.
    all.sort();
    kept.sort();
    kept.dedup();
    assert_eq!(kept, all);
}

#[tokio::test]
async fn a_restarted_redis_ends_runs_and_serves_the_next() {
    let mut testbed = seeded_testbed();
    for steps in STATES {
        let (_, database_url) = fresh_database(&testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        let pace = ["--chunks", "60", "--rate", "20"];
        let _worker = start_worker(&database_url, &testbed.redis_url(), &pace);
        let holdings = Holdings::of(&service).await;
        let mut streams = Vec::new();
        for session in 0..STREAMS {
            streams.push(open_stream(&service, session).await);
        }
        testbed.restart_redis().expect("it comes up");
        for stream in streams {
            stream.text().await.expect("it ends, plainly");
        }
        holdings.are_returned(steps).await;
        // Service and worker both find the new one.
        let redis = OwnRedis::whole(&testbed);
        let answer: Value = at_once(&service).await;
        let message = answer["message"].as_str().expect("a text");
        assert!(message.starts_with("You asked: x and "), "{message}");
        assert_keys_expire(&redis);
    }
}

/// Asks until the service has its connections back.
async fn at_once(service: &Service) -> Value {
    for _ in 0..100 {
        let answer = reqwest::Client::new()
            .post(service.url(&format!("{MESSAGE}?stream=false")))
            .header("content-type", "application/x-www-form-urlencoded")
            .body("content=x")
            .send()
            .await
            .expect("an answer");
        match answer.status().as_u16() {
            200 => return answer.json().await.expect("JSON"),
            503 => tokio::time::sleep(Duration::from_millis(100)).await,
            other => panic!("{other}: {}", answer.text().await.expect("a body")),
        }
    }
    panic!("Redis is not found again");
}
