//! The FastAPI example's own way with streams: a generator on one of its server's 40 threads. The
//! migration leaves it there; nothing may stay when clients and runs are gone. And the commands that
//! it must not send twice.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::EXAMPLES;
use super::leaks::{create, end_run, open_stream};
use super::own_redis::OwnRedis;
use super::python_service::one_command;
use super::service::{Service, fresh_database, seeded_testbed, shared_testbed};

/// Worker threads of the server.
const THREADS: usize = 40;

#[tokio::test]
async fn forty_streams_keep_sessions_waiting_and_leave_nothing() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for version in EXAMPLES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(version, &database_url, &redis.url);
        let mut streams = Vec::new();
        for session in 0..THREADS {
            streams.push(open_stream(&service, session).await);
        }
        let create = tokio::spawn(create(service.url("/api/v1/conversations")));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!create.is_finished(), "{version}: a session was free");
        // Routes without a session don't wait.
        let health = reqwest::get(service.url("/health")).await;
        assert_eq!(health.expect("an answer").status(), 200);

        // A client that goes frees nothing, since its thread waits inside XREAD; a run's end does.
        drop(streams);
        (0..THREADS).for_each(|session| end_run(&redis, session));
        assert_eq!(create.await.expect("asked"), 200, "{version}");
        assert_no_readers(&redis, version).await;
    }
}

/// Fails if readers are connected after a time that only a leak needs.
async fn assert_no_readers(redis: &OwnRedis, version: &str) {
    let reads = |client: &&str| client.contains("cmd=xread") || client.contains("cmd=exists");
    let here = format!(" db={} ", redis.number());
    for _ in 0..600 {
        let clients = redis.ask(&["CLIENT", "LIST"]).text();
        let mut readers = clients.lines().filter(|client| client.contains(&here));
        if !readers.any(|client| reads(&client)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{version}: there are readers whose runs have ended");
}

/// An id that its client made of more digits than Python takes for a number is one without a
/// number, and so is one that a `u32` can't hold.
#[tokio::test]
async fn any_session_id_has_its_place_in_the_order() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let endless = "9".repeat(5000);
    for state in ["0,1", EXAMPLES[0], EXAMPLES[1]] {
        redis.reset();
        let service = Service::start(state, &database_url, &redis.url);
        // Each comes after those before it.
        for id in [
            "s-9",
            "s-10",
            "s-+11",
            "s-000000000000012",
            "s-4294967295",
            "s-4294967296",
            &format!("s-{endless}"),
        ] {
            let stream = format!("chat:stream:c-0-1:{id}");
            redis.ask(&["XADD", &stream, "*", "type", "queued"]);
            let path = service.url("/api/v1/conversations/c-0-1/active-session");
            let answer = reqwest::get(path).await.expect("an answer");
            assert_eq!(answer.status(), 200, "{state}: {id}");
            let session: Value = answer.json().await.expect("JSON");
            assert_eq!(session["sessionId"], id, "{state}");
        }
    }
}

/// Longer than the example's clients wait for an answer, which is 5 s.
const STALL: Duration = Duration::from_secs(6);

/// A client that is connected and waits to be told to send.
struct Sender {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Sender {
    fn start(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let said = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut sender = Self { process, said };
        assert_eq!(sender.next_line(), "ready");
        sender
    }

    fn send(&mut self) {
        let input = self.process.stdin.as_mut().expect("stdin is piped");
        input.write_all(b"\n").expect("it reads");
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Either may fail because it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A Redis that is stopped: what it is sent lies in its sockets until it goes on, and is done then,
/// whether its sender still waits or not.
#[test]
fn a_stall_of_redis_does_no_command_twice_that_must_not_be() {
    let testbed = seeded_testbed();
    let redis = OwnRedis::whole(&testbed);
    let (_, database_url) = fresh_database(&testbed);
    let mut senders = Vec::new();
    for version in EXAMPLES {
        for command in ["claim", "append", "enqueue"] {
            let key = format!("{command} {version}");
            let process = one_command(version, &[command, &key], &database_url, &redis.url);
            senders.push((key, Sender::start(process)));
        }
    }
    let information = redis.ask(&["INFO", "server"]).text();
    let process_id = information
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))
        .and_then(|number| number.trim().parse().ok())
        .expect("it says its process id");
    let signal = |signal| kill(Pid::from_raw(process_id), signal).expect("it is the testbed's");

    signal(Signal::SIGSTOP);
    senders.iter_mut().for_each(|(_, sender)| sender.send());
    std::thread::sleep(STALL);
    signal(Signal::SIGCONT);
    for (key, sender) in &mut senders {
        // Nobody can know whether it was done: so says the answer, and not that a claim is taken.
        assert_eq!(sender.next_line(), "TimeoutError", "{key}");
    }
    let tasks = redis.ask(&["LRANGE", "agent:runs", "0", "-1"]).texts();
    for version in EXAMPLES {
        let entries = redis.ask(&["XLEN", &format!("append {version}")]).number();
        assert!(entries <= 1, "{version}: {entries} entries");
        let task = format!("enqueue {version}");
        let times = tasks.iter().filter(|queued| **queued == task).count();
        assert!(times <= 1, "{version}: {times} tasks");
    }
}
