//! Two looks at a poll, a moment apart, make its cause: what it stands in, or computes, or that it
//! waits for a core.

use std::sync::Arc;
use std::time::Duration;

use nix::time::ClockId;

use super::Watch;
use crate::cause::{Cause, CauseClass, how_to_get_lines};
use crate::cells::EndpointCells;
use crate::monitor::MonitorState;
use crate::process::{Activity, Namer, ProcessError, ProcessView, Sighting, Task};
use crate::readings::monotonic_ns;

/// Between the two looks.
const BETWEEN: Duration = Duration::from_millis(2);
/// What computes now computes within this again, even where cores are scarce.
const SAMPLE_PATIENCE: Duration = Duration::from_millis(20);
/// Looks for the call of a thread that waits often and shortly.
const CALL_ATTEMPTS: usize = 32;

/// A poll that runs now.
#[derive(Debug, Clone)]
pub(super) struct WatchedPoll {
    pub(super) thread_id: u32,
    pub(super) began_ns: u64,
    pub(super) endpoint: Arc<EndpointCells>,
}

impl WatchedPoll {
    fn is_same(&self, other: &Self) -> bool {
        (self.thread_id, self.began_ns) == (other.thread_id, other.began_ns)
    }
}

/// Those that hold a loop; a poll in `block_in_place` holds none.
pub(super) fn current_polls(state: &MonitorState) -> Vec<WatchedPoll> {
    let threads = state.meter.threads().into_iter();
    threads
        .filter_map(|thread| {
            let poll = thread.poll?;
            Some(WatchedPoll {
                thread_id: thread.thread_id,
                began_ns: poll.began_ns,
                endpoint: poll.endpoint,
            })
        })
        .collect()
}

/// What is kept between looks.
#[derive(Debug, Default)]
pub(super) struct Looks {
    namer: Option<Namer>,
}

/// What kept a poll, when it was looked at.
#[derive(Debug)]
pub(super) struct NamedPoll {
    pub(super) poll: WatchedPoll,
    pub(super) cause: Cause,
    /// When, by the monotonic clock: before the names were looked up.
    pub(super) seen_ns: u64,
}

/// A thread at one moment.
#[derive(Debug)]
struct Glimpse {
    moment: Moment,
    /// `None` when it never stood still, nor ran all along.
    sighting: Option<Sighting>,
}

/// What the kernel counts of a thread, at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    at_ns: u64,
    cpu_ns: u64,
    run_delay_ns: u64,
    timeslices: u64,
    /// Times that it gave up its core; `None` where the kernel doesn't count.
    voluntary_switches: Option<u64>,
    /// It was seen asleep.
    is_asleep: bool,
}

impl Looks {
    /// Names those polls that still run after both looks.
    pub(super) fn name(
        &mut self,
        state: &MonitorState,
        watch: &Watch,
        polls: Vec<WatchedPoll>,
    ) -> Vec<NamedPoll> {
        let view = ProcessView::own();
        let namer = match self.namer.take().map_or_else(|| Namer::new(&view), Ok) {
            Ok(namer) => self.namer.insert(namer),
            Err(error) => {
                note_refusal(watch, &error);
                return Vec::new();
            }
        };
        // Each poll by itself: what can't be read of one says nothing of the others.
        let mut firsts = Vec::new();
        for poll in polls {
            let seen = view
                .task(poll.thread_id)
                .and_then(|task| Ok((glimpse(namer, &task)?, task)));
            if let Some((first, task)) = unless_ended(watch, seen) {
                firsts.push((poll, task, first));
            }
        }
        pause();
        let mut seconds = Vec::new();
        for (poll, task, first) in firsts {
            if let Some(second) = unless_ended(watch, glimpse(namer, &task)) {
                seconds.push((poll, task, first, second));
            }
        }
        // Whoever polls the same now was in that poll at both looks.
        let still = current_polls(state);
        seconds.retain(|(poll, ..)| still.iter().any(|other| other.is_same(poll)));
        let mut named = Vec::new();
        for (poll, task, first, second) in seconds {
            let seen_ns = second.moment.at_ns;
            // Names of the polls before this one may have taken long, and looking takes time.
            let goes_on = || {
                let current = current_polls(state);
                current.iter().any(|other| other.is_same(&poll))
            };
            let cause = cause(namer, watch, &task, (first, second), goes_on);
            if let Some(mut cause) = unless_ended(watch, cause).flatten() {
                if let Some(words) = how_to_get_lines([&cause]) {
                    watch.note_trouble(format!(
                        "What holds a loop is named without a line: {words}."
                    ));
                }
                cause.endpoint = Some(poll.endpoint.key());
                named.push(NamedPoll {
                    poll,
                    cause,
                    seen_ns,
                });
            }
        }
        named
    }
}

/// A thread may end between two looks, and that is all there is to say about it.
fn unless_ended<T>(watch: &Watch, result: Result<T, ProcessError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(ProcessError::TaskEnded { .. }) => None,
        Err(error) => {
            note_refusal(watch, &error);
            None
        }
    }
}

fn note_refusal(watch: &Watch, error: &ProcessError) {
    watch.note_trouble(format!("The watcher can't name what holds a loop: {error}"));
}

fn glimpse(namer: &Namer, task: &Task) -> Result<Glimpse, ProcessError> {
    let (at_ns, cpu_ns) = (monotonic_ns(), cpu_ns(task.tid()));
    let times = task.times()?;
    let voluntary_switches = match task.voluntary_switches() {
        Ok(count) => Some(count),
        // Not every kernel has that line.
        Err(ProcessError::Unexpected { .. }) => None,
        Err(error) => return Err(error),
    };
    let sighting = namer.sight(task)?;
    let moment = Moment {
        at_ns,
        cpu_ns,
        run_delay_ns: times.run_delay_ns,
        timeslices: times.timeslices,
        voluntary_switches,
        is_asleep: sighting.as_ref().is_some_and(waits),
    };
    Ok(Glimpse { moment, sighting })
}

/// What both looks come to; `None` when they can't tell, and the next ones may. Later looks count
/// only while the poll `goes_on`, or they would name what another one does.
fn cause(
    namer: &mut Namer,
    watch: &Watch,
    task: &Task,
    (first, second): (Glimpse, Glimpse),
    goes_on: impl Fn() -> bool,
) -> Result<Option<Cause>, ProcessError> {
    match Keeper::of(&first.moment, &second.moment) {
        Keeper::Cpu => match second.sighting {
            Some(sighting) => computing(namer, watch, task, &sighting, goes_on).map(Some),
            None => Ok(Some(without_stack(CauseClass::Cpu))),
        },
        Keeper::Runqueue => Ok(Some(without_stack(CauseClass::Runqueue))),
        Keeper::Wait { is_one } => {
            let mut waiting = [second.sighting, first.sighting]
                .into_iter()
                .flatten()
                .find(waits);
            for _ in 0..CALL_ATTEMPTS {
                if waiting.is_some() {
                    break;
                }
                let seen = namer.sight(task)?;
                if !goes_on() {
                    break;
                }
                waiting = seen.filter(waits);
            }
            let Some(waiting) = waiting else {
                return Ok(None);
            };
            let cause = namer.resolve(&waiting)?;
            // A call that isn't known to wait, met once, is no reason for an alarm.
            Ok(Some(cause).filter(|cause| is_one || cause.class != CauseClass::Unknown))
        }
    }
}

fn computing(
    namer: &mut Namer,
    watch: &Watch,
    task: &Task,
    sighting: &Sighting,
    goes_on: impl Fn() -> bool,
) -> Result<Cause, ProcessError> {
    let sampled = namer.sample_running(task, sighting.look, SAMPLE_PATIENCE);
    match sampled {
        // The sample may be of the next poll.
        Ok(Some(_)) if !goes_on() => Ok(without_stack(CauseClass::Cpu)),
        // A thread that has just begun to wait: it did compute, and its line is unknown.
        Ok(None) => Ok(without_stack(CauseClass::Cpu)),
        Ok(Some(sample)) => {
            let mut cause = namer.resolve(&sample)?;
            (cause.class, cause.syscall, cause.target) = (CauseClass::Cpu, None, None);
            Ok(cause)
        }
        Err(error) => {
            watch.note_trouble(format!(
                "Polls that compute are named without a line: the kernel refuses \
                 perf_event_open ({error}); allow it by kernel.perf_event_paranoid ≤ 2 or \
                 CAP_PERFMON."
            ));
            Ok(without_stack(CauseClass::Cpu))
        }
    }
}

fn waits(sighting: &Sighting) -> bool {
    sighting.look.activity != Activity::Running
}

fn without_stack(class: CauseClass) -> Cause {
    Cause {
        class,
        syscall: None,
        target: None,
        endpoint: None,
        frames: Vec::new(),
    }
}

/// What had most of the time between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    Cpu,
    Runqueue,
    /// As far as anybody can tell: where a thread is ready at the second look, it may have been
    /// so for long.
    Wait {
        /// One wait, from the first look to the second.
        is_one: bool,
    },
}

impl Keeper {
    fn of(first: &Moment, second: &Moment) -> Self {
        let passed = |of: fn(&Moment) -> u64| of(second).saturating_sub(of(first));
        let wall_ns = passed(|moment| moment.at_ns);
        let cpu_ns = passed(|moment| moment.cpu_ns).min(wall_ns);
        let rest_ns = wall_ns - cpu_ns;
        let stood_still = first.timeslices == second.timeslices;
        let gave_up_its_core = match (first.voluntary_switches, second.voluntary_switches) {
            (Some(before), Some(after)) => before != after,
            _ => !stood_still,
        };
        let slept = first.is_asleep || second.is_asleep || gave_up_its_core;
        // The kernel counts a wait for a core when it ends. Whoever never slept had nothing but
        // such waits, counted or not.
        let runqueue_ns = if slept {
            passed(|moment| moment.run_delay_ns).min(rest_ns)
        } else {
            rest_ns
        };
        let wait_ns = rest_ns - runqueue_ns;
        if wait_ns > cpu_ns.max(runqueue_ns) {
            Self::Wait {
                is_one: stood_still && first.is_asleep && second.is_asleep,
            }
        } else if runqueue_ns > cpu_ns {
            Self::Runqueue
        } else {
            Self::Cpu
        }
    }
}

/// CPU time of a thread of this process, up to now: `schedstat` tells it only up to the last tick.
///
/// The clock's number is made as `pthread_getcpuclockid(3)` makes it (the kernel's
/// `include/linux/posix-timers.h`: `~tid << 3 | CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`).
fn cpu_ns(tid: u32) -> u64 {
    let Ok(tid) = i32::try_from(tid) else {
        return 0;
    };
    let clock = ClockId::from_raw((!tid << 3) | 4 | 2);
    // A thread that has ended computes no more.
    clock.now().map_or(0, crate::readings::timespec_ns)
}

#[expect(clippy::disallowed_methods, reason = "the watcher's thread is no loop")]
fn pause() {
    std::thread::sleep(BETWEEN);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Two milliseconds later, after so much CPU time and wait for a core.
    fn later(cpu_ms: u64, run_delay_ms: u64, timeslices: u64, switches: u64) -> Moment {
        Moment {
            at_ns: 2 * MS,
            cpu_ns: cpu_ms * MS,
            run_delay_ns: run_delay_ms * MS,
            timeslices,
            voluntary_switches: Some(switches),
            is_asleep: false,
        }
    }

    fn keeper(is_asleep: bool, second: &Moment) -> Keeper {
        let first = Moment {
            is_asleep,
            voluntary_switches: Some(0),
            ..Moment::default()
        };
        Keeper::of(&first, second)
    }

    #[test]
    fn whoever_never_gave_up_its_core_waits_for_nothing_but_one() {
        // It was pushed off its core between the looks, and that wait isn't counted yet.
        assert_eq!(keeper(false, &later(0, 0, 1, 0)), Keeper::Runqueue);
        assert_eq!(keeper(false, &later(0, 1, 3, 0)), Keeper::Runqueue);
        assert_eq!(keeper(false, &later(2, 0, 0, 0)), Keeper::Cpu);
    }

    #[test]
    fn a_sleep_from_look_to_look_is_one_wait() {
        let asleep = Moment {
            is_asleep: true,
            ..later(0, 0, 0, 0)
        };
        assert_eq!(keeper(true, &asleep), Keeper::Wait { is_one: true });
        let again = Moment {
            is_asleep: true,
            ..later(0, 0, 2, 2)
        };
        assert_eq!(keeper(true, &again), Keeper::Wait { is_one: false });
    }

    #[test]
    fn short_waits_are_told_from_computing_and_from_a_busy_machine() {
        let (waits, one) = (Keeper::Wait { is_one: false }, 1);
        assert_eq!(keeper(false, &later(0, 0, one, one)), waits);
        assert_eq!(keeper(false, &later(0, 2, one, one)), Keeper::Runqueue);
        assert_eq!(keeper(false, &later(1, 0, one, one)), Keeper::Cpu);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's threads are no loops")]
    fn a_call_is_named_only_while_its_poll_goes_on() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let sleeper = thread::spawn(move || {
            let tid = nix::unistd::gettid().as_raw().unsigned_abs();
            tell.send(tid).expect("heard");
            ended.recv()
        });
        let view = ProcessView::own();
        let task = view.task(told.recv().expect("started")).expect("it lives");
        let mut namer = Namer::new(&view).expect("readable");
        while !namer
            .sight(&task)
            .expect("readable")
            .is_some_and(|seen| waits(&seen))
        {
            thread::yield_now();
        }
        let watch = Watch::new(Duration::from_millis(1));
        // A thread that moved at both looks and didn't compute: its call is looked for.
        let mut named = |goes_on: bool| {
            let glimpse = |moment| Glimpse {
                moment,
                sighting: None,
            };
            let first = Moment {
                voluntary_switches: Some(0),
                ..Moment::default()
            };
            let looks = (glimpse(first), glimpse(later(0, 0, 1, 1)));
            cause(&mut namer, &watch, &task, looks, || goes_on).expect("readable")
        };
        let seen = named(true).expect("a wait");
        assert_eq!(seen.syscall.as_deref(), Some("futex"));
        assert_eq!(named(false), None);
        end.send(()).expect("it waits");
        sleeper.join().expect("no panic").expect("told");
    }
}
