//! What is going on, on stderr: a bar on a terminal; elsewhere a line per block, and one every few
//! seconds within a long one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unstall_bench_harness::block::MeasuredBlock;
use unstall_bench_harness::engine::{Phase, Progress, ProgressLook};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::Block;

use crate::console::{Console, to_stderr};

/// Between two looks at the engine's counters: quick for an eye, cheap for two cores.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Between two lines where there is no terminal: a log stays readable.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// What the rate is taken over.
const RATE_OVER: Duration = Duration::from_secs(3);
/// Parts of the bar per block.
const PARTS: u64 = 1_000;

/// Shows one session from its first block to its last.
#[derive(Debug)]
pub(crate) struct ProgressView {
    bar: ProgressBar,
    /// All of them, where that is known.
    blocks: Option<usize>,
    engine: Arc<Progress>,
    sampler: Option<Sampler>,
    /// What was said already.
    told: BTreeSet<String>,
}

impl ProgressView {
    /// Begins to show; `title` names the session.
    pub(crate) fn start(console: &Console, title: &str, blocks: Option<usize>) -> Self {
        let target = if console.interactive {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(blocks.map(|all| position(all, 0, 1)), target);
        let style = ProgressStyle::with_template(match blocks {
            Some(_) => "{prefix:!14} {bar:12} {wide_msg} {eta} left",
            None => "{prefix:!14} {wide_msg} since {elapsed}",
        });
        // The template is constant; should indicatif refuse it, its own style will do.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(title.to_owned());
        Self {
            bar,
            blocks,
            engine: Arc::default(),
            sampler: None,
            told: BTreeSet::new(),
        }
    }

    /// What the engine writes to.
    pub(crate) fn engine(&self) -> &Arc<Progress> {
        &self.engine
    }

    /// A block begins: the `index`-th from 0.
    pub(crate) fn begin(&mut self, index: usize, arm: &str) {
        self.sampler = None; // The one of the block before stops first.
        let label = format!("{} {arm}", self.place(index));
        self.bar.set_position(position(index, 0, 1));
        self.bar.set_message(format!("{label}: starting"));
        let view = LiveView {
            bar: self.bar.clone(),
            engine: self.engine.clone(),
            index,
            label,
            done: VecDeque::new(),
            line_due: None,
        };
        self.sampler = Sampler::start(view);
    }

    /// The block is over and saved.
    pub(crate) fn end(&mut self, index: usize, block: Option<&Block>) {
        self.sampler = None;
        self.bar.set_position(position(index + 1, 0, 1));
        if let Some(block) = block.filter(|_| self.bar.is_hidden()) {
            to_stderr(&format!("block {} {}", self.place(index), describe(block)));
        }
    }

    /// `3/20`, or `3` where nobody knows how many there are.
    fn place(&self, index: usize) -> String {
        match self.blocks {
            Some(blocks) => format!("{}/{blocks}", index + 1),
            None => (index + 1).to_string(),
        }
    }

    /// Says one line above the bar.
    pub(crate) fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            to_stderr(line);
        } else {
            self.bar.println(line);
        }
    }

    /// Says what a block had to tell, each thing once per session.
    pub(crate) fn tell(&mut self, arm: &str, measured: &MeasuredBlock) {
        let examples = measured.examples.iter().map(|example| {
            format!(
                "{arm}: {} failed, for example: {}",
                example.endpoint, example.message
            )
        });
        let warnings = measured
            .warnings
            .iter()
            .map(|warning| format!("{arm}: {warning}"));
        for line in examples.chain(warnings) {
            self.tell_once(line);
        }
    }

    /// Says a line unless this session has said it already.
    pub(crate) fn tell_once(&mut self, line: String) {
        if !self.told.contains(&line) {
            self.say(&line);
            self.told.insert(line);
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(mut self) {
        self.sampler = None;
        self.bar.finish_and_clear();
    }
}

fn position(index: usize, done: u64, total: u64) -> u64 {
    let whole = u64::try_from(index)
        .unwrap_or(u64::MAX)
        .saturating_mul(PARTS);
    whole.saturating_add(done.min(total).saturating_mul(PARTS) / total.max(1))
}

/// A finished block in one line.
fn describe(block: &Block) -> String {
    let seconds = Duration::from_nanos(block.wall_ns).as_secs_f64();
    let failed: u64 = block.errors.values().sum();
    let responses = block.endpoints.values().map(|samples| &samples.response);
    let p95_us = LatencyHistogram::sum(responses).quantile_us(0.95);
    let p95 = p95_us.map_or_else(|| "no answer".to_owned(), |us| format!("p95 {}", ms(us)));
    let mut text = format!(
        "{}: {} answers in {seconds:.1} s, {p95}, {failed} errors",
        block.arm, block.completed
    );
    if !block.validity.ok {
        text.push_str(&format!("; invalid: {}", block.validity.reasons.join("; ")));
    }
    text
}

fn ms(us: u64) -> String {
    let ms = Duration::from_micros(us).as_secs_f64() * 1e3;
    if ms < 100.0 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

/// A thread that looks at the engine while a block runs; stops when it is dropped.
#[derive(Debug)]
struct Sampler {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// `None` when no thread can be had: progress is not worth failing for.
    fn start(mut view: LiveView) -> Option<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let work = move || {
            while !seen.load(Ordering::Relaxed) {
                view.show(Instant::now());
                thread::park_timeout(LOOK_EVERY);
            }
        };
        let thread = thread::Builder::new()
            .name("progress".to_owned())
            .spawn(work)
            .ok()?;
        Some(Self {
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the sampler lost a line on the terminal, no measurement.
            let _ = thread.join();
        }
    }
}

/// What a person sees of a block under way.
#[derive(Debug)]
struct LiveView {
    bar: ProgressBar,
    engine: Arc<Progress>,
    index: usize,
    label: String,
    /// When, and how many requests had ended.
    done: VecDeque<(Instant, u64)>,
    /// When the next line is due where there is no terminal; `None` before the load began.
    line_due: Option<Instant>,
}

impl LiveView {
    fn show(&mut self, now: Instant) {
        let look = self.engine.look();
        if look.phase == Phase::WarmUp {
            self.bar.set_message(format!("{}: warming up", self.label));
        }
        if look.phase != Phase::Measuring {
            return;
        }
        let rate = self.rate(now, look.done);
        let text = format!("{}: {}", self.label, say(look, rate));
        if self.bar.is_hidden() {
            let due = *self.line_due.get_or_insert(now + LINE_EVERY);
            if now >= due {
                self.line_due = Some(now + LINE_EVERY);
                to_stderr(&format!("block {text}"));
            }
        } else {
            self.bar
                .set_position(position(self.index, look.done, look.total));
            self.bar.set_message(text);
        }
    }

    /// Requests per second of the last seconds; `None` until that means something.
    fn rate(&mut self, now: Instant, done: u64) -> Option<f64> {
        self.done.push_back((now, done));
        while self.done.len() > 2 && now.duration_since(self.done[1].0) >= RATE_OVER {
            self.done.pop_front();
        }
        let (since, first) = *self.done.front()?;
        let elapsed = now.duration_since(since);
        #[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
        let rate = done.saturating_sub(first) as f64 / elapsed.as_secs_f64();
        (elapsed >= LOOK_EVERY).then_some(rate)
    }
}

/// The numbers of the last seconds; errors are those of the whole block.
fn say(look: ProgressLook, rate: Option<f64>) -> String {
    let rate = rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}"));
    let times = look.recent.map_or_else(
        || "p50 –".to_owned(),
        |recent| {
            format!(
                "p50 {}, p95 {}, p99 {}",
                ms(recent.p50_us),
                ms(recent.p95_us),
                ms(recent.p99_us)
            )
        },
    );
    let lag = look.recent.map_or_else(String::new, |recent| {
        format!(", lag {}", ms(recent.lag_us_max))
    });
    format!(
        "{rate}/s, {times}, {} errors, {} in flight{lag}",
        look.failed, look.in_flight
    )
}

#[cfg(test)]
mod tests {
    use unstall_bench_harness::engine::Recent;
    use unstall_results::synthetic::{EndpointSpec, run_record};

    use super::*;

    #[test]
    fn the_bar_never_runs_over_its_block() {
        assert_eq!(position(0, 0, 0), 0);
        assert_eq!(position(2, 50, 100), 2_500);
        assert_eq!(position(2, 500, 100), 3_000);
    }

    fn view() -> LiveView {
        LiveView {
            bar: ProgressBar::hidden(),
            engine: Arc::default(),
            index: 0,
            label: "1/1 run".to_owned(),
            done: VecDeque::new(),
            line_due: None,
        }
    }

    #[test]
    fn a_block_s_p95_is_that_of_its_requests_and_not_of_its_worst_second() {
        let endpoints = [EndpointSpec::new("GET a", 20.0)];
        let mut block = run_record(1, 400, &endpoints).blocks.remove(0);
        let of_requests = block.endpoints["GET a"].response.quantile_us(0.95);
        let said = format!("p95 {}", ms(of_requests.expect("answers")));
        block.series[0].p95_us = Some(900_000);
        assert!(describe(&block).contains(&said), "{}", describe(&block));
    }

    #[test]
    fn numbers_are_said_briefly() {
        let mut look = ProgressLook {
            phase: Phase::Measuring,
            total: 400,
            done: 200,
            failed: 3,
            in_flight: 20,
            recent: Some(Recent {
                p50_us: 3_100,
                p95_us: 12_340,
                p99_us: 220_100,
                lag_us_max: 180,
            }),
        };
        assert_eq!(
            say(look, Some(400.4)),
            "400/s, p50 3.1 ms, p95 12.3 ms, p99 220 ms, 3 errors, 20 in flight, lag 0.2 ms"
        );
        look.recent = None;
        assert_eq!(say(look, None), "–/s, p50 –, 3 errors, 20 in flight");
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut view = view();
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        assert_eq!(view.rate(at(0), 0), None);
        assert_eq!(view.rate(at(1_000), 500), Some(500.0));
        // A stall shows: nothing of the first second is left.
        for ms in [2_000, 3_000, 4_000, 5_000] {
            view.rate(at(ms), 500);
        }
        assert_eq!(view.rate(at(6_000), 500), Some(0.0));
    }
}
