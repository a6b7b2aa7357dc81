//! Stores behind a proxy are named by the URLs that the service was given.
//!
//! The environment is a process' own and fixed, so the service is this test's program once more.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "what holds the loop here is planted"
)]

mod watched_loop;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use unstall_loop_monitor::cause::CauseClass;
use unstall_testbed::{DelayProxy, Options, Testbed};
use watched_loop::{WatchedLoop, blamed_line};

/// Far above the watcher's threshold.
const ROUND_TRIP: Duration = Duration::from_millis(200);
/// Tells the service where the proxies are, in a form that names nobody.
const PROXIES: &str = "UNSTALL_TEST_PROXIES";

#[test]
fn stores_behind_a_proxy_have_their_names() {
    if let Ok(proxies) = std::env::var(PROXIES) {
        let (redis, postgres) = proxies.split_once(' ').expect("two addresses");
        wait_for_stores(
            redis.parse().expect("an address"),
            postgres.parse().expect("an address"),
        );
        return;
    }
    let testbed = Testbed::start(&Options::default()).expect("servers");
    let redis = DelayProxy::start(testbed.redis_address(), ROUND_TRIP).expect("a proxy");
    let postgres = DelayProxy::start(testbed.postgres_address(), ROUND_TRIP).expect("a proxy");
    let database_url = testbed.database_url_through(postgres.addr(), "postgres");
    let program = std::env::current_exe().expect("a path");
    let served = Command::new(program)
        .args([
            "--exact",
            "stores_behind_a_proxy_have_their_names",
            "--nocapture",
        ])
        .env("REDIS_URL", testbed.redis_url_through(redis.addr()))
        .env("DATABASE_URL", database_url)
        .env(PROXIES, format!("{} {}", redis.addr(), postgres.addr()))
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&served.stdout);
    assert!(
        served.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

fn wait_for_stores(redis: SocketAddr, postgres: SocketAddr) {
    let watched = WatchedLoop::start();
    let mut stream = connect(redis);
    stream.write_all(b"PING\r\n").expect("sent");
    let line = line!() + 1;
    let named = watched.named("/redis", || stream.read_exact(&mut [0]).expect("an answer"));
    let cause = named.cause;
    assert_eq!(cause.class, CauseClass::Io);
    assert_eq!(
        blamed_line(&cause, "tests/watched_peers.rs"),
        Some(line),
        "{cause:#?}"
    );
    let target = cause.target.expect("a peer");
    assert_eq!(target.what, redis.to_string());
    assert_eq!(target.name.as_deref(), Some("redis (REDIS_URL)"));

    let mut stream = connect(postgres);
    // An SSLRequest, the shortest message that a server answers.
    stream
        .write_all(&[0, 0, 0, 8, 4, 210, 22, 47])
        .expect("sent");
    let named = watched.named("/postgres", || {
        stream.read_exact(&mut [0]).expect("an answer")
    });
    let target = named.cause.target.expect("a peer");
    assert_eq!(target.what, postgres.to_string());
    assert_eq!(target.name.as_deref(), Some("postgresql (DATABASE_URL)"));
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).expect("the proxy listens")
}
