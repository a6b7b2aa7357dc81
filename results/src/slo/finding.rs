//! What was found of one objective, as reports show it: the same words everywhere.

use crate::level::Level;
use crate::wording;

/// One objective on one endpoint at one level, judged on the after version.
#[derive(Debug, Clone, PartialEq)]
pub struct SloFinding {
    /// As people write it, without the endpoint: `p95<200ms`.
    pub objective: String,
    /// The endpoint; `None` for all requests together.
    pub endpoint: Option<String>,
    /// Users or offered rate.
    pub level: Level,
    /// What the after version shows: of a percentile the median over blocks, of errors the share
    /// of all requests, of `max` the longest. In ms, or in percent of a share; `None` where nothing
    /// was measured.
    pub value: Option<f64>,
    /// The value is a bound: failures or unfinished requests reach into it.
    pub at_least: bool,
    /// Lower end of the interval, each end one-sided at α; `None` where there is none.
    pub low: Option<f64>,
    /// Upper end of the same; `None` too where failures reach into it.
    pub high: Option<f64>,
    /// What the value must stay below, in the same unit.
    pub limit: f64,
    /// Value and limit are shares in percent, and no times.
    pub is_share: bool,
    /// The same value of the before version, which nothing is judged by.
    pub before: Option<f64>,
    /// Blocks of the after version.
    pub blocks: u64,
    /// Those of them that kept the limit by themselves.
    pub blocks_within: u64,
    /// Requests behind it.
    pub requests: u64,
    /// What follows.
    pub outcome: SloOutcome,
    /// What a reader must know besides, plain text.
    pub note: Option<String>,
}

/// What follows from an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SloOutcome {
    /// The evidence excludes that it is missed.
    Met,
    /// The evidence excludes that it is met.
    Missed,
    /// Neither.
    CantTell {
        /// Pairs that would probably settle it.
        pairs_needed: Option<u32>,
        /// Requests per endpoint and block that it takes, where they are too few.
        requests_needed: Option<u64>,
    },
}

impl SloFinding {
    /// Before the first look nothing is said of what was found until then.
    pub(super) fn hold_back(&mut self, pairs: u32) {
        if matches!(self.outcome, SloOutcome::Met | SloOutcome::Missed) {
            self.outcome = SloOutcome::CantTell {
                pairs_needed: Some(pairs),
                requests_needed: None,
            };
            self.note = Some(format!("The first look comes after {pairs} pairs."));
        }
    }

    /// What it is about: `GET usage p95<200ms`, `errors<0.1%`.
    pub fn name(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{endpoint} {}", self.objective),
            None => self.objective.clone(),
        }
    }

    /// A value or limit with its unit.
    pub fn shown(&self, value: f64) -> String {
        let unit = if self.is_share { " %" } else { " ms" };
        format!("{}{unit}", wording::number(value))
    }

    /// What was found: `212 ms (205 ms to 220 ms), 248 ms before; 0 of 10 blocks below`.
    pub fn evidence(&self) -> String {
        let Some(value) = self.value else {
            return "nothing measured".to_owned();
        };
        let least = if self.at_least { "at least " } else { "" };
        let mut text = format!("{least}{}", self.shown(value));
        match (self.low, self.high) {
            (Some(low), Some(high)) => {
                text.push_str(&format!(" ({} to {})", self.shown(low), self.shown(high)));
            }
            (Some(low), None) => text.push_str(&format!(" ({} or more)", self.shown(low))),
            _ => {}
        }
        if let Some(before) = self.before {
            text.push_str(&format!(", {} before", self.shown(before)));
        }
        text.push_str(&format!(
            "; {} of {} below {}",
            wording::count(self.blocks_within),
            wording::plural(self.blocks, "block"),
            self.shown(self.limit)
        ));
        text
    }

    /// Name and level, evidence, note, for a list of reasons.
    pub fn sentence(&self, with_level: bool) -> String {
        let level = if with_level {
            format!(" at {}", self.level)
        } else {
            String::new()
        };
        let note = self
            .note
            .as_ref()
            .map_or_else(String::new, |note| format!(" {note}"));
        let what = match self.outcome {
            SloOutcome::Met => "met",
            SloOutcome::Missed => "missed",
            SloOutcome::CantTell { .. } => "neither met nor missed",
        };
        format!(
            "Objective {what}: {}{level}, {}.{note}",
            self.name(),
            self.evidence()
        )
    }
}
