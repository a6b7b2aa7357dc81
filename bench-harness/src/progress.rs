//! What is going on, on stderr: a bar on a terminal, a line per block elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unstall_bench_harness::block::MeasuredBlock;
use unstall_bench_harness::engine::{Phase, Progress, ProgressLook};
use unstall_results::record::Block;

use crate::console::{Console, to_stderr};

/// Between two looks at the engine's counters: quick for an eye, cheap for two cores.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Parts of the bar per block.
const PARTS: u64 = 1_000;

/// Shows one session from its first block to its last.
#[derive(Debug)]
pub(crate) struct ProgressView {
    bar: ProgressBar,
    blocks: usize,
    engine: Arc<Progress>,
    sampler: Option<Sampler>,
    /// What was said already.
    told: BTreeSet<String>,
}

impl ProgressView {
    /// Begins to show; `title` names the session.
    pub(crate) fn start(console: &Console, title: &str, blocks: usize) -> Self {
        let target = if console.interactive {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let total = u64::try_from(blocks)
            .unwrap_or(u64::MAX)
            .saturating_mul(PARTS);
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template("{prefix:!14} {bar:12} {wide_msg} {eta} left");
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
        let label = format!("{}/{} {arm}", index + 1, self.blocks);
        self.bar.set_position(position(index, 0, 1));
        self.bar.set_message(format!("{label}: starting"));
        if !self.bar.is_hidden() {
            self.sampler = Sampler::start(self.bar.clone(), self.engine.clone(), index, label);
        }
    }

    /// The block is over and saved.
    pub(crate) fn end(&mut self, index: usize, block: Option<&Block>) {
        self.sampler = None;
        self.bar.set_position(position(index + 1, 0, 1));
        if let Some(block) = block.filter(|_| self.bar.is_hidden()) {
            to_stderr(&format!(
                "block {}/{} {}",
                index + 1,
                self.blocks,
                describe(block)
            ));
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
    let p95_us = block.series.iter().filter_map(|second| second.p95_us).max();
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
    fn start(bar: ProgressBar, engine: Arc<Progress>, index: usize, label: String) -> Option<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let work = move || {
            let mut measuring_since = None;
            while !seen.load(Ordering::Relaxed) {
                let look = engine.look();
                if look.phase == Phase::Measuring {
                    let (since, first) =
                        *measuring_since.get_or_insert_with(|| (Instant::now(), look.done));
                    let rate = rate(look.done.saturating_sub(first), since.elapsed());
                    bar.set_position(position(index, look.done, look.total));
                    bar.set_message(format!("{label}: {}", say(look, rate)));
                } else if look.phase == Phase::WarmUp {
                    bar.set_message(format!("{label}: warming up"));
                }
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

/// Requests per second since the sampler first looked; `None` until that means something.
fn rate(done: u64, elapsed: Duration) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
    let rate = done as f64 / elapsed.as_secs_f64();
    (elapsed >= LOOK_EVERY).then_some(rate)
}

/// The numbers so far.
fn say(look: ProgressLook, rate: Option<f64>) -> String {
    let rate = rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}"));
    let p95 = look.p95_us.map_or_else(|| "–".to_owned(), ms);
    format!("{rate}/s, p95 {p95}, {} errors", look.failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_never_runs_over_its_block() {
        assert_eq!(position(0, 0, 0), 0);
        assert_eq!(position(2, 50, 100), 2_500);
        assert_eq!(position(2, 500, 100), 3_000);
    }

    #[test]
    fn numbers_are_said_briefly() {
        let look = ProgressLook {
            phase: Phase::Measuring,
            total: 400,
            done: 200,
            failed: 3,
            p95_us: Some(12_340),
        };
        let rate_now = rate(200, Duration::from_millis(500));
        assert_eq!(say(look, rate_now), "400/s, p95 12.3 ms, 3 errors");
        let too_soon = rate(200, Duration::from_millis(1));
        assert_eq!(say(look, too_soon), "–/s, p95 12.3 ms, 3 errors");
    }
}
