//! Services that don't speak HTTP: any request, any response, charged by name.
#![expect(
    clippy::disallowed_methods,
    reason = "the blocking calls are the canaries"
)]

use std::fmt;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use unstall_loop_monitor::{Mode, Monitor, OTHER_ENDPOINT, Snapshot};

const CALLS: u64 = 10;
const SLEEP: Duration = Duration::from_millis(5);

/// Not HTTP, not cloneable, and with an answer that is no response.
struct Command {
    name: String,
    sleeps: bool,
}

#[derive(Debug, PartialEq)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("refused")
    }
}

impl std::error::Error for Refused {}

async fn carry_out(command: Command) -> Result<u64, Refused> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    if command.sleeps {
        thread::sleep(SLEEP);
    }
    if command.name == "forbidden" {
        return Err(Refused);
    }
    Ok(42)
}

fn command(name: &str, sleeps: bool) -> Command {
    Command {
        name: name.to_owned(),
        sleeps,
    }
}

/// On a single loop, as a task of its own.
fn on_a_loop(monitor: &Monitor, work: impl Future<Output = ()>) -> Snapshot {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    monitor.install(&mut builder);
    builder.build().expect("a runtime").block_on(work);
    monitor.snapshot()
}

#[test]
fn calls_are_charged_to_their_name_and_answers_pass_through() {
    for mode in [Mode::Counters, Mode::FullSplit] {
        let monitor = Monitor::builder().mode(mode).build();
        let mut service = ServiceBuilder::new()
            .layer(monitor.service_layer(|command: &Command| command.name.clone()))
            .service(service_fn(carry_out));
        let snapshot = on_a_loop(&monitor, async {
            for _ in 0..CALLS {
                for (name, sleeps) in [("slow", true), ("quick", false)] {
                    let ready = service.ready().await.expect("always ready");
                    assert_eq!(ready.call(command(name, sleeps)).await, Ok(42));
                }
            }
            let refused = service.call(command("forbidden", false)).await;
            assert_eq!(refused, Err(Refused));
        });
        let slow = &snapshot.endpoints["CALL slow"];
        let quick = &snapshot.endpoints["CALL quick"];
        let case = format!("{mode:?} {slow:?} {quick:?}");
        let slept_ns = CALLS * 5_000_000;
        assert_eq!((slow.requests, quick.requests), (CALLS, CALLS), "{case}");
        assert!(slow.blocked.slept_ns >= slept_ns / 10 * 9, "{case}");
        assert!(quick.blocked.slept_ns < slept_ns / 10, "{case}");
        // What the service does before its future, and two polls.
        assert_eq!(slow.polls, 3 * CALLS, "{case}");
        assert_eq!(slow.parts.handler.polls, slow.polls, "{case}");
        assert_eq!(snapshot.endpoints["CALL forbidden"].requests, 1);
    }
}

#[test]
fn names_share_the_endpoints_cap() {
    let monitor = Monitor::builder().endpoint_cap(3).build();
    let layer = monitor.service_layer(|command: &Command| command.name.clone());
    let snapshot = on_a_loop(&monitor, async {
        for id in 0..20 {
            let service = layer.layer(service_fn(carry_out));
            let called = service.oneshot(command(&format!("user-{id}"), false));
            assert_eq!(called.await, Ok(42));
        }
    });
    assert_eq!(snapshot.endpoints.len(), 4);
    assert_eq!(snapshot.endpoints[OTHER_ENDPOINT].requests, 17);
}
