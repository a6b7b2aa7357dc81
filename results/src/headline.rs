//! The sentence that a reader takes away, and the sentences below it.

use crate::candidate::cell_name;
use crate::comparison::{Cell, Change, Criterion, Family, Looks, Metric, Outcome, Scale, Verdict};
use crate::criteria::{phrase, values};
use crate::judge::is_beyond_limit;
use crate::need::Need;
use crate::policy::{Consequence, Policy, Unpaired};
use crate::record::StepIdentity;
use crate::saturation::Saturation;
use crate::slo::{SloFinding, SloOutcome};
use crate::wording;

mod objectives;
mod settling;

/// At most this many cells, or objectives, are named one by one.
const NAMED_MAX: usize = 5;

/// That a verdict is only a warning, if so.
pub(crate) fn warned(verdict: Verdict, consequence: Option<Consequence>) -> Option<String> {
    let what = match verdict {
        Verdict::Invalid => "an invalid measurement",
        _ => "an inconclusive comparison",
    };
    (consequence == Some(Consequence::Warn)).then(|| {
        format!("The policy makes {what} a warning: the exit code is 0, and nothing was proven.")
    })
}

/// What the sentences are about.
pub(crate) struct Findings<'a> {
    pub(crate) verdict: Verdict,
    /// What follows from it.
    pub(crate) consequence: Option<Consequence>,
    /// Rates with which a version could not keep up.
    pub(crate) saturation: &'a [Saturation],
    /// The step's criterion that does not hold or has no answer, if any.
    pub(crate) doubt: Option<&'a Criterion>,
    pub(crate) cells: &'a [Cell],
    pub(crate) slos: &'a [SloFinding],
    pub(crate) worst: Option<&'a Cell>,
    /// A latency of which nothing could be judged for want of requests.
    pub(crate) unseen: Option<&'a Cell>,
    /// The measurement was stopped before its plan was done.
    pub(crate) broke_off: bool,
    /// The new version was measured beside fewer held streams, in a sentence.
    pub(crate) beside_less: Option<String>,
    pub(crate) step: Option<&'a StepIdentity>,
    pub(crate) faults: &'a [String],
    /// Failed requests before and after.
    pub(crate) failures: (u64, u64),
    /// Successful requests before and after.
    pub(crate) successes: (u64, u64),
    pub(crate) pairs: u32,
    pub(crate) pairs_min: u32,
    pub(crate) paired: bool,
    pub(crate) policy: &'a Policy,
    /// At which of several looks.
    pub(crate) looks: Option<&'a Looks>,
    /// What would probably settle it.
    pub(crate) need: Option<&'a Need>,
}

impl Findings<'_> {
    /// One sentence in milliseconds.
    pub(crate) fn headline(&self) -> String {
        if self.verdict == Verdict::Invalid {
            let first = self.faults.first().map_or("", String::as_str);
            let (what, _) = first.split_once(';').unwrap_or((first, ""));
            return format!("Not usable: {what}");
        }
        if self.paired && self.pairs == 0 {
            return "No pair of blocks was completed, so there is nothing to compare".to_owned();
        }
        if self.successes == (0, 0) {
            return "Nothing succeeded in either arm, so there is nothing to compare".to_owned();
        }
        let mut parts = Vec::new();
        parts.extend(self.missed_in_short());
        // The lowest rate says most.
        parts.extend(
            self.saturation
                .first()
                .map(|found| found.sentence().trim_end_matches('.').to_owned()),
        );
        let lead = self.lead();
        if let Some(cell) = lead {
            parts.push(format!("{}{}{}", phrase(cell), self.at(cell), claim(cell)));
            parts.extend(
                self.companion(cell, Metric::BlockedMsPer1000)
                    .map(|blocked| format!("blocked {}", values(blocked))),
            );
        }
        parts.push(format!(
            "errors {} → {}",
            wording::count(self.failures.0),
            wording::count(self.failures.1)
        ));
        let threads = self.cells.iter().find(|cell| {
            let changed = matches!(cell.outcome, Outcome::Regression | Outcome::Improvement);
            cell.metric == Metric::Threads && changed
        });
        parts.extend(threads.map(phrase));
        let level = lead.map(|cell| cell.level);
        let cpu = self.cells.iter().find(|cell| {
            cell.metric == Metric::CpuUsPerRequest
                && cell.endpoint.is_none()
                && level.is_none_or(|level| cell.level == level)
        });
        if let Some(change) = cpu.and_then(|cell| cell.change.as_ref()) {
            parts.push(format!(
                "CPU per request {}",
                wording::change_of_ratio(change.estimate)
            ));
        }
        parts.join("; ")
    }

    /// The latency cell that stands for all: a regression first, else one of the
    /// step's own endpoints, p95 before others. Of several improvements it is the
    /// one with the weakest bound, which no choice has flattered: it can say too much only if
    /// that of the endpoint that truly gained least does, which happens with α at most.
    fn lead(&self) -> Option<&Cell> {
        let latency = || {
            self.cells.iter().filter(|cell| {
                cell.family == Family::Latency
                    && cell.outcome != Outcome::Saturated
                    && cell.before.value.is_some()
                    && cell.after.value.is_some()
            })
        };
        let worst = self
            .worst
            .filter(|cell| cell.outcome == Outcome::Regression);
        if let Some(worst) = worst.filter(|cell| cell.family == Family::Latency) {
            return latency().find(|cell| std::ptr::eq(*cell, worst));
        }
        let about = |cell: &Cell| {
            worst.is_some_and(|worst| cell.endpoint == worst.endpoint && cell.level == worst.level)
        };
        let own = |cell: &Cell| match (self.step, &cell.endpoint) {
            (Some(step), Some(endpoint)) => step.endpoints.contains(endpoint),
            _ => false,
        };
        latency().max_by(|one, other| {
            let rank = |cell: &Cell| {
                let estimated = cell.change.is_some();
                let settled = matches!(cell.outcome, Outcome::Improvement);
                let metric = match cell.metric {
                    Metric::ResponseP95 => 2,
                    Metric::ResponseP50 => 1,
                    _ => 0,
                };
                (
                    about(cell),
                    own(cell),
                    cell.judged,
                    estimated,
                    metric,
                    settled,
                )
            };
            rank(one)
                .cmp(&rank(other))
                .then_with(|| weight(one).total_cmp(&weight(other)))
        })
    }

    fn companion(&self, lead: &Cell, metric: Metric) -> Option<&Cell> {
        let find = |endpoint: &Option<String>| {
            self.cells.iter().find(|cell| {
                cell.metric == metric && cell.level == lead.level && cell.endpoint == *endpoint
            })
        };
        find(&lead.endpoint)
            .or_else(|| find(&None))
            .filter(|cell| cell.outcome != Outcome::NotMeasured)
    }

    /// The level, where there are several.
    fn at(&self, cell: &Cell) -> String {
        if self.cells.iter().any(|other| other.level != cell.level) {
            format!(" at {}", cell.level)
        } else {
            String::new()
        }
    }

    /// That the verdict is only a warning, if so, and why it is what it is, worst first.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        reasons.extend(warned(self.verdict, self.consequence));
        reasons.extend(self.why());
        reasons.extend(self.looks.map(Looks::sentence));
        reasons
    }

    fn why(&self) -> Vec<String> {
        match self.verdict {
            Verdict::Invalid => self.faults.to_vec(),
            Verdict::Regression => {
                let mut worse = self.named(|outcome| *outcome == Outcome::Regression);
                worse.extend(self.slo_sentences(|of| *of == SloOutcome::Missed));
                worse
            }
            Verdict::Inconclusive => self.why_inconclusive(),
            Verdict::Pass => {
                let number = |is: &dyn Fn(&Cell) -> bool| {
                    let cells = self.cells.iter().filter(|cell| cell.judged && is(cell));
                    cells.count() as u64
                };
                let improved = match number(&|cell| cell.outcome == Outcome::Improvement) {
                    0 => String::new(),
                    better => format!(", {} of them significantly better", wording::count(better)),
                };
                let forgiven = match number(&|cell| self.is_forgiven(cell)) {
                    0 => String::new(),
                    1 => ", 1 of them because its change is below the floor".to_owned(),
                    some => format!(
                        ", {} of them because their changes are below the floor",
                        wording::count(some)
                    ),
                };
                let mut passed = vec![format!(
                    "All {} are within their harm limits{improved}{forgiven}.",
                    wording::plural(number(&|_| true), "judged cell")
                )];
                passed.extend(self.all_met());
                passed
            }
        }
    }

    /// True where only the floor keeps a change within its limit.
    fn is_forgiven(&self, cell: &Cell) -> bool {
        let change = cell.change.as_ref();
        cell.outcome == Outcome::WithinLimit
            && change.is_some_and(|change| is_beyond_limit(cell.metric, change, cell.margin))
    }

    fn why_inconclusive(&self) -> Vec<String> {
        if !self.paired && self.policy.unpaired == Unpaired::Advise {
            return vec![
                "The records come from different sessions: whatever changed between them is in the \
                 difference, so it is advisory."
                    .to_owned(),
            ];
        }
        if self.looks.is_some_and(|looks| looks.reached.is_none()) {
            let complete = wording::plural(u64::from(self.pairs), "pair");
            return vec![format!(
                "{complete} complete, and nothing is judged before the first look."
            )];
        }
        if self.paired && self.pairs < self.pairs_min {
            return vec![format!(
                "{} complete, and fewer than {} can never show a difference.",
                wording::plural(u64::from(self.pairs), "pair"),
                self.pairs_min
            )];
        }
        if self.successes == (0, 0) {
            return vec![
                "No request succeeded in either arm: check the target, the scenario and the \
                         token first."
                    .to_owned(),
            ];
        }
        let mut named = self.named(|outcome| matches!(outcome, Outcome::Inconclusive { .. }));
        named.extend(self.unseen.map(|cell| {
            let why = cell.note.as_deref().unwrap_or_default();
            format!(
                "{}{}: no latency of it is judged. {why}",
                phrase(cell),
                self.at(cell)
            )
        }));
        named.extend(self.slo_sentences(|of| matches!(of, SloOutcome::CantTell { .. })));
        named.extend(self.beside_less.clone());
        if self.broke_off {
            named.push(format!(
                "The measurement broke off after {}: a part of it may show harm, and only the \
                 whole that there is none.",
                wording::plural(u64::from(self.pairs), "pair")
            ));
        }
        if named.is_empty() {
            return vec![
                "No cell could be judged: each has too few requests or was not measured."
                    .to_owned(),
            ];
        }
        named
    }

    fn named(&self, wanted: fn(&Outcome) -> bool) -> Vec<String> {
        let mut cells: Vec<&Cell> = self
            .cells
            .iter()
            .filter(|cell| cell.judged && wanted(&cell.outcome))
            .collect();
        cells.sort_by(|one, other| size(other).total_cmp(&size(one)));
        let rest = cells.len().saturating_sub(NAMED_MAX);
        let mut named: Vec<String> = cells
            .iter()
            .take(NAMED_MAX)
            .map(|cell| format!("{}{}{}.", phrase(cell), self.at(cell), self.evidence(cell)))
            .collect();
        if rest > 0 {
            named.push(format!(
                "And {} more.",
                wording::plural(rest as u64, "cell")
            ));
        }
        named
    }

    /// What stands behind a cell's outcome.
    fn evidence(&self, cell: &Cell) -> String {
        let Some(change) = &cell.change else {
            return cell.note.as_ref().map_or_else(String::new, |note| {
                format!(". {}", note.trim_end_matches('.'))
            });
        };
        if cell.outcome == Outcome::Regression {
            return match self.paired {
                true => format!("{}, adjusted p = {:.3}", claim(cell), change.p_regression),
                false => claim(cell),
            };
        }
        let harm = cell.margin.harm;
        let (possible, limit) = match change.scale {
            Scale::Ratio if cell.metric.larger_is_better() => {
                (change.lower_bound, 1.0 / (1.0 + harm))
            }
            Scale::Ratio => (change.upper_bound, 1.0 + harm),
            Scale::Difference => (change.upper_bound, harm),
        };
        format!(
            ": {} can't be excluded, the limit is {}",
            in_words(change, possible),
            in_words(change, limit)
        )
    }

    /// What to do now, one sentence.
    pub(crate) fn next_action(&self) -> String {
        match self.verdict {
            Verdict::Invalid => "Mend the fault named here and measure again.".to_owned(),
            Verdict::Regression if self.is_objective_alone() => self.how_to_meet(),
            Verdict::Regression if self.is_saturation_alone() => {
                let what = self.step.map_or("the change", |step| step.branch.as_str());
                format!(
                    "Hold back {what} and find out what limits it; `unstall capacity` measures \
                     the rate that each version can do."
                )
            }
            Verdict::Regression => {
                let what = self.worst.map_or_else(
                    || "the regression".to_owned(),
                    |cell| cell_name(cell.endpoint.as_deref(), cell.metric),
                );
                match self.step {
                    Some(step) => format!(
                        "Hold back {} and find out why {what} got worse.",
                        step.branch
                    ),
                    None => format!("Hold back the change and find out why {what} got worse."),
                }
            }
            Verdict::Inconclusive => self.how_to_settle(),
            Verdict::Pass => match (self.step, self.doubt) {
                (Some(step), Some(open)) if open.met.is_none() => format!(
                    "Decide on step {} by hand: its criterion {} {} has no answer ({}).",
                    step.id, open.name, open.expected, open.found
                ),
                (Some(step), Some(unmet)) => format!(
                    "Decide on step {} by hand: its criterion {} {} does not hold ({}).",
                    step.id, unmet.name, unmet.expected, unmet.found
                ),
                (Some(step), None) => {
                    format!("Keep step {}: {} may be merged.", step.id, step.branch)
                }
                (None, _) => "Keep the change.".to_owned(),
            },
        }
    }

    /// The worst that is known is that the new version can't keep up.
    fn is_saturation_alone(&self) -> bool {
        self.worst
            .is_some_and(|cell| cell.metric == Metric::Throughput && cell.change.is_none())
    }
}

/// How large a change is, worse or better, for choosing what to name.
fn size(cell: &Cell) -> f64 {
    cell.change
        .as_ref()
        .map_or(0.0, |change| match change.scale {
            Scale::Ratio => change.estimate.max(f64::MIN_POSITIVE).ln().abs(),
            Scale::Difference => change.estimate.abs(),
        })
}

/// What makes one cell lead among its equals: how little an improvement is sure to be, or how
/// large the change is that is none.
fn weight(cell: &Cell) -> f64 {
    match (&cell.change, cell.outcome) {
        (Some(change), Outcome::Improvement) => change.upper_bound,
        _ => size(cell),
    }
}

/// `, at least −83 %` where that is proven, else the interval.
fn claim(cell: &Cell) -> String {
    // A ratio to a timeout is no measurement.
    let bound = cell.before.at_least || cell.after.at_least;
    let Some(change) = cell.change.as_ref().filter(|_| !bound) else {
        return String::new();
    };
    let show = |value: f64| in_words(change, value);
    let bound = |value: f64| match change.scale {
        Scale::Ratio => wording::bound_of_ratio(value),
        Scale::Difference => wording::signed_bound(value, " points"),
    };
    match cell.outcome {
        Outcome::Improvement => format!(", at least {}", bound(change.upper_bound)),
        Outcome::Regression => format!(", at least {}", bound(change.lower_bound)),
        _ => format!(", {} to {}", show(change.low), show(change.high)),
    }
}

fn in_words(change: &Change, value: f64) -> String {
    match change.scale {
        Scale::Ratio => wording::change_of_ratio(value),
        Scale::Difference => wording::signed(value, " points"),
    }
}
