//! What a watch has seen, added up over its loops.

use std::collections::HashMap;

use super::judge::Judge;
use super::ledger::{Charge, Tally};
use super::runtime::Runtime;
use super::watched_thread::WatchedThread;
use crate::cause::{Cause, CauseClass, how_to_get_lines};
use crate::watched::{
    SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME, SleepSource, WatchSummary, WatchedCause, WatchedLoop,
};
use crate::wire::Schema;

/// The parts of a watch that a summary is made of.
pub(super) struct Parts<'a> {
    pub(super) pid: u32,
    pub(super) command: &'a str,
    pub(super) duration_ns: u64,
    pub(super) threads: &'a [WatchedThread],
    pub(super) judge: &'a mut Judge,
    pub(super) ended: Option<&'a str>,
}

impl Parts<'_> {
    /// Adds up.
    pub(super) fn summary(self) -> WatchSummary {
        let told = self.threads.iter().all(WatchedThread::is_told);
        let mut causes: HashMap<usize, Tally> = HashMap::new();
        let mut shared = Tally::default();
        let mut loops = Vec::with_capacity(self.threads.len());
        for thread in self.threads {
            let totals = thread.totals();
            shared.count += totals.shared.count;
            shared.total_ns += totals.shared.total_ns;
            let mut watched = WatchedLoop {
                thread_id: thread.task.tid(),
                name: thread.name.clone(),
                idle_ns: 0,
                running_ns: totals.running_ns,
                runqueue_ns: totals.runqueue_ns,
                gil_ns: 0,
                blocked_ns: 0,
            };
            for (charge, tally) in totals.sleeps {
                match resolve(self.judge, charge, thread.own_events) {
                    Charge::Idle => watched.idle_ns += tally.total_ns,
                    Charge::Gil => watched.gil_ns += tally.total_ns,
                    Charge::Machine => watched.runqueue_ns += tally.total_ns,
                    Charge::Cause(number) => {
                        watched.blocked_ns += tally.total_ns;
                        join(causes.entry(number).or_default(), tally);
                    }
                    Charge::Site(_) | Charge::Told(..) | Charge::Unknown => {
                        watched.blocked_ns += tally.total_ns;
                        let unknown = self.judge.nameless(CauseClass::Unknown);
                        join(causes.entry(unknown).or_default(), tally);
                    }
                }
            }
            loops.push(watched);
        }
        let mut notes = self.notes(shared);
        let named = causes.keys().map(|number| self.judge.cause(*number));
        if let Some(words) = how_to_get_lines(named) {
            notes.push(format!("No source lines: {words}."));
        }
        notes.sort();
        let sleeps_by = if told {
            SleepSource::Switches
        } else {
            SleepSource::Looks
        };
        WatchSummary {
            schema: Schema {
                name: SCHEMA_NAME.to_owned(),
                major: SCHEMA_MAJOR,
                minor: SCHEMA_MINOR,
            },
            pid: self.pid,
            command: self.command.to_owned(),
            runtime: self.judge.runtime.name().to_owned(),
            duration_ns: self.duration_ns,
            sleeps_by,
            looks: self.judge.looks,
            loops,
            causes: ranked(|number| self.judge.cause(number).clone(), causes),
            notes,
        }
    }

    fn notes(&self, shared: Tally) -> Vec<String> {
        let mut notes: Vec<String> = self.ended.map(str::to_owned).into_iter().collect();
        let mut note = |text: &str| notes.push(text.to_owned());
        let threads = self.threads;
        if !threads.iter().all(WatchedThread::is_told) {
            note(&untold(threads));
        } else if !threads.iter().all(WatchedThread::is_told_places) {
            note(
                "The kernel told when the loops slept, and not where, so sleeps that ended before \
                 a look are counted like those that were seen. To know the call of each, run with \
                 CAP_PERFMON or with `sysctl kernel.perf_event_paranoid=1` or less.",
            );
        }
        let judge = &self.judge;
        if let Some(reason) = &judge.python_refusal {
            note(&format!("Python's source lines couldn't be read: {reason}"));
        }
        if judge
            .python
            .as_ref()
            .is_some_and(|python| !python.knows_its_lock())
        {
            note(
                "Where the interpreter lock is couldn't be found out (no symbol _PyRuntime), so \
                 waits for it are counted as locks.",
            );
        }
        runtime_note(judge).into_iter().for_each(&mut note);
        let lost: u64 = threads.iter().map(|thread| thread.lost).sum();
        if lost > 0 {
            note(&format!(
                "{lost} switches were lost, since this program was too slow."
            ));
        }
        if shared.count > 0 {
            let (count, ms) = (shared.count, shared.total_ns / 1_000_000);
            let how = if threads.iter().all(WatchedThread::is_told_places) {
                "The kernel told each one's call and its object; its source line is taken from \
                 those that were seen at the same call on the same object."
            } else {
                "Their time is shared out over what was seen at the same place of the program, or, \
                 where the place isn't known, over all that was seen."
            };
            note(&format!(
                "{count} sleeps ({ms} ms) ended before they were looked at. {how}"
            ));
        }
        notes
    }
}

/// What isn't seen of this runtime.
fn runtime_note(judge: &Judge) -> Option<&'static str> {
    Some(match judge.runtime {
        Runtime::Tokio if !judge.knows_tokio => {
            "No function of Tokio was found on any stack; symbols seem to be stripped. \
                 Workers that never waited for events aren't known, and a worker that waits for a \
                 lock can't be told from an idle one. Build with `strip = \"none\"` in the profile."
        }
        Runtime::Tokio => {
            "Not watched: the thread that runs `block_on` of a multi-thread runtime, and \
                 threads of the blocking pool."
        }
        Runtime::Node if judge.v8.is_none() => {
            "Node's functions couldn't be read (its program has no symbols v8dbg_…); stacks \
                 show native code only. Not watched: worker threads of Node."
        }
        Runtime::Node => {
            "A line of JavaScript is where its function begins. Not watched: worker threads of \
                 Node."
        }
        Runtime::Asyncio | Runtime::Uvloop | Runtime::Unknown => return None,
    })
}

fn resolve(judge: &mut Judge, charge: Charge, own_events: Option<u64>) -> Charge {
    match charge {
        Charge::Site(site) => judge.charge_of(site, own_events),
        // Where the loop waits for events may have been found out since.
        Charge::Told(site, cause) => judge
            .harmless_at(site, own_events)
            .unwrap_or(Charge::Cause(cause)),
        charge => charge,
    }
}

fn join(into: &mut Tally, tally: Tally) {
    into.count += tally.count;
    into.total_ns += tally.total_ns;
    into.longest_ns = into.longest_ns.max(tally.longest_ns);
}

/// The longest in sum first.
fn ranked(cause_of: impl Fn(usize) -> Cause, causes: HashMap<usize, Tally>) -> Vec<WatchedCause> {
    let mut ranked: Vec<WatchedCause> = causes
        .into_iter()
        // Nothing but the way back to a core: not kept at all.
        .filter(|(_, tally)| tally.total_ns > 0)
        .map(|(number, tally)| WatchedCause {
            cause: cause_of(number),
            count: tally.count,
            total_ns: tally.total_ns,
            longest_ns: tally.longest_ns.min(tally.total_ns),
        })
        .collect();
    ranked.sort_by(|a, b| (b.total_ns.cmp(&a.total_ns)).then_with(|| a.cause.cmp(&b.cause)));
    ranked
}

/// Of loops whose sleeps the kernel didn't tell: why, and what to do.
fn untold(threads: &[WatchedThread]) -> String {
    let untold = threads.iter().filter(|thread| !thread.is_told()).count();
    let refusal = threads.iter().find_map(|thread| thread.refusal.as_ref());
    let why = refusal.map_or_else(String::new, |error| format!(" ({error})"));
    format!(
        "The kernel didn't tell when {untold} of {} loops slept{why}, so they were looked at about \
         1000 times per second: sleeps of less than 1 ms are missed or counted as one. To count \
         all, allow perf events: `sysctl kernel.perf_event_paranoid=2` or less, or run with \
         CAP_PERFMON; in a container its seccomp profile must allow perf_event_open. Where they are \
         allowed, so many loops need more locked memory: `ulimit -l`, kernel.perf_event_mlock_kb.",
        threads.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_no_time_is_no_cause() {
        let cause_of = |number| Cause {
            class: [CauseClass::Lock, CauseClass::Io, CauseClass::Sleep][number],
            syscall: None,
            target: None,
            endpoint: None,
            frames: Vec::new(),
        };
        let tally = |total_ns| Tally {
            count: 1,
            total_ns,
            longest_ns: 90,
        };
        let causes = HashMap::from([(0, tally(0)), (1, tally(50)), (2, tally(100))]);
        let ranked = ranked(cause_of, causes);
        let told: Vec<(CauseClass, u64)> = ranked
            .iter()
            .map(|seen| (seen.cause.class, seen.longest_ns))
            .collect();
        assert_eq!(told, [(CauseClass::Sleep, 90), (CauseClass::Io, 50)]);
    }
}
