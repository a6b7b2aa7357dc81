//! The bars: what an observer must say of a canary.

use unstall_loop_monitor::cause::{Cause, CauseClass, Frame};

use super::canary::{Canary, Nature};
use super::cell::{Cell, State};
use super::column::Column;
use super::protocol::Finished;

/// See [`Bar::MostSleeps`].
const MOST_PERCENT: u64 = 90;
/// Of fewer sleeps, which a canary made by chance, nobody can tell whether most were found.
const SLEEPS_FOR_MOST: u64 = 10;

/// What an observer says of one canary's requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Observation {
    /// Blocking that it counted, named or not.
    pub(super) blocking: u64,
    /// What it named.
    pub(super) named: Vec<Named>,
}

/// A cause, and how often it was seen.
#[derive(Debug, Clone)]
pub(super) struct Named {
    /// What.
    pub(super) cause: Cause,
    /// Times.
    pub(super) count: u64,
}

/// What an observer can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bar {
    /// Every call that slept for 200 µs or more; none where nothing blocks.
    EverySleep,
    /// At least [`MOST_PERCENT`] of them: in Python what may have been a wait for the interpreter's
    /// lock is never counted, so that now and then a sleep isn't, either.
    MostSleeps,
    /// A long sleep is named, with its class and line; none where nothing blocks.
    NamesLongSleeps,
    /// Every call, named with its class and line, however short; none where nothing blocks.
    EveryCall,
}

/// Holds what was observed against what was planted.
pub(super) fn judge(
    column: Column,
    canary: Canary,
    bar: Bar,
    finished: &Finished,
    observed: &Observation,
) -> Cell {
    let mut cell = Cell {
        calls: finished.calls,
        ..Cell::without_run(column, canary, State::Met)
    };
    match canary.nature() {
        Nature::Clean => {
            cell.false_alarms = observed.blocking;
            if observed.blocking > 0 {
                let first = observed
                    .named
                    .iter()
                    .find(|named| named.cause.class.is_blocking());
                cell.named = first.map(|named| in_words(&named.cause, canary));
                let what = cell.named.as_deref().unwrap_or("blocked time");
                let why = format!(
                    "{} false alarms in {} requests: {what}",
                    observed.blocking, cell.calls
                );
                cell.state = State::Missed(why);
            }
        }
        Nature::Sleeps(class) | Nature::MaySleep(class) => {
            let is_sure = matches!(canary.nature(), Nature::Sleeps(_));
            match bar {
                Bar::EverySleep => sleeps(&mut cell, 100, is_sure, finished, observed),
                Bar::MostSleeps => sleeps(&mut cell, MOST_PERCENT, is_sure, finished, observed),
                Bar::NamesLongSleeps => names(&mut cell, is_sure, class, observed),
                Bar::EveryCall => every_call(&mut cell, class, finished, observed),
            }
        }
    }
    cell
}

fn sleeps(
    cell: &mut Cell,
    percent: u64,
    is_sure: bool,
    finished: &Finished,
    observed: &Observation,
) {
    cell.expected = finished.slept;
    cell.found = observed.blocking;
    let is_short = observed.blocking * 100 < finished.slept * percent;
    let words = || {
        format!(
            "found {} of {} sleeps of 200 µs or more",
            observed.blocking, finished.slept
        )
    };
    let too_few = percent < 100 && !is_sure && finished.slept < SLEEPS_FOR_MOST;
    cell.state = if finished.slept == 0 && is_sure {
        State::Missed("no call slept, which this canary must: it tests nothing".to_owned())
    } else if is_short && too_few {
        State::NotJudged(format!("{}, too few to tell most of them", words()))
    } else if is_short {
        State::Missed(words())
    } else if finished.slept == 0 {
        State::NotJudged("no call slept for 200 µs".to_owned())
    } else {
        State::Met
    };
}

fn names(cell: &mut Cell, is_sure: bool, class: CauseClass, observed: &Observation) {
    let own = of_canary(cell.canary, observed);
    let right = own.iter().filter(|named| named.cause.class == class);
    cell.found = right.map(|named| named.count).sum();
    // Once is enough: how often a look falls into a sleep is the machine's business.
    cell.expected = u64::from(is_sure);
    cell.named = best(&own, class).map(|cause| in_words(cause, cell.canary));
    cell.state = if cell.found > 0 {
        State::Met
    } else if let Some(wrong) = own.first() {
        State::Missed(format!(
            "named as {}, and is {class}",
            in_words(&wrong.cause, cell.canary)
        ))
    } else if is_sure {
        State::Missed(match observed.named.first() {
            Some(other) => {
                let other = in_words(&other.cause, cell.canary);
                format!("not named; what was named is {other}")
            }
            None => "not named".to_owned(),
        })
    } else {
        State::NotJudged("over before it could be looked at".to_owned())
    };
}

fn every_call(cell: &mut Cell, class: CauseClass, finished: &Finished, observed: &Observation) {
    let own = of_canary(cell.canary, observed);
    let right = own.iter().filter(|named| named.cause.class == class);
    cell.expected = finished.calls;
    cell.found = right.map(|named| named.count).sum();
    cell.named = best(&own, class).map(|cause| in_words(cause, cell.canary));
    if cell.found < cell.expected {
        let other = own.iter().find(|named| named.cause.class != class);
        let other = other.map(|named| {
            let words = in_words(&named.cause, cell.canary);
            format!("; also {} times {words}", named.count)
        });
        cell.state = State::Missed(format!(
            "caught {} of {} calls{}",
            cell.found,
            cell.expected,
            other.unwrap_or_default()
        ));
    }
}

/// The most frequent of the right class, as it would be shown.
fn best<'a>(own: &[&'a Named], class: CauseClass) -> Option<&'a Cause> {
    let right = own.iter().filter(|named| named.cause.class == class);
    right
        .max_by_key(|named| named.count)
        .map(|named| &named.cause)
}

/// A cause, with the canary's line where it has one. Files without their folders, which are those
/// of the machine that built this program.
fn in_words(cause: &Cause, canary: Canary) -> String {
    let mut text = Cause {
        frames: Vec::new(),
        ..cause.clone()
    }
    .to_string();
    let own = cause.frames.iter().find(|frame| is_line_of(frame, canary));
    if let Some(frame) = own.or_else(|| cause.blamed()) {
        let function = frame.function.rsplit("::").next().unwrap_or_default();
        text.push_str(&format!(", from {function}"));
        if let (Some(file), Some(line)) = (&frame.file, frame.line) {
            let file = file.rsplit('/').next().unwrap_or_default();
            text.push_str(&format!(" at {file}:{line}"));
        }
    }
    text
}

/// Causes with the canary's own function, and its line, in their stack.
fn of_canary(canary: Canary, observed: &Observation) -> Vec<&Named> {
    let is_own = |named: &&Named| {
        let mut frames = named.cause.frames.iter();
        frames.any(|frame| is_line_of(frame, canary))
    };
    observed.named.iter().filter(is_own).collect()
}

fn is_line_of(frame: &Frame, canary: Canary) -> bool {
    let last = frame.function.rsplit("::").next().unwrap_or_default();
    let file = frame.file.as_deref().unwrap_or_default();
    last == canary.function()
        && frame.line.is_some()
        && (file.ends_with("selftest/planted.rs") || file.ends_with("canaries.py"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::column;

    fn finished(canary: Canary, slept: u64) -> Finished {
        Finished {
            canary,
            calls: 10,
            slept,
            error: None,
        }
    }

    fn named(function: &str, class: CauseClass, count: u64) -> Named {
        let frame = Frame {
            function: format!("unstall::selftest::planted::{function}"),
            file: Some("bench-harness/src/selftest/planted.rs".to_owned()),
            line: Some(7),
            is_own: true,
        };
        let cause = Cause {
            class,
            syscall: None,
            target: None,
            endpoint: None,
            frames: vec![frame],
        };
        Named { cause, count }
    }

    fn state(canary: Canary, bar: Bar, slept: u64, observed: &Observation) -> State {
        judge(
            column::ALL[0],
            canary,
            bar,
            &finished(canary, slept),
            observed,
        )
        .state
    }

    fn counted(blocking: u64) -> Observation {
        Observation {
            blocking,
            named: Vec::new(),
        }
    }

    #[test]
    fn every_sleep_must_be_found_and_a_canary_must_sleep() {
        let bar = Bar::EverySleep;
        assert_eq!(state(Canary::Sleep, bar, 10, &counted(10)), State::Met);
        let missed = |state| matches!(state, State::Missed(_));
        assert!(missed(state(Canary::Sleep, bar, 10, &counted(9))));
        assert!(missed(state(Canary::Sleep, bar, 0, &counted(0))));
        let unjudged = state(Canary::CachedRead, bar, 0, &counted(0));
        assert!(matches!(unjudged, State::NotJudged(_)), "{unjudged:?}");
    }

    #[test]
    fn most_sleeps_are_nine_of_ten() {
        let bar = Bar::MostSleeps;
        assert_eq!(state(Canary::Sleep, bar, 10, &counted(9)), State::Met);
        let missed = state(Canary::Sleep, bar, 10, &counted(8));
        assert!(matches!(missed, State::Missed(_)), "{missed:?}");
        let by_chance = |slept, found| state(Canary::CachedRead, bar, slept, &counted(found));
        assert!(matches!(by_chance(3, 2), State::NotJudged(_)));
        assert_eq!(by_chance(3, 3), State::Met);
        assert!(matches!(by_chance(20, 17), State::Missed(_)));
    }

    #[test]
    fn whatever_blocks_in_a_clean_canary_is_a_false_alarm() {
        for bar in [
            Bar::EverySleep,
            Bar::MostSleeps,
            Bar::NamesLongSleeps,
            Bar::EveryCall,
        ] {
            assert_eq!(state(Canary::SpinBusy, bar, 0, &counted(0)), State::Met);
            let alarm = state(Canary::SpinBusy, bar, 0, &counted(1));
            assert!(matches!(alarm, State::Missed(_)), "{bar:?}");
        }
    }

    #[test]
    fn a_name_needs_the_class_and_the_canary_s_line() {
        let with = |named| Observation {
            blocking: 1,
            named: vec![named],
        };
        let bar = Bar::NamesLongSleeps;
        let right = with(named("lock", CauseClass::Lock, 1));
        assert_eq!(state(Canary::Lock, bar, 10, &right), State::Met);
        for wrong in [
            named("lock", CauseClass::Io, 1),
            named("sleep", CauseClass::Lock, 1),
        ] {
            let state = state(Canary::Lock, bar, 10, &with(wrong));
            assert!(matches!(state, State::Missed(_)), "{state:?}");
        }
    }

    #[test]
    fn a_proof_must_catch_every_call() {
        let with = |count| Observation {
            blocking: count,
            named: vec![named("cached_read", CauseClass::Io, count)],
        };
        let bar = Bar::EveryCall;
        assert_eq!(state(Canary::CachedRead, bar, 0, &with(20)), State::Met);
        let missed = state(Canary::CachedRead, bar, 0, &with(9));
        assert!(matches!(missed, State::Missed(_)));
    }
}
