//! The warning about one long hold: with endpoint and time, never across an await, not too often.
#![expect(clippy::disallowed_methods, reason = "the holds are planted")]

use std::convert::Infallible;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use http::{Request, Response};
use serde_json::Value;
use tower::{Layer, ServiceExt, service_fn};
use unstall_loop_monitor::Monitor;

/// What a subscriber would have written to the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Every event's fields.
    fn events(&self) -> Vec<Value> {
        let bytes = self.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes)
            .expect("UTF-8")
            .lines()
            .map(|line| serde_json::from_str(line).expect("one event per line"))
            .collect()
    }
}

async fn answer(request: Request<()>) -> Result<Response<String>, Infallible> {
    match request.uri().path() {
        "/block" => thread::sleep(Duration::from_millis(30)),
        "/wait" => tokio::time::sleep(Duration::from_millis(30)).await,
        "/spin" => {
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(30) {}
        }
        _ => {}
    }
    Ok(Response::new(String::new()))
}

/// Logs what a monitor that warns above 20 ms says about these requests.
fn warned_about(paths: &[&str]) -> Vec<Value> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_writer(move || writer.clone())
        .finish();
    let monitor = Monitor::builder()
        .warn_over(Duration::from_millis(20))
        .build();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    monitor.install(&mut builder);
    let runtime = builder.build().expect("a runtime");
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            for path in paths {
                let service = monitor
                    .layer_by(|request: &Request<()>| request.uri().path().to_owned())
                    .layer(service_fn(answer));
                let request = Request::builder().uri(*path).body(()).expect("a request");
                service.oneshot(request).await.expect("infallible");
            }
        });
    });
    log.events()
}

#[test]
fn a_hold_names_its_endpoint_and_how_much_of_it_was_blocked() {
    let events = warned_about(&["/block"]);
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!(event["level"], "WARN");
    let fields = &event["fields"];
    assert_eq!(fields["method"], "GET");
    assert_eq!(fields["endpoint"], "/block");
    let hold_ms = fields["hold_ms"].as_f64().expect("a number");
    let blocked_ms = fields["blocked_time_ms"].as_f64().expect("a number");
    assert!(blocked_ms > 0.0 && blocked_ms <= hold_ms, "{event}");
}

/// A core that isn't there at the end of the sleep takes its part of the time: how much, the
/// machine says. Undisturbed the whole sleep is blocked, and not every sleep is disturbed.
#[test]
fn a_sleep_is_blocked_as_a_whole_where_nobody_takes_the_core() {
    const TRIES: usize = 50;
    let blocked_ms = || {
        let events = warned_about(&["/block"]);
        let blocked = &events[0]["fields"]["blocked_time_ms"];
        blocked.as_f64().expect("a number")
    };
    let mut seen = Vec::new();
    while seen.len() < TRIES && seen.last().is_none_or(|blocked| *blocked < 27.0) {
        seen.push(blocked_ms());
    }
    assert!(
        seen.last().is_some_and(|blocked| *blocked >= 27.0),
        "{seen:?}"
    );
}

#[test]
fn a_computation_is_warned_about_as_a_hold_without_blocked_time() {
    let events = warned_about(&["/spin"]);
    assert_eq!(events.len(), 1, "{events:?}");
    let fields = &events[0]["fields"];
    let hold_ms = fields["hold_ms"].as_f64().expect("a number");
    let blocked_ms = fields["blocked_time_ms"].as_f64().expect("a number");
    assert!(hold_ms >= 30.0 && blocked_ms < hold_ms / 10.0, "{fields}");
}

#[test]
fn an_awaited_call_is_never_warned_about() {
    let events = warned_about(&["/wait", "/wait", "/quick"]);
    assert_eq!(events, Vec::<Value>::new());
}

#[test]
fn a_stalled_service_warns_once_a_second_and_counts_the_rest() {
    // 45 holds of 30 ms take at least 1.35 s, so there is a second warning.
    let events = warned_about(&["/block"; 45]);
    assert!(events.len() >= 2 && events.len() < 45, "{}", events.len());
    assert_eq!(events[0]["fields"]["suppressed"], 0);
    let suppressed = events[1]["fields"]["suppressed"].as_u64().expect("a count");
    assert!(suppressed >= 1, "{events:?}");
}
