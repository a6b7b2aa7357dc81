//! The FastAPI example's own way with streams: a generator on one of its server's 40 threads. The
//! migration leaves it there, and nothing may stay when clients or workers go.

use std::time::Duration;

use super::EXAMPLES;
use super::leaks::{create, end_run, open_stream};
use super::service::{OwnRedis, Service, fresh_database, shared_testbed};

/// Worker threads of the server.
const THREADS: usize = 40;

#[tokio::test]
async fn forty_streams_keep_sessions_waiting_until_one_ends() {
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
        end_run(&redis, 7);
        assert_eq!(create.await.expect("asked"), 200, "{version}");
        (0..THREADS).for_each(|session| end_run(&redis, session));
        for stream in streams {
            stream.text().await.expect("it ends");
        }
    }
}

#[tokio::test]
async fn clients_that_are_gone_give_their_threads_back() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for version in EXAMPLES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(version, &database_url, &redis.url);
        for session in 0..THREADS {
            drop(open_stream(&service, session).await);
        }
        // Their runs go on, and say nothing; each thread sits out its wait inside XREAD, and then
        // finds nobody. So this waits a while and ends.
        let created = create(service.url("/api/v1/conversations")).await;
        assert_eq!(created, 200, "{version}");
        // The readers' connections are gone, too: the service has at most those of its pool.
        let mut readers = THREADS;
        for _ in 0..200 {
            let clients: String = redis.ask(&["CLIENT", "LIST"]);
            readers = clients
                .lines()
                .filter(|client| client.contains("cmd=xread") || client.contains("cmd=exists"))
                .filter(|client| client.contains(&format!(" db={} ", redis.number())))
                .count();
            if readers == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(readers, 0, "{version}: readers without a client");
    }
}
