//! Whom the stalls of the loop kept waiting, in the order and the words of every format.

use unstall_results::blame::{BlamedArm, blamed};
use unstall_results::comparison::Metric;
use unstall_results::record::{Blame, RunRecord};

use crate::asides::Aside;
use crate::numbers;
use crate::{observed, vocabulary};

/// One culprit and one victim, in all arms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pair<'r> {
    /// Who held the loop.
    pub(crate) culprit: &'r str,
    /// Whose requests were under way.
    pub(crate) victim: &'r str,
    /// By arm: ms per 1 000 requests of the victim, and its share of their time; `None` where none
    /// of its requests has times.
    pub(crate) by_arm: Vec<Option<(f64, f64)>>,
    /// Where the culprit was seen for longest, if it was.
    pub(crate) line: Option<&'r str>,
}

impl Pair<'_> {
    /// The most in any arm, ms per 1 000 requests.
    pub(crate) fn worst(&self) -> f64 {
        let rates = self.by_arm.iter().flatten().map(|(rate, _)| *rate);
        rates.fold(0.0, f64::max)
    }

    /// `84.1 → 0.0 ms`-like: what became of it from arm to arm.
    pub(crate) fn rates(&self) -> Vec<String> {
        let rate = |seen: &Option<(f64, f64)>| match seen {
            Some((rate, _)) => numbers::value(Metric::BlockedMsPer1000, *rate),
            None => "–".to_owned(),
        };
        self.by_arm.iter().map(rate).collect()
    }
}

/// Every pair, the biggest rate first.
pub(crate) fn pairs(arms: &[BlamedArm]) -> Vec<Pair<'_>> {
    let sums: Vec<_> = arms.iter().map(BlamedArm::pairs).collect();
    let mut names: Vec<(&str, &str)> = sums
        .iter()
        .flat_map(|pairs| pairs.keys().copied())
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut pairs: Vec<Pair<'_>> = names
        .into_iter()
        .map(|name| {
            let (culprit, victim) = name;
            let seen = |(arm, sums): (&BlamedArm, &std::collections::BTreeMap<_, u64>)| {
                let us = sums.get(&name).copied().unwrap_or(0);
                Some((arm.ms_per_1000(us, victim)?, arm.share(us, victim)?))
            };
            Pair {
                culprit,
                victim,
                by_arm: arms.iter().zip(&sums).map(seen).collect(),
                line: line(arms, culprit, victim),
            }
        })
        .collect();
    pairs.sort_by(|a, b| b.worst().total_cmp(&a.worst()));
    pairs
}

/// The line of the longest blame that has one.
fn line<'r>(arms: &'r [BlamedArm], culprit: &str, victim: &str) -> Option<&'r str> {
    let all = arms.iter().flat_map(|arm| &arm.sum.blame);
    let of_pair = all.filter(|blame| blame.culprit == culprit && blame.victim == victim);
    let named = of_pair.filter(|blame| blame.line.is_some());
    let longest: Option<&Blame> = named.max_by_key(|blame| blame.overlapped_us);
    longest.and_then(|blame| blame.line.as_deref())
}

/// `GET usage (usage_today at src/redis.rs:17) held the loop for 84 % of the time that POST message
/// took before, 0 % after`.
pub(crate) fn sentence(arms: &[BlamedArm], pair: &Pair<'_>) -> String {
    let line = pair
        .line
        .map_or_else(String::new, |line| format!(" ({line})"));
    let loops = arms.iter().map(|arm| arm.sum.loops).max().unwrap_or(1);
    let held = match loops {
        0 | 1 => "the loop".to_owned(),
        several => format!("one of {several} loops"),
    };
    // A request doesn't wait for itself.
    let (others, victim) = match pair.culprit == pair.victim {
        true => (" with other requests of its own", "it"),
        false => ("", pair.victim),
    };
    let took = format!(" of the time that {victim} took");
    let shares: Vec<String> = arms
        .iter()
        .zip(&pair.by_arm)
        .enumerate()
        .map(|(place, (arm, seen))| {
            let share = seen.map_or_else(|| "–".to_owned(), |(_, share)| numbers::share(share));
            let took = if place == 0 { &took[..] } else { "" };
            match arms.len() {
                1 => format!("{share}{took}"),
                _ => format!("{share}{took} {}", arm.arm),
            }
        })
        .collect();
    format!(
        "{}{line} held {held}{others} for {}",
        pair.culprit,
        shares.join(", "),
    )
}

/// The worst `most` pairs in one paragraph, for the terminal and Markdown; `None` where no monitor
/// told stalls.
pub(crate) fn aside(record: &RunRecord, most: usize) -> Option<Aside> {
    let arms = blamed(record);
    let first = arms.first()?;
    let pairs = pairs(&arms);
    let shown: Vec<String> = pairs
        .iter()
        .filter(|pair| pair.worst() > 0.0)
        .take(most)
        .map(|pair| {
            let rates = pair.rates().join(" → ");
            format!("{}, {rates} per 1\u{202F}000", sentence(&arms, pair))
        })
        .collect();
    let text = match shown.is_empty() {
        true if arms.iter().any(|arm| arm.sum.unplaced > 0) => "not known".to_owned(),
        true => format!(
            "nobody, by a hold longer than {}",
            numbers::ms_from_us(first.sum.threshold_us)
        ),
        false => shown.join("; "),
    };
    Some(Aside {
        label: "Kept waiting".to_owned(),
        text,
        doubt: doubt(&arms),
    })
}

/// What is missing from the picture, if anything is.
pub(crate) fn doubt(arms: &[BlamedArm]) -> Option<String> {
    let sum = |of: fn(&BlamedArm) -> u64| observed::total(arms.iter().map(of));
    let unplaced = sum(|arm| arm.sum.unplaced);
    let untold = sum(|arm| arm.sum.requests_untold);
    let all = unplaced.saturating_add(sum(|arm| arm.sum.placed));
    let mut parts = Vec::new();
    if unplaced > 0 {
        parts.push(format!(
            "{} of {} long holds are not placed in time, because the monitor kept no more of them \
             or has another clock",
            numbers::count(unplaced),
            numbers::count(all)
        ));
    }
    if untold > 0 {
        let requests = vocabulary::plural(untold, "request was", "requests were");
        parts.push(format!("the times of {requests} not kept"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
