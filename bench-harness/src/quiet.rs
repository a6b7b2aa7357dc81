//! Waiting until the hypervisor leaves this machine its cores. Times of theft last for some ten
//! seconds, longer than a block: a block that was spoiled by one and measured anew at once would be
//! spoiled once more, and its session with it.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use unstall_bench_harness::engine::Stop;
use unstall_bench_harness::machine::CpuTimes;
use unstall_results::policy::STEAL_SHARE_MAX;

/// For how long all cores are kept busy for one look. An idle machine has nothing that could be
/// taken from it, so the kernel counts no theft there. A second, since theft comes in bursts: looks of
/// 0.3 s in the middle of it saw none.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Share of the cores' time in a look up to which it was without theft: well below what spoils a block.
const QUIET_SHARE_MAX: f64 = STEAL_SHARE_MAX / 5.0;
/// Looks in a row without theft that make it quiet.
const QUIET_LOOKS: u32 = 2;
/// Looks after which the block is measured whatever they saw: half a minute.
const LOOKS_MAX: u32 = 20;

/// Waits, and returns for how long; at once where the kernel doesn't tell.
pub(crate) fn wait(stop: &Stop) -> Duration {
    let begun = Instant::now();
    until_quiet(stolen_share, || {
        thread::sleep(PAUSE);
        !stop.is_requested()
    });
    begun.elapsed()
}

/// Looks until it was quiet often enough, nobody can tell, `go_on` says no, or time is up. Returns
/// the number of looks.
fn until_quiet(mut look: impl FnMut() -> Option<f64>, mut go_on: impl FnMut() -> bool) -> u32 {
    let mut quiet = 0;
    for looks in 1..=LOOKS_MAX {
        let Some(share) = look() else { return looks };
        quiet = if share > QUIET_SHARE_MAX {
            0
        } else {
            quiet + 1
        };
        if quiet == QUIET_LOOKS || looks == LOOKS_MAX || !go_on() {
            return looks;
        }
    }
    LOOKS_MAX
}

/// Share of all cores' time that was stolen while each of them had work.
fn stolen_share() -> Option<f64> {
    let before = CpuTimes::now()?;
    let end = Instant::now() + LOOK;
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(move || {
                while Instant::now() < end {
                    hint::spin_loop();
                }
            });
        }
    });
    CpuTimes::now()?.steal_share_since(&before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(shares: &[Option<f64>]) -> u32 {
        let mut shares = shares.iter().copied();
        until_quiet(|| shares.next().unwrap(), || true)
    }

    #[test]
    fn it_is_quiet_after_two_looks_in_a_row_without_theft() {
        assert_eq!(looks(&[Some(0.0), Some(0.01)]), 2);
        let stolen = Some(0.02);
        assert_eq!(looks(&[stolen, Some(0.0), stolen, Some(0.0), Some(0.0)]), 5);
    }

    #[test]
    fn it_waits_for_a_bounded_time() {
        assert_eq!(until_quiet(|| Some(0.5), || true), LOOKS_MAX);
    }

    #[test]
    fn it_does_not_wait_where_the_kernel_tells_nothing_or_after_a_stop() {
        assert_eq!(looks(&[None]), 1);
        assert_eq!(until_quiet(|| Some(0.5), || false), 1);
    }

    #[test]
    fn a_look_keeps_the_machine_busy_and_reads_a_share() {
        let share = stolen_share();
        assert!(
            share.is_none_or(|share| (0.0..=1.0).contains(&share)),
            "{share:?}"
        );
    }
}
