//! Whom the stalls of the loop kept waiting, in the order and the words of every format.

use unstall_results::blame::{BlamedArm, blamed};
use unstall_results::comparison::Metric;
use unstall_results::record::{Blame, RunRecord};

use crate::asides::Aside;
use crate::numbers;
use crate::{observed, vocabulary};

/// A line is that of a pair if more of the pair's time than this was held there.
const MOST: f64 = 0.5;

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
    /// Where the culprit was seen for longest in the arm in which it was worst, and which part of
    /// the pair's time that is; `None` without any line.
    pub(crate) line: Option<(&'r str, f64)>,
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
            let by_arm: Vec<_> = arms.iter().zip(&sums).map(seen).collect();
            let rate = |place: usize| by_arm[place].map_or(0.0, |(rate, _)| rate);
            let worst = (0..arms.len()).max_by(|a, b| rate(*a).total_cmp(&rate(*b)));
            let line = worst.and_then(|place| {
                let all_us = sums[place].get(&name).copied()?;
                line(&arms[place], name, all_us)
            });
            Pair {
                culprit,
                victim,
                by_arm,
                line,
            }
        })
        .collect();
    pairs.sort_by(|a, b| b.worst().total_cmp(&a.worst()));
    pairs
}

/// The longest blame of a pair that has a line, and its part of the pair's time in this arm.
fn line<'r>(
    arm: &'r BlamedArm,
    (culprit, victim): (&str, &str),
    all_us: u64,
) -> Option<(&'r str, f64)> {
    let all = arm.sum.blame.iter();
    let of_pair = all.filter(|blame| blame.culprit == culprit && blame.victim == victim);
    let named = of_pair.filter(|blame| blame.line.is_some());
    let longest: &Blame = named.max_by_key(|blame| blame.overlapped_us)?;
    let part = numbers::as_f64(longest.overlapped_us) / numbers::as_f64(all_us);
    (all_us > 0).then_some((longest.line.as_deref()?, part))
}

/// `GET usage (usage_today at src/redis.rs:17) held the loop for 84 % of the time that POST message
/// took before, 0 % after`.
pub(crate) fn sentence(record: &RunRecord, arms: &[BlamedArm], pair: &Pair<'_>) -> String {
    let line = match pair.line {
        None => String::new(),
        Some((line, part)) if part > MOST => format!(" ({line})"),
        Some((line, part)) => format!(" ({} of it at {line})", numbers::share(part)),
    };
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
    let is_alone = observed::arms(record).len() <= 1;
    let shares: Vec<String> = arms
        .iter()
        .zip(&pair.by_arm)
        .enumerate()
        .map(|(place, (arm, seen))| {
            let share = seen.map_or_else(|| "–".to_owned(), |(_, share)| numbers::share(share));
            let took = if place == 0 { &took[..] } else { "" };
            match is_alone {
                true => format!("{share}{took}"),
                false => format!("{share}{took} {}", arm.arm),
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
    if arms.is_empty() {
        return None;
    }
    let pairs = pairs(&arms);
    let shown: Vec<String> = pairs
        .iter()
        .filter(|pair| pair.worst() > 0.0)
        .take(most)
        .map(|pair| {
            let rates = pair.rates().join(" → ");
            let sentence = sentence(record, &arms, pair);
            format!("{sentence}, {rates} per 1\u{202F}000")
        })
        .collect();
    let text = match shown.is_empty() {
        true => nobody(record, &arms).map_or_else(
            || "not known".to_owned(),
            |Nobody { by, .. }| format!("nobody else, {by}"),
        ),
        false => shown.join("; "),
    };
    Some(Aside {
        label: "Kept waiting".to_owned(),
        text,
        doubt: doubt(&arms),
    })
}

/// That no request but the holding one was under way in a long hold.
pub(crate) struct Nobody {
    /// `by a hold of the loop longer than 1.0 ms`, with the arms of which it is said where that
    /// isn't all of them.
    pub(crate) by: String,
    /// It is said of every arm of the record.
    pub(crate) is_of_all: bool,
}

/// Whether nobody was kept waiting, where no pair is known; `None` if that can't be said, because
/// something isn't known.
pub(crate) fn nobody(record: &RunRecord, arms: &[BlamedArm]) -> Option<Nobody> {
    let is_known = |arm: &BlamedArm| {
        let sum = &arm.sum;
        sum.unplaced == 0 && sum.requests_untold == 0 && sum.blame_others_us == 0
    };
    let first = arms.first().filter(|_| arms.iter().all(is_known))?;
    let seen: Vec<&str> = arms.iter().map(|arm| arm.arm.as_str()).collect();
    let unseen = observed::unseen(record, &seen);
    let threshold = numbers::ms_from_us(first.sum.threshold_us);
    let by = format!("by a hold of the loop longer than {threshold}");
    let is_of_all = unseen.is_empty();
    let by = match is_of_all {
        true => by,
        false => format!(
            "{by} in {} ({} had no monitor that tells holds)",
            seen.join(" and "),
            unseen.join(" and ")
        ),
    };
    Some(Nobody { by, is_of_all })
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
    if arms.iter().any(|arm| arm.sum.known_from_us > 0) {
        parts.push("shares are of the part of each block whose holds it kept".to_owned());
    }
    if untold > 0 {
        let requests = vocabulary::plural(untold, "request was", "requests were");
        parts.push(format!("the times of {requests} not kept"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
