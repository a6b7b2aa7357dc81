//! The service's stalls in the time of a block: when its loops were held, and whom that kept waiting.
//!
//! The monitor tells the holds at the block's second edge, the engine has kept when each request was
//! under way, and both read the same clock, or else nothing is said. Nothing is asked of the service
//! meanwhile: holds that its monitor didn't keep until then are counted as not placed.

mod overlap;

use std::collections::BTreeMap;

use unstall_loop_monitor::OTHER_ENDPOINT;
use unstall_loop_monitor::wire::{HoldPart, Snapshot, Stall};
use unstall_results::record::{BLAMES_MAX, Blame, Stalls, UnderWay};
use unstall_scenarios::plan::Plan;

use crate::engine::{BlockMeasurement, UnderWay as RequestUnderWay};
use crate::monitor_client::{Edge, readable};
use crate::monitor_difference::requests_of;
use overlap::{Hold, overlaps};

/// Culprits that are told apart: more than a monitor has endpoints and lines, unless it makes them up.
const CULPRITS_MAX: usize = 512;

const OTHER_CLOCK: &str = "the service reads another monotonic clock than this machine's (another \
    machine, or a time namespace), so nobody can say whom its stalls kept waiting: run both on one \
    machine to see that";

/// What is known of a block's stalls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// For the record.
    pub(crate) stalls: Stalls,
    /// What a person should know.
    pub(crate) note: Option<String>,
}

/// Whether the monitor at this edge tells stalls, in a time that is ours.
pub(crate) fn can_be_placed(edge: &Edge) -> bool {
    edge.snapshot.stalls.is_some() && edge.has_our_clock
}

/// What one process told of its stalls between two edges, over the requests of the block between
/// them; `None` if its monitor tells none. Takes the times of the requests.
pub(crate) fn of_block(
    plan: &Plan,
    before: &Edge,
    after: &Edge,
    measurement: &mut BlockMeasurement,
) -> Option<Found> {
    let old = before.snapshot.stalls.as_ref()?;
    let new = after.snapshot.stalls.as_ref()?;
    let seen = new.seen.saturating_sub(old.seen);
    let mut stalls = Stalls {
        threshold_us: new.threshold_ns / 1_000,
        loops: after.snapshot.loops,
        ..Stalls::default()
    };
    let (Some(times), true) = (measurement.times.take(), after.has_our_clock) else {
        stalls.unplaced = seen;
        let note = (seen > 0).then(|| OTHER_CLOCK.to_owned());
        return Some(Found { stalls, note });
    };
    let told = new.told.iter().filter(|stall| stall.number > old.seen);
    stalls.unplaced = seen.saturating_sub(told.clone().count() as u64);
    let mut block = Block {
        begun_ns: measurement.started_mono_ns,
        wall_ns: u64::try_from(measurement.wall.as_nanos()).unwrap_or(u64::MAX),
        known_from_ns: 0,
    };
    block.known_from_ns = block.known_from(old.seen, seen, told.clone());
    stalls.known_from_us = block.known_from_ns.div_ceil(1_000);
    let mut culprits = Culprits::default();
    let holds: Vec<Hold> = told
        .filter_map(|stall| block.place(stall, || culprits.place_of(stall, plan, &after.snapshot)))
        .collect();
    stalls.placed = holds.len() as u64;
    stalls.by_second_us = by_second_us(&holds, block.wall_ns);
    stalls.requests_untold = times.untold;
    let requests = since(block.known_from_ns, times.kept);
    stalls.victims = victims(plan, &requests);
    let own: Vec<&[u16]> = culprits.all.iter().map(|one| &one.own[..]).collect();
    let overlaps = overlaps(holds, requests, &own);
    let blame = overlaps
        .into_iter()
        .map(|((culprit, victim), overlap)| Blame {
            culprit: culprits.all[culprit].name.clone(),
            line: culprits.all[culprit].line.clone(),
            victim: plan.requests[usize::from(victim)].name.clone(),
            requests: overlap.requests,
            overlapped_us: us(overlap.overlapped_ns),
        });
    stalls.blame = blame.collect();
    keep_the_longest(&mut stalls);
    Some(Found { stalls, note: None })
}

fn keep_the_longest(stalls: &mut Stalls) {
    stalls
        .blame
        .sort_by_key(|blame| std::cmp::Reverse(blame.overlapped_us));
    let beyond = stalls.blame.split_off(stalls.blame.len().min(BLAMES_MAX));
    stalls.blame_others_us = beyond.iter().map(|blame| blame.overlapped_us).sum();
}

/// The stretch of time that is measured.
struct Block {
    /// By the clock that both sides read.
    begun_ns: u64,
    wall_ns: u64,
    /// Holds before this were told of no more, since the begin.
    known_from_ns: u64,
}

impl Block {
    fn since_begin_ns(&self, moment_ns: u64) -> u64 {
        moment_ns.saturating_sub(self.begun_ns).min(self.wall_ns)
    }

    /// Since when all holds are known: holds are numbered as they end, so those that are lost had
    /// ended before the first one that is told.
    fn known_from<'s>(
        &self,
        old_seen: u64,
        seen: u64,
        told: impl Iterator<Item = &'s Stall>,
    ) -> u64 {
        let first = told.min_by_key(|stall| stall.number);
        match first {
            None if seen == 0 => 0,
            None => self.wall_ns,
            Some(first) if first.number == old_seen + 1 => 0,
            Some(first) => self.since_begin_ns(first.ended_ns),
        }
    }

    /// A stall since the block's begin, cut to what lies in the part of it that is known; `None` if
    /// that is nothing.
    fn place(&self, stall: &Stall, culprit: impl FnOnce() -> (usize, usize)) -> Option<Hold> {
        let began_ns = self.since_begin_ns(stall.began_ns).max(self.known_from_ns);
        let ended_ns = self.since_begin_ns(stall.ended_ns);
        if began_ns >= ended_ns {
            return None;
        }
        let (culprit, route) = culprit();
        Some(Hold {
            began_ns,
            ended_ns,
            culprit,
            route,
            // Nobody waits any more for what comes after a response.
            is_waited_for: stall.part != HoldPart::After,
        })
    }
}

/// Who held the loop: routes and tasks, each line of theirs by itself.
#[derive(Default)]
struct Culprits<'a> {
    places: BTreeMap<(&'a str, Option<&'a str>), usize>,
    all: Vec<Culprit>,
}

struct Culprit {
    name: String,
    /// The first culprit of this name: each line of a route is a culprit.
    route: usize,
    line: Option<String>,
    /// Places in the plan of the requests that may be the one that holds the loop.
    own: Vec<u16>,
}

impl<'a> Culprits<'a> {
    /// The culprit's place, and that of the first one of its name.
    fn place_of(&mut self, stall: &'a Stall, plan: &Plan, snapshot: &Snapshot) -> (usize, usize) {
        let all = &mut self.all;
        let mut key = (stall.endpoint.as_str(), stall.line.as_deref());
        if all.len() >= CULPRITS_MAX && !self.places.contains_key(&key) {
            key = (OTHER_ENDPOINT, None);
        }
        let place = *self.places.entry(key).or_insert_with(|| {
            let (route, line) = key;
            let sharing = requests_of(route, &snapshot.endpoints, plan);
            let sharing: Vec<_> = sharing.collect();
            let name = match &sharing[..] {
                [(_, request)] => request.name.clone(),
                _ => readable(route),
            };
            let own = sharing.iter();
            let own = own.filter_map(|(place, _)| u16::try_from(*place).ok());
            let same = all.iter().position(|known: &Culprit| known.name == name);
            all.push(Culprit {
                route: same.unwrap_or(all.len()),
                name,
                line: line.map(readable),
                own: own.collect(),
            });
            all.len() - 1
        });
        (place, self.all[place].route)
    }
}

/// The requests since a moment, those that were under way then cut at it.
fn since(from_ns: u64, mut requests: Vec<RequestUnderWay>) -> Vec<RequestUnderWay> {
    requests.retain(|request| from_ns == 0 || request.ended_ns > from_ns);
    for request in &mut requests {
        request.sent_ns = request.sent_ns.max(from_ns);
    }
    requests
}

/// How long at least one loop was held in each second; a hold may reach over several, and several
/// loops may be held at once.
fn by_second_us(holds: &[Hold], wall_ns: u64) -> Vec<u64> {
    const SECOND_NS: u64 = 1_000_000_000;
    // Of a day, in case that somebody's clock leaps.
    const SECONDS_MAX: u64 = 86_400;
    let seconds = wall_ns.div_ceil(SECOND_NS).min(SECONDS_MAX);
    let mut held_ns = vec![0_u64; usize::try_from(seconds).unwrap_or(0)];
    let mut holds: Vec<&Hold> = holds.iter().collect();
    holds.sort_unstable_by_key(|hold| hold.began_ns);
    let mut counted_until_ns = 0;
    for hold in holds {
        let mut from_ns = hold.began_ns.max(counted_until_ns);
        counted_until_ns = counted_until_ns.max(hold.ended_ns);
        while from_ns < hold.ended_ns {
            let second = from_ns / SECOND_NS;
            let until_ns = hold.ended_ns.min((second + 1) * SECOND_NS);
            if let Some(held) = usize::try_from(second)
                .ok()
                .and_then(|second| held_ns.get_mut(second))
            {
                *held += until_ns - from_ns;
            }
            from_ns = until_ns;
        }
    }
    held_ns.into_iter().map(us).collect()
}

fn victims(plan: &Plan, kept: &[RequestUnderWay]) -> BTreeMap<String, UnderWay> {
    let mut sums = vec![(0_u64, 0_u64); plan.requests.len()];
    for request in kept {
        let (requests, ns) = &mut sums[usize::from(request.endpoint)];
        *requests += 1;
        *ns = ns.saturating_add(request.ended_ns.saturating_sub(request.sent_ns));
    }
    let sums = plan.requests.iter().zip(sums);
    sums.filter(|(_, (requests, _))| *requests > 0)
        .map(|(request, (requests, ns))| {
            let under_way_us = us(ns);
            let sum = UnderWay {
                requests,
                under_way_us,
            };
            (request.name.clone(), sum)
        })
        .collect()
}

/// Nanoseconds to the nearest microsecond.
fn us(ns: u64) -> u64 {
    ns.saturating_add(500) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn hold(began_ms: u64, ended_ms: u64) -> Hold {
        Hold {
            began_ns: began_ms * MS,
            ended_ns: ended_ms * MS,
            culprit: 0,
            route: 0,
            is_waited_for: true,
        }
    }

    fn stall(number: u64, began_ns: u64, ended_ns: u64) -> Stall {
        Stall {
            number,
            began_ns,
            ended_ns,
            endpoint: "GET /".to_owned(),
            part: HoldPart::Handler,
            blocked_ns: None,
            line: None,
        }
    }

    #[test]
    fn a_hold_over_several_seconds_is_in_each_of_them() {
        let holds = [hold(900, 2_100), hold(2_200, 2_250)];
        assert_eq!(
            by_second_us(&holds, 2_300 * MS),
            [100_000, 1_000_000, 150_000]
        );
        assert_eq!(by_second_us(&[], 2_000 * MS), [0, 0]);
        assert_eq!(by_second_us(&[], 0), [0_u64; 0]);
    }

    #[test]
    fn a_second_is_held_for_a_second_at_most_however_many_loops_there_are() {
        let holds = [hold(500, 1_500), hold(0, 1_000), hold(100, 200)];
        let of_both = by_second_us(&holds, 2_000 * MS);
        assert_eq!(of_both, [1_000_000, 500_000]);
    }

    #[test]
    fn before_the_first_hold_that_is_told_nothing_is_known() {
        let block = Block {
            begun_ns: 1_000,
            wall_ns: 500,
            known_from_ns: 0,
        };
        let told = [stall(9, 1_250, 1_300), stall(8, 1_100, 1_200)];
        let known_from = |old_seen| block.known_from(old_seen, 5, told.iter());
        assert_eq!(known_from(7), 0, "all are told");
        assert_eq!(known_from(4), 200, "the end of the first one");
        assert_eq!(block.known_from(4, 5, [].iter()), 500);
        assert_eq!(block.known_from(4, 0, [].iter()), 0);
        let block = Block {
            known_from_ns: 200,
            ..block
        };
        let placed = |stall: &Stall| block.place(stall, || (0, 0)).map(|hold| hold.began_ns);
        assert_eq!(placed(&told[1]), None);
        assert_eq!(placed(&told[0]), Some(250));
        assert_eq!(placed(&stall(10, 1_050, 1_400)), Some(200));
    }

    #[test]
    fn requests_are_cut_where_holds_begin_to_be_known() {
        let request = |sent_ns, ended_ns| RequestUnderWay {
            sent_ns,
            ended_ns,
            endpoint: 0,
        };
        let all = vec![request(0, 40), request(10, 60), request(50, 70)];
        assert_eq!(since(0, all.clone()), all);
        assert_eq!(since(40, all), [request(40, 60), request(50, 70)]);
    }

    #[test]
    fn what_lies_outside_of_the_block_is_cut_off() {
        let block = Block {
            begun_ns: 1_000,
            wall_ns: 500,
            known_from_ns: 0,
        };
        let placed = |began_ns, ended_ns| {
            let hold = block.place(&stall(1, began_ns, ended_ns), || (0, 0));
            hold.map(|hold| (hold.began_ns, hold.ended_ns))
        };
        assert_eq!(placed(900, 1_100), Some((0, 100)));
        assert_eq!(placed(1_400, 9_000), Some((400, 500)));
        assert_eq!(placed(0, u64::MAX), Some((0, 500)));
        for (began_ns, ended_ns) in [(0, 1_000), (1_500, 1_600), (1_300, 1_200)] {
            assert_eq!(placed(began_ns, ended_ns), None);
        }
    }

    #[test]
    fn beyond_the_cap_the_longest_stay_and_the_rest_is_summed() {
        let blame = |overlapped_us| Blame {
            culprit: "a".to_owned(),
            line: None,
            victim: "b".to_owned(),
            requests: 1,
            overlapped_us,
        };
        let mut stalls = Stalls {
            blame: (1..=BLAMES_MAX as u64 + 2).map(blame).collect(),
            ..Stalls::default()
        };
        keep_the_longest(&mut stalls);
        assert_eq!(stalls.blame.len(), BLAMES_MAX);
        assert_eq!(stalls.blame[0].overlapped_us, BLAMES_MAX as u64 + 2);
        assert_eq!(stalls.blame_others_us, 1 + 2);
    }
}
