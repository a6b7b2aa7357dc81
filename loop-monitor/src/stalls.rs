//! Holds of the loops with their times, the newest of them: who reads them can tell whom each kept
//! waiting.
//!
//! A ring that is written by polls above [`THRESHOLD_NS`] only, which have held their loop for a
//! thousand times longer than it takes to say so. Nobody waits for anybody: a slot that another
//! thread is still writing is left to it, and a reader takes no slot that changed under its eyes.
//! What is lost that way is counted, because the numbers of what is told then have a gap.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Mutex, PoisonError};

use crate::cause::Cause;
use crate::cells::Part;
use crate::endpoints::EndpointRegistry;
use crate::wire;

/// Shorter polls aren't kept: those that [`wire::HoldsOver::ms_1`] counts are.
pub(crate) const THRESHOLD_NS: u64 = 1_000_000;
/// Kept at most: a loop that does nothing but stall fills them in 16 s at least. 640 KiB.
const KEPT_MAX: usize = 16_384;
/// Lines of source that are told apart. The watcher names fewer causes.
const LINES_MAX: usize = 255;
/// Told to who doesn't say from which one on.
pub(crate) const NEWEST: u64 = 64;

/// Nothing was ever written.
const EMPTY: u64 = 0;
/// Somebody writes.
const WRITING: u64 = u64::MAX;

/// The newest stalls of one monitor.
#[derive(Debug)]
pub(crate) struct StallRing {
    /// All that there were; each one's number is the count with it.
    seen: AtomicU64,
    slots: Box<[Slot]>,
    /// Lines that the watcher named.
    lines: Mutex<Vec<Box<str>>>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Which one it holds, [`EMPTY`] or [`WRITING`].
    number: AtomicU64,
    began_ns: AtomicU64,
    ended_ns: AtomicU64,
    blocked_ns: AtomicU64,
    /// Endpoint, line and part in one word.
    what: AtomicU64,
}

/// One poll that was long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongPoll<'a> {
    /// By the monotonic clock.
    pub(crate) began_ns: u64,
    pub(crate) hold_ns: u64,
    pub(crate) blocked_ns: u64,
    /// Number in the registry.
    pub(crate) endpoint: usize,
    pub(crate) part: Part,
    /// What the watcher last saw it in.
    pub(crate) cause: Option<&'a Cause>,
}

/// Which of them are to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The last few, for a person.
    Newest,
    /// All after this number that are kept.
    After(u64),
}

impl Default for StallRing {
    fn default() -> Self {
        Self::with_room_for(KEPT_MAX)
    }
}

impl StallRing {
    fn with_room_for(kept_max: usize) -> Self {
        Self {
            seen: AtomicU64::new(0),
            slots: (0..kept_max).map(|_| Slot::default()).collect(),
            lines: Mutex::default(),
        }
    }

    /// Keeps a poll.
    pub(crate) fn note(&self, poll: LongPoll<'_>) {
        let line = poll.cause.map_or(0, |cause| self.number_of_line(cause));
        let number = self.seen.fetch_add(1, Relaxed) + 1;
        let slot = &self.slots[self.place_of(number)];
        let earlier = slot.number.load(Relaxed);
        // A thread that was off its core for a whole round of the ring: the newer one stands.
        if earlier == WRITING || earlier > number {
            return;
        }
        let claim = slot
            .number
            .compare_exchange(earlier, WRITING, Acquire, Relaxed);
        if claim.is_err() {
            return;
        }
        // No reader may see any of what follows without the claim.
        fence(Release);
        slot.began_ns.store(poll.began_ns, Relaxed);
        let ended_ns = poll.began_ns.saturating_add(poll.hold_ns);
        slot.ended_ns.store(ended_ns, Relaxed);
        slot.blocked_ns
            .store(poll.blocked_ns.min(poll.hold_ns), Relaxed);
        slot.what
            .store(packed(poll.endpoint, line, poll.part), Relaxed);
        slot.number.store(number, Release);
    }

    /// What was asked for. `blocked_known`: whether this kernel tells of sleeps.
    pub(crate) fn to_wire(
        &self,
        wanted: Wanted,
        endpoints: &EndpointRegistry,
        blocked_known: bool,
    ) -> wire::Stalls {
        let seen = self.seen.load(Acquire);
        let kept_max = self.slots.len() as u64;
        let oldest = match wanted {
            Wanted::Newest => seen.saturating_sub(NEWEST),
            Wanted::After(number) => number.max(seen.saturating_sub(kept_max)),
        };
        let lines = self.lines_so_far();
        let told = (oldest..seen).filter_map(|before| self.read(before + 1));
        let told = told.filter_map(|(number, [began_ns, ended_ns, blocked_ns, what])| {
            let (endpoint, line, part) = unpacked(what);
            Some(wire::Stall {
                number,
                began_ns,
                ended_ns,
                endpoint: endpoints.by_id(endpoint)?.key(),
                part,
                blocked_ns: blocked_known.then_some(blocked_ns),
                line: lines.get(line.wrapping_sub(1)).cloned(),
            })
        });
        wire::Stalls {
            threshold_ns: THRESHOLD_NS,
            seen,
            kept_max,
            told: told.collect(),
        }
    }

    /// Copied, so that nobody who has a line to tell waits for a reader.
    fn lines_so_far(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(ToString::to_string).collect()
    }

    /// One of them, unless it isn't there any more, or isn't there yet.
    fn read(&self, number: u64) -> Option<(u64, [u64; 4])> {
        let slot = &self.slots[self.place_of(number)];
        if slot.number.load(Acquire) != number {
            return None;
        }
        let fields =
            [&slot.began_ns, &slot.ended_ns, &slot.blocked_ns, &slot.what].map(|f| f.load(Relaxed));
        fence(Acquire);
        (slot.number.load(Relaxed) == number).then_some((number, fields))
    }

    fn place_of(&self, number: u64) -> usize {
        let place = (number - 1) % self.slots.len() as u64;
        usize::try_from(place).unwrap_or(0) // below a length, which is one
    }

    /// From 1; 0 for a cause without a line, and beyond [`LINES_MAX`].
    fn number_of_line(&self, cause: &Cause) -> usize {
        let Some(frame) = cause.blamed() else {
            return EMPTY as usize;
        };
        let line = frame.to_string();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lines.iter().position(|known| **known == *line) {
            return known + 1;
        }
        if lines.len() == LINES_MAX {
            return EMPTY as usize;
        }
        lines.push(line.into());
        lines.len()
    }
}

/// 40 bits of endpoint, 16 of line, 8 of part.
fn packed(endpoint: usize, line: usize, part: Part) -> u64 {
    let part = match part {
        Part::Handler => 0,
        Part::Body => 1,
        Part::After => 2,
    };
    (endpoint as u64) << 24 | (line as u64) << 8 | part
}

fn unpacked(what: u64) -> (usize, usize, wire::HoldPart) {
    let part = match what & 0xff {
        0 => wire::HoldPart::Handler,
        1 => wire::HoldPart::Body,
        _ => wire::HoldPart::After,
    };
    let line = (what >> 8) & 0xffff;
    ((what >> 24) as usize, line as usize, part)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use http::Method;

    use super::*;
    use crate::cause::{CauseClass, Frame};

    fn registry() -> EndpointRegistry {
        let endpoints = EndpointRegistry::new(8);
        endpoints.resolve(&Method::GET, Some("/a"));
        endpoints
    }

    fn poll(endpoints: &EndpointRegistry, began_ns: u64) -> LongPoll<'static> {
        LongPoll {
            began_ns,
            hold_ns: 2_000_000,
            blocked_ns: 1_500_000,
            endpoint: endpoints.resolve(&Method::GET, Some("/a")).id,
            part: Part::Body,
            cause: None,
        }
    }

    fn numbers(stalls: &wire::Stalls) -> Vec<u64> {
        stalls.told.iter().map(|stall| stall.number).collect()
    }

    #[test]
    fn the_newest_are_told_in_order_and_all_are_counted() {
        let endpoints = registry();
        let ring = StallRing::with_room_for(4);
        for began_ns in 1..=6 {
            ring.note(poll(&endpoints, began_ns * 10));
        }
        let told = ring.to_wire(Wanted::Newest, &endpoints, true);
        assert_eq!((told.seen, told.kept_max), (6, 4));
        assert_eq!(numbers(&told), [3, 4, 5, 6]);
        let expected = wire::Stall {
            number: 3,
            began_ns: 30,
            ended_ns: 2_000_030,
            endpoint: "GET /a".to_owned(),
            part: wire::HoldPart::Body,
            blocked_ns: Some(1_500_000),
            line: None,
        };
        assert_eq!(told.told[0], expected);
        assert_eq!(
            numbers(&ring.to_wire(Wanted::After(5), &endpoints, true)),
            [6]
        );
        assert_eq!(
            numbers(&ring.to_wire(Wanted::After(6), &endpoints, true)),
            [0_u64; 0]
        );
        // A number of another start of the process, perhaps.
        let beyond = ring.to_wire(Wanted::After(u64::MAX), &endpoints, false);
        assert_eq!((beyond.seen, numbers(&beyond)), (6, vec![]));
        let blind = ring.to_wire(Wanted::After(5), &endpoints, false);
        assert_eq!(blind.told[0].blocked_ns, None);
    }

    #[test]
    fn a_named_poll_has_its_line() {
        let endpoints = registry();
        let ring = StallRing::with_room_for(4);
        let cause = |line| Cause {
            class: CauseClass::Io,
            syscall: None,
            target: None,
            endpoint: None,
            frames: vec![Frame {
                function: "get".to_owned(),
                file: Some("src/a.rs".to_owned()),
                line: Some(line),
                is_own: true,
            }],
        };
        let causes = [cause(3), cause(4), cause(3)];
        for cause in &causes {
            ring.note(LongPoll {
                cause: Some(cause),
                ..poll(&endpoints, 1)
            });
        }
        ring.note(poll(&endpoints, 1));
        let told = ring.to_wire(Wanted::Newest, &endpoints, true).told;
        let lines: Vec<_> = told.iter().map(|stall| stall.line.as_deref()).collect();
        let (three, four) = ("get at src/a.rs:3", "get at src/a.rs:4");
        assert_eq!(lines, [Some(three), Some(four), Some(three), None]);
    }

    /// Whatever is read was written as a whole by one thread.
    #[test]
    fn nothing_that_is_told_is_torn() {
        const POLLS: u64 = 20_000;
        let endpoints = registry();
        let ring = StallRing::with_room_for(8);
        thread::scope(|threads| {
            for writer in 1..=2 {
                let (ring, endpoints) = (&ring, &endpoints);
                threads.spawn(move || {
                    for poll_number in 0..POLLS {
                        let value = poll_number * 2 + writer;
                        ring.note(LongPoll {
                            hold_ns: value,
                            blocked_ns: value,
                            ..poll(endpoints, value)
                        });
                    }
                });
            }
            for _ in 0..2_000 {
                for stall in ring.to_wire(Wanted::Newest, &endpoints, true).told {
                    let value = stall.began_ns;
                    assert_eq!((stall.ended_ns, stall.blocked_ns), (2 * value, Some(value)));
                }
            }
        });
        let told = ring.to_wire(Wanted::Newest, &endpoints, true);
        assert_eq!(told.seen, 2 * POLLS);
        assert!(!told.told.is_empty());
    }
}
