//! Holds of a loop laid over the requests that were under way, as pure arithmetic.
//!
//! A hold and a request overlap for as long as both last. The request that holds the loop is under
//! way itself, and isn't kept waiting: of the requests of its endpoint that were sent before the hold
//! began, the first to end after it, which is nearly always the one whose answer the hold let out, or
//! else the one that was overlapped for longest. Which one it is doesn't change the sum, as long as
//! both lasted for the whole hold.
//!
//! With several loops a route may hold more than one of them at once. A request waits for it only
//! once, so what holds of one route have in common is counted for the first of them: what a route
//! did to a request is never more than the time for which that was under way.

use std::collections::BTreeMap;

use crate::engine::UnderWay;

/// One hold, in the same time as the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// Place among all culprits.
    pub(super) culprit: usize,
    /// Place of the first culprit with the same name: its holds are at different lines of one route.
    pub(super) route: usize,
    /// A client still waits for the request that holds the loop.
    pub(super) is_waited_for: bool,
}

/// What one culprit did to the requests of one endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Overlap {
    /// Requests that at least one of its holds overlapped.
    pub(super) requests: u64,
    pub(super) overlapped_ns: u64,
}

/// A request that is under way at the moment that is looked at.
struct Present {
    request: UnderWay,
    /// Culprits that it counts for already.
    counted: Vec<usize>,
    /// By route, until when its holds are counted.
    counted_until_ns: Vec<(usize, u64)>,
}

impl Present {
    /// What a hold adds to the time for which its route kept this one.
    fn takes_ns(&mut self, hold: &Hold) -> u64 {
        let of_route = |(route, _): &&mut (usize, u64)| *route == hold.route;
        let mut began_ns = hold.began_ns;
        match self.counted_until_ns.iter_mut().find(of_route) {
            Some((_, until_ns)) => {
                began_ns = began_ns.max(*until_ns);
                *until_ns = hold.ended_ns.max(*until_ns);
            }
            None => self.counted_until_ns.push((hold.route, hold.ended_ns)),
        }
        let new = Hold { began_ns, ..*hold };
        overlapped_ns(&new, &self.request)
    }
}

/// Culprit and endpoint → what they had to do with each other. `own`: by culprit, the endpoints whose
/// requests may be the one that holds the loop.
pub(super) fn overlaps(
    mut holds: Vec<Hold>,
    mut requests: Vec<UnderWay>,
    own: &[&[u16]],
) -> BTreeMap<(usize, u16), Overlap> {
    holds.sort_unstable_by_key(|hold| hold.began_ns);
    requests.sort_unstable_by_key(|request| request.sent_ns);
    let mut coming = requests.into_iter().peekable();
    let mut present: Vec<Present> = Vec::new();
    let mut sums: BTreeMap<(usize, u16), Overlap> = BTreeMap::new();
    for hold in &holds {
        while let Some(request) = coming.next_if(|one| one.sent_ns < hold.ended_ns) {
            present.push(Present {
                request,
                counted: Vec::new(),
                counted_until_ns: Vec::new(),
            });
        }
        // Later holds begin later: whoever has ended by now is of no interest to them either.
        present.retain(|one| one.request.ended_ns > hold.began_ns);
        let holder = hold
            .is_waited_for
            .then(|| holder(hold, &present, own[hold.culprit]))
            .flatten();
        for (place, one) in present.iter_mut().enumerate() {
            if Some(place) == holder {
                continue;
            }
            let overlapped_ns = one.takes_ns(hold);
            if overlapped_ns == 0 {
                continue;
            }
            let sum = sums
                .entry((hold.culprit, one.request.endpoint))
                .or_default();
            sum.overlapped_ns = sum.overlapped_ns.saturating_add(overlapped_ns);
            if !one.counted.contains(&hold.culprit) {
                one.counted.push(hold.culprit);
                sum.requests += 1;
            }
        }
    }
    sums
}

/// The place of the request that holds the loop, if it is among those under way.
fn holder(hold: &Hold, present: &[Present], own: &[u16]) -> Option<usize> {
    let candidates = || {
        let all = present.iter().map(|one| &one.request).enumerate();
        all.filter(|(_, one)| own.contains(&one.endpoint) && one.sent_ns <= hold.began_ns)
    };
    let first_after = candidates()
        .filter(|(_, one)| one.ended_ns >= hold.ended_ns)
        .min_by_key(|(_, one)| one.ended_ns);
    // Its answer was out, or its client had left, before the hold was over.
    let longest = || candidates().max_by_key(|(_, one)| one.ended_ns);
    first_after.or_else(longest).map(|(place, _)| place)
}

fn overlapped_ns(hold: &Hold, request: &UnderWay) -> u64 {
    let from_ns = hold.began_ns.max(request.sent_ns);
    hold.ended_ns.min(request.ended_ns).saturating_sub(from_ns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hold(began_ns: u64, ended_ns: u64, culprit: usize) -> Hold {
        Hold {
            began_ns,
            ended_ns,
            culprit,
            route: culprit,
            is_waited_for: true,
        }
    }

    fn request(sent_ns: u64, ended_ns: u64, endpoint: u16) -> UnderWay {
        UnderWay {
            sent_ns,
            ended_ns,
            endpoint,
        }
    }

    fn overlap(requests: u64, overlapped_ns: u64) -> Overlap {
        Overlap {
            requests,
            overlapped_ns,
        }
    }

    #[test]
    fn a_hold_keeps_waiting_whoever_is_under_way_and_not_itself() {
        // Three requests of endpoint 0, of which the one that ends at 31 holds the loop, and two
        // of endpoint 1: one comes in the middle, one is gone before.
        let requests = vec![
            request(0, 31, 0),
            request(5, 60, 0),
            request(12, 90, 0),
            request(15, 40, 1),
            request(0, 10, 1),
        ];
        let found = overlaps(vec![hold(10, 30, 0)], requests, &[&[0]]);
        let expected = [((0, 0), overlap(2, 20 + 18)), ((0, 1), overlap(1, 15))];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn a_request_counts_once_per_culprit_however_often_it_is_held_up() {
        let holds = vec![hold(0, 10, 0), hold(20, 30, 1), hold(40, 50, 0)];
        let found = overlaps(holds, vec![request(0, 100, 7)], &[&[], &[]]);
        let expected = [((0, 7), overlap(1, 20)), ((1, 7), overlap(1, 10))];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn what_nobody_waits_for_is_held_by_no_request_under_way() {
        let after = Hold {
            is_waited_for: false,
            ..hold(10, 30, 0)
        };
        let found = overlaps(vec![after], vec![request(0, 40, 0)], &[&[0]]);
        assert_eq!(found, BTreeMap::from([((0, 0), overlap(1, 20))]));
    }

    #[test]
    fn a_response_that_ends_within_the_hold_was_the_holders() {
        let requests = vec![request(0, 25, 0), request(0, 12, 0)];
        let found = overlaps(vec![hold(10, 30, 0)], requests, &[&[0]]);
        assert_eq!(found, BTreeMap::from([((0, 0), overlap(1, 2))]));
    }

    #[test]
    fn loops_that_are_held_at_once_count_once_for_each_route() {
        let holds = vec![hold(0, 100, 0), hold(10, 20, 1), hold(15, 40, 1)];
        let found = overlaps(holds, vec![request(18, 35, 3)], &[&[], &[]]);
        let expected = [((0, 3), overlap(1, 17)), ((1, 3), overlap(1, 17))];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn lines_of_one_route_share_what_they_hold_at_once() {
        let other_line = Hold {
            route: 0,
            ..hold(20, 50, 1)
        };
        let holds = vec![hold(10, 30, 0), other_line];
        let found = overlaps(holds, vec![request(0, 60, 3)], &[&[], &[]]);
        let expected = [((0, 3), overlap(1, 20)), ((1, 3), overlap(1, 20))];
        assert_eq!(found, BTreeMap::from(expected));
    }

    fn stretches(kinds: u16) -> impl Strategy<Value = Vec<(u64, u64, u16)>> {
        let stretch = (0..1_000_u64, 1..200_u64, 0..kinds);
        prop::collection::vec(stretch, 0..40)
    }

    proptest! {
        /// Against the definition: every hold with every request, moment by moment. Without owners,
        /// sums are equal; with them, at most one request of each hold is left out. No pair comes to
        /// more than the requests' time.
        #[test]
        fn sums_are_those_of_all_pairs(holds in stretches(3), requests in stretches(4)) {
            let holds: Vec<Hold> = holds
                .iter()
                .map(|(at, lasted, kind)| hold(*at, at + lasted, usize::from(*kind)))
                .collect();
            let requests: Vec<UnderWay> =
                requests.iter().map(|(at, lasted, kind)| request(*at, at + lasted, *kind)).collect();
            let mut expected: BTreeMap<(usize, u16), Overlap> = BTreeMap::new();
            for one in &requests {
                for culprit in 0..3 {
                    let of_culprit = |at: &u64| {
                        let is_held = |hold: &Hold| hold.began_ns <= *at && *at < hold.ended_ns;
                        holds.iter().any(|hold| hold.culprit == culprit && is_held(hold))
                    };
                    let both_ns = (one.sent_ns..one.ended_ns).filter(of_culprit).count() as u64;
                    if both_ns > 0 {
                        let sum = expected.entry((culprit, one.endpoint)).or_default();
                        sum.overlapped_ns += both_ns;
                        sum.requests += 1;
                    }
                }
            }
            for ((_, victim), sum) in &expected {
                let of_victim = requests.iter().filter(|one| one.endpoint == *victim);
                let under_way: u64 = of_victim.map(|one| one.ended_ns - one.sent_ns).sum();
                prop_assert!(sum.overlapped_ns <= under_way);
            }
            let none: [&[u16]; 3] = [&[]; 3];
            prop_assert_eq!(&overlaps(holds.clone(), requests.clone(), &none), &expected);
            let owned: [&[u16]; 3] = [&[0], &[1, 2], &[]];
            let left: u64 = overlaps(holds.clone(), requests.clone(), &owned)
                .values()
                .map(|sum| sum.overlapped_ns)
                .sum();
            let all: u64 = expected.values().map(|sum| sum.overlapped_ns).sum();
            let held: u64 = holds.iter().map(|hold| hold.ended_ns - hold.began_ns).sum();
            prop_assert!(left <= all && all <= left + held);
            let most = held * requests.len() as u64;
            prop_assert!(all <= most);
        }
    }
}
