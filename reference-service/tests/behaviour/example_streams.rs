//! The FastAPI example's own way with streams: a generator on one of its server's 40 threads. The
//! migration leaves it there; nothing may stay when clients and runs are gone.

use std::time::Duration;

use super::EXAMPLES;
use super::leaks::{create, end_run, open_stream};
use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed};

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
