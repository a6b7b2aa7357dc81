//! The FastAPI example: what its blocking version waits for is named with server and source line,
//! and its async version waits for nothing; on asyncio and on uvloop.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use unstall_loop_monitor::watched::WatchSummary;
use unstall_testbed::{DelayProxy, Options, Testbed};

use crate::program::{Load, Service, assert_named, built, free_address, get, python, watch};

/// A network's place between the service and its stores.
const ROUND_TRIP: Duration = Duration::from_millis(2);
const DATABASE: &str = "watched";
/// One route asks Redis, the other PostgreSQL.
const PATHS: [&str; 2] = [
    "/api/v1/tunnel/workspace/00000000000000a1",
    "/api/v1/usage/usage?start_date=2025-01-01T00:00:00&end_date=2035-01-01T00:00:00",
];

struct Stores {
    testbed: Testbed,
    postgres: DelayProxy,
    redis: DelayProxy,
}

impl Stores {
    fn start() -> Self {
        let testbed = Testbed::start(&Options::default()).expect("private servers start");
        let reference = built("unstall-reference", "cargo build --workspace --bins");
        let run = |arguments: &[&str]| {
            let output = Command::new(&reference).args(arguments).output();
            let output = output.expect("unstall-reference starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {said}");
        };
        testbed
            .create_template("seeded", |url| {
                run(&["migrate", "--database-url", url]);
                run(&["seed", "--database-url", url]);
                Ok(())
            })
            .expect("the template is made");
        testbed
            .reset_database("seeded", DATABASE)
            .expect("the database is cloned");
        run(&["seed", "--redis-url", &testbed.redis_url()]);
        let proxy = |address| DelayProxy::start(address, ROUND_TRIP).expect("a proxy");
        Self {
            postgres: proxy(testbed.postgres_address()),
            redis: proxy(testbed.redis_address()),
            testbed,
        }
    }

    /// Serves a version on a kind of loop, under load, and watches it for 5 s.
    fn watch(&self, version: &str, kind: &str) -> WatchSummary {
        let address = free_address();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference-service/fastapi");
        let database = self
            .testbed
            .database_url_through(self.postgres.addr(), DATABASE);
        let mut service = Service::start(
            Command::new(python())
                .args(["-B", "-m", "uvicorn", "--app-dir"])
                .arg(example)
                .arg(format!("reference_fastapi.{version}:app"))
                .args(["--loop", kind, "--log-level", "warning"])
                .args(["--port", &address.port().to_string()])
                .env("DATABASE_URL", database)
                .env(
                    "REDIS_URL",
                    self.testbed.redis_url_through(self.redis.addr()),
                ),
        );
        service.wait_for(address);
        for path in PATHS {
            let status = get(address, path);
            assert!(status.contains(" 200 "), "{path}: {status}");
        }
        let _load = Load::of(address, &PATHS);
        let summary = watch(service.pid(), 5);
        eprintln!("{version} on {kind}:\n{summary:#?}");
        summary
    }
}

#[test]
fn the_example_s_blocking_calls_are_named_and_its_awaited_ones_are_not() {
    let stores = Stores::start();
    for kind in ["asyncio", "uvloop"] {
        let blocking = stores.watch("blocking", kind);
        assert_eq!(blocking.runtime, kind);
        assert_named(&blocking, &["I/O", "redis", "blocking/workspaces.py:"]);
        assert_named(&blocking, &["I/O", "postgres", "blocking/"]);
        let endpoints = blocking.causes.iter();
        let endpoints = endpoints.filter_map(|cause| cause.cause.endpoint.as_deref());
        assert!(endpoints.count() > 0, "{:#?}", blocking.causes);

        let asynchronous = stores.watch("asynchronous", kind);
        assert_eq!(asynchronous.runtime, kind);
        assert_eq!(asynchronous.causes, [], "{:#?}", asynchronous.notes);
        assert!(asynchronous.loops[0].idle_ns > 0);
    }
}
