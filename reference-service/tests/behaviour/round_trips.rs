//! What each variant asks of Redis for one request: what the original asked, no more and no less.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::EXAMPLES;
use super::service::{Service, fresh_database, seeded_testbed};

const REQUESTS: u64 = 10;

/// Sends an inline command and gives the answer, a bulk string or a status line.
pub(crate) fn ask(redis: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(redis).expect("connects");
    write!(stream, "{command}\r\n").expect("sends");
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    reader.read_line(&mut head).expect("answers");
    let Some(length) = head.trim_end().strip_prefix('$') else {
        return head;
    };
    let mut bulk = vec![0; length.parse().expect("a length")];
    reader.read_exact(&mut bulk).expect("the whole answer");
    String::from_utf8(bulk).expect("text")
}

/// Calls by command, and connections accepted, since the last `CONFIG RESETSTAT`.
pub(crate) fn counted(redis: SocketAddr) -> (BTreeMap<String, u64>, u64) {
    let value_of = |line: &str, from: &str, to: char| -> u64 {
        let (_, value) = line.split_once(from).expect("a known form");
        value
            .split(to)
            .next()
            .unwrap_or(value)
            .trim()
            .parse()
            .expect("a number")
    };
    let stats = ask(redis, "INFO stats");
    let connections = stats
        .lines()
        .find(|line| line.starts_with("total_connections_received"))
        .map(|line| value_of(line, ":", '\r'))
        .expect("a line of connections");
    let commands = ask(redis, "INFO commandstats")
        .lines()
        .filter_map(|line| Some((line, line.strip_prefix("cmdstat_")?.split_once(':')?.0)))
        .map(|(line, name)| (name.to_owned(), value_of(line, "calls=", ',')))
        // Ours.
        .filter(|(name, _)| !matches!(name.as_str(), "info" | "config|resetstat"))
        .collect();
    // `INFO` above was asked on a connection of ours.
    (commands, connections - 1)
}

async fn commands_of(
    service: &Service,
    redis: SocketAddr,
    path: &str,
) -> (BTreeMap<String, u64>, u64) {
    ask(redis, "CONFIG RESETSTAT");
    let client = reqwest::Client::new();
    for _ in 0..REQUESTS {
        let response = client.get(service.url(path)).send().await.expect(path);
        assert_eq!(response.status(), 200);
    }
    counted(redis)
}

#[tokio::test]
async fn redis_is_asked_what_the_routes_table_says() {
    let testbed = seeded_testbed();
    let redis = testbed.redis_address();
    let calls = |names: &[&str]| -> BTreeMap<String, u64> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), REQUESTS))
            .collect()
    };
    for (steps, branch_commands, branch_connections) in [
        ("start", calls(&["get", "ping"]), REQUESTS),
        ("0,1,2a", calls(&["get", "ping"]), REQUESTS),
        ("0,1,2a,3", calls(&["get"]), 0),
        ("fastapi blocking", calls(&["get", "ping"]), REQUESTS),
        ("fastapi asynchronous", calls(&["get"]), 0),
    ] {
        let (_, database_url) = fresh_database(&testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        for path in [
            "/api/v1/tunnel/workspace/00000000000000a1",
            "/api/v1/tunnel/workspace/00000000000000a1/socket-status",
        ] {
            let asked = commands_of(&service, redis, path).await;
            assert_eq!(
                asked,
                (calls(&["get", "exists"]), 0),
                "steps {steps} {path}"
            );
        }
        let asked = commands_of(
            &service,
            redis,
            "/api/v1/github/get-branch-list?repo_name=octo/hello",
        )
        .await;
        assert_eq!(
            asked,
            (branch_commands, branch_connections),
            "steps {steps}"
        );
    }
}

#[tokio::test]
async fn somebody_elses_workspace_costs_one_command() {
    let testbed = seeded_testbed();
    let (_, database_url) = fresh_database(&testbed);
    let service = Service::start("0", &database_url, &testbed.redis_url());
    let path = service.url("/api/v1/tunnel/workspace/00000000000000b1");
    ask(testbed.redis_address(), "CONFIG RESETSTAT");
    assert_eq!(reqwest::get(path).await.expect("an answer").status(), 404);
    let (commands, _) = counted(testbed.redis_address());
    assert_eq!(commands, BTreeMap::from([("get".to_owned(), 1)]));
}

#[tokio::test]
async fn connections_that_redis_closed_are_replaced_unseen() {
    let testbed = seeded_testbed();
    for steps in ["start", "0", "0,1,2a,3"].into_iter().chain(EXAMPLES) {
        let (_, database_url) = fresh_database(&testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        for _ in 0..3 {
            ask(
                testbed.redis_address(),
                "CLIENT KILL TYPE normal SKIPME yes",
            );
            for path in [
                "/api/v1/tunnel/workspace/00000000000000a1",
                "/api/v1/github/get-branch-list?repo_name=octo/hello",
            ] {
                let response = reqwest::get(service.url(path)).await.expect("an answer");
                assert_eq!(response.status(), 200, "steps {steps} {path}");
            }
        }
    }
}
