//! What idle streams cost everybody else, before step 6 and after it: two services on the same
//! servers, one with so many idle streams and one with none, are asked in turns, and the quotient of
//! their times is printed. What isn't answered in time counts as such and in no quotient.
//!
//!     cargo bench -p unstall-reference-service --bench idle_streams [REQUESTS]

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for people, who read its table; it waits for programs before it measures"
)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, Response};
use unstall_testbed::{Options, Testbed};

const TEMPLATE: &str = "idle_streams";
const BEFORE: &str = "0,1,2a,2b,2c,2d,2e,3,4,5";
const AFTER: &str = "0,1,2a,2b,2c,2d,2e,3,4,5,6";
const REQUESTS: usize = 500;
/// Longer than any answer that comes at all.
const PATIENCE: Duration = Duration::from_millis(500);
/// Unanswered ones in a row after which nobody asks any longer.
const SILENCES_MAX: usize = 10;
const CREATE: &str =
    r#"{"user_id":"u-0","title":"t","status":"active","project_ids":["p-1"],"agent_ids":[]}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // `cargo bench` adds an option of its own.
    let requests = std::env::args().find_map(|argument| argument.parse().ok());
    let requests: usize = requests.unwrap_or(REQUESTS);
    let testbed = Testbed::start(&Options::default()).expect("private servers start");
    let migrate = |url: &str| {
        for command in ["migrate", "seed"] {
            let status = program().args([command, "--database-url", url]).status();
            assert!(status.expect("it starts").success(), "{command} failed");
        }
        Ok(())
    };
    testbed
        .create_template(TEMPLATE, migrate)
        .expect("the template is made");
    println!("{requests} requests of each kind, in turns with a service that has no streams");
    println!("    route            p50 ratio  p99 ratio  unanswered  threads");
    let states = [
        ("to 5", BEFORE, 0),
        ("to 5", BEFORE, 39),
        ("to 5", BEFORE, 40),
        ("to 6", AFTER, 0),
        ("to 6", AFTER, 40),
        ("to 6", AFTER, 200),
        ("to 6", AFTER, 1000),
    ];
    for (number, (name, steps, streams)) in states.into_iter().enumerate() {
        println!("{name}   {streams} idle");
        compare(&testbed, number, steps, streams, requests).await;
    }
}

async fn compare(testbed: &Testbed, number: usize, steps: &str, streams: usize, requests: usize) {
    let database_url = testbed
        .reset_database(TEMPLATE, "idle_streams_run")
        .expect("the database is cloned");
    // Databases of one Redis that nobody else uses, so that neither's runs are the other's.
    let [idle, free] = [2 * number, 2 * number + 1].map(|number| {
        let redis_url = format!("{}/{number}", testbed.redis_url());
        Service::start(steps, &database_url, &redis_url)
    });
    let mut open = Vec::new();
    for session in 0..streams {
        open.push(idle.open_stream(session).await);
    }
    for route in ["shared-emails", "conversations"] {
        let (mut with, mut without) = (Times::default(), Times::default());
        // The first of each kind open connections.
        for n in 0..requests + 20 {
            if with.silences >= SILENCES_MAX {
                break;
            }
            let pair = [(&idle, &mut with), (&free, &mut without)];
            let in_turns: Vec<_> = if n % 2 == 0 {
                pair.into_iter().collect()
            } else {
                pair.into_iter().rev().collect()
            };
            for (service, times) in in_turns {
                let time = service.ask(route).await;
                if n >= 20 || time.is_none() {
                    times.add(time);
                }
            }
        }
        let ratio = |q: f64| match (with.quantile(q), without.quantile(q)) {
            (Some(with), Some(without)) => format!("{:9.2}", with / without),
            _ => "        –".to_owned(),
        };
        println!(
            "    {route:<16} {}  {}  {:10}  {:7}",
            ratio(0.5),
            ratio(0.99),
            with.silences,
            idle.threads(),
        );
    }
    drop(open);
}

/// Times of answers, in seconds, and how many never came.
#[derive(Default)]
struct Times {
    answered: Vec<f64>,
    silences: usize,
}

impl Times {
    fn add(&mut self, time: Option<Duration>) {
        match time {
            Some(time) => self.answered.push(time.as_secs_f64()),
            None => self.silences += 1,
        }
    }

    fn quantile(&self, q: f64) -> Option<f64> {
        let mut sorted = self.answered.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        sorted.get((last as f64 * q).round() as usize).copied()
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall-reference"));
    for variable in ["DATABASE_URL", "REDIS_URL", "UNSTALL_PORT"] {
        command.env_remove(variable);
    }
    command
}

struct Service {
    child: Child,
    client: Client,
    url: String,
}

impl Service {
    fn start(steps: &str, database_url: &str, redis_url: &str) -> Self {
        let servers = ["--database-url", database_url, "--redis-url", redis_url];
        let mut child = program()
            .args(["--port", "0", "--steps", steps])
            .args(["--stream-idle-max", "3600"])
            .args(servers)
            .env("RUST_LOG", "unstall_reference_service=info")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the service starts");
        let mut log = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(log.read_line(&mut line).expect("text") > 0, "it ended");
            if let Some((_, address)) = line.trim_end().split_once("listening on ") {
                break address.to_owned();
            }
        };
        std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ended_with_the_service = log.read_to_end(&mut rest);
        });
        Self {
            child,
            client: Client::new(),
            url: format!("http://{address}/api/v1/conversations"),
        }
    }

    async fn open_stream(&self, session: usize) -> Response {
        let url = format!("{}/c-0-1/message?session_id=s{session}", self.url);
        let form = "application/x-www-form-urlencoded";
        let request = self.client.post(url).header("content-type", form);
        let mut stream = request.body("content=x").send().await.expect("an answer");
        stream.chunk().await.expect("it begins").expect("queued");
        stream
    }

    /// How long the whole answer took; `None` if it didn't come in time.
    async fn ask(&self, route: &str) -> Option<Duration> {
        let request = match route {
            "conversations" => self
                .client
                .request(Method::POST, &self.url)
                .header("content-type", "application/json")
                .body(CREATE),
            emails => self.client.get(format!("{}/c-0-1/{emails}", self.url)),
        };
        let began = Instant::now();
        let answer = async {
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200, "{route}");
            answer.bytes().await.expect("a body");
        };
        let answered = tokio::time::timeout(PATIENCE, answer).await;
        answered.ok().map(|()| began.elapsed())
    }

    fn threads(&self) -> usize {
        let tasks = format!("/proc/{}/task", self.child.id());
        std::fs::read_dir(tasks).map_or(0, Iterator::count)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Either may fail because it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
