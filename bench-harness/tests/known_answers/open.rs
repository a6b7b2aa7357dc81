//! The open model against servers that know: a constant delay, and a stall of 1 s in 10 s, which a
//! closed load hardly sees.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use unstall_bench_harness::engine::OpenLoad;
use unstall_results::histogram::LatencyHistogram;

use crate::{ALONE, PATIENCE, Reading, TRIES, agrees_with, control, noticing_business, support};

#[test]
fn a_delay_of_50_ms_is_measured_as_such_whenever_requests_come() {
    // The server's truth begins when it has read a request: the kernel's wake-ups of an idle
    // machine, for the arrival, for the server and for the answer, are 100 to 200 µs beside it.
    for load in [
        OpenLoad::constant(100.0, Duration::from_secs(4)),
        OpenLoad::poisson(100.0, Duration::from_secs(4)),
    ] {
        agrees_with("/delay/50", 5, 400, &support::open(load));
    }
}

const USUAL: Duration = Duration::from_millis(5);
/// After the first request: from, to. Between two arrivals, so that the same ones meet it though the
/// first came some milliseconds late.
const STALL: [Duration; 2] = [Duration::from_millis(2_995), Duration::from_millis(3_995)];
const LASTS: Duration = Duration::from_secs(10);
const PER_SECOND: u64 = 100;

/// Answers after 5 ms; what comes during the stall, when the stall is over. A thread per connection.
struct StallingServer {
    port: u16,
}

impl StallingServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let first: Arc<OnceLock<Instant>> = Arc::default();
        // It lives as long as this test program.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let first = Arc::clone(&first);
                // A connection that breaks is the engine's to count.
                thread::spawn(move || serve(&stream, &first));
            }
        });
        Self { port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn serve(stream: &TcpStream, first: &OnceLock<Instant>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        if !line?.is_empty() {
            continue;
        }
        let now = Instant::now();
        let begun = *first.get_or_init(|| now);
        let due = begun + answered_at(now - begun);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
    }
    Ok(())
}

fn answered_at(came: Duration) -> Duration {
    let [from, to] = STALL;
    if (from..to).contains(&came) {
        to.max(came + USUAL)
    } else {
        came + USUAL
    }
}

/// What every arrival has to wait, as a histogram.
fn expected() -> Vec<u64> {
    let count = LASTS.as_secs() * PER_SECOND;
    let arrivals =
        (0..count).map(|index| Duration::from_secs(1) * index as u32 / PER_SECOND as u32);
    let waits = arrivals.map(|came| answered_at(came) - came);
    waits.map(|wait| wait.as_nanos() as u64).collect()
}

fn response(url: &str, spec: &unstall_bench_harness::engine::BlockSpec) -> LatencyHistogram {
    let block = support::run(&support::get("/"), url, spec);
    assert!(block.errors.is_empty() && block.local_faults.is_empty());
    assert_eq!(block.offered, block.completed);
    block.endpoints["it"].response.clone()
}

#[test]
fn a_stall_of_1_s_in_10_is_what_arrivals_wait_and_closed_users_hide() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let truth = expected();
    let mut failed = Vec::new();
    for _ in 0..TRIES.min(4) {
        let (servers, mut open_spec) = (
            [StallingServer::start(), StallingServer::start()],
            support::open(OpenLoad::constant(PER_SECOND as f64, LASTS)),
        );
        open_spec.grace = Duration::from_secs(5);
        let ([open, closed], busy) = noticing_business(|| {
            let open_url = servers[0].url();
            let open = thread::spawn(move || response(&open_url, &open_spec));
            let closed = response(&servers[1].url(), &support::lasting(1, LASTS));
            [open.join().expect("it is measured"), closed]
        });
        assert_eq!(open.count(), LASTS.as_secs() * PER_SECOND);
        // A hundred arrivals waited, ten of them for 0.9 s and more: nobody hides that.
        for (q, least_us) in [(0.95, 480_000), (0.99, 880_000), (1.0, 980_000)] {
            let seen_us = open.quantile_us(q).expect("answers");
            assert!(seen_us >= least_us, "{q}: {seen_us} µs");
        }
        // Of more than a thousand requests of one user, one met the stall, wherever it is ranked.
        let longest_us = closed.max_us().expect("answers");
        assert!(longest_us >= 900_000, "{longest_us}");
        let readings: Vec<(f64, Reading)> = [0.5, 0.95, 0.99, 1.0]
            .map(|q| (q, Reading::of(&open, &truth, q)))
            .into();
        let closed_p99_us = closed.quantile_us(0.99).expect("answers");
        // The truth is when it was due. By now the stall is over, and each answer takes 5 ms.
        let bare = control::times(&servers[0].url(), "/", 1, PER_SECOND);
        let usual = [USUAL.as_nanos() as u64];
        let agrees = |(q, reading): &(f64, Reading)| {
            let machine_us = Reading::of(&bare, &usual, *q).late_us();
            reading.agrees() || reading.agrees_beside(machine_us)
        };
        if readings.iter().all(agrees) && closed_p99_us < 20_000 * PATIENCE {
            return;
        }
        if !busy {
            failed.push((readings, closed_p99_us));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    eprintln!("the stall's percentiles were not judged, the machine was busy each time");
}
