//! Whether a comparison was judged by the rule that the certificate's sessions were judged by. What
//! was counted there is the false alarms of that rule: another level, other judged cells or other
//! margins alarm more often or less.

use super::{CalibratedMargin, CellNoise, Certificate};
use crate::comparison::{Cell, Comparison};
use crate::looks::level;
use crate::policy::Policy;
use crate::wording;

/// How much of a number is still the same number, after it was written and read.
const SAME: f64 = 1e-9;

impl Certificate {
    /// In what the rule behind `comparison`, which was judged by `policy`, differs from that of the
    /// certificate's sessions; empty where its false alarms are those that were counted.
    ///
    /// Objectives are no part of it: they are of one version, and no alarm about a difference.
    pub fn other_rule(&self, comparison: &Comparison, policy: &Policy) -> Vec<String> {
        let mut found = Vec::new();
        if (self.alpha - policy.alpha).abs() > SAME {
            let (there, here) = (level(self.alpha), level(policy.alpha));
            found.push(format!("α {there} there, {here} here"));
        }
        // Of what wasn't compared nothing was judged, by whatever policy.
        let compared = comparison.cells.iter().filter(|cell| cell.change.is_some());
        let known: Vec<(&Cell, &CellNoise)> = compared
            .filter_map(|cell| {
                let noise = self.cell(cell.endpoint.as_deref(), cell.level.key(), cell.metric)?;
                Some((cell, noise))
            })
            .collect();
        let count = |is: &dyn Fn(&Cell, &CellNoise) -> bool| {
            let such = known.iter().filter(|(cell, noise)| is(cell, noise));
            such.count() as u64
        };
        let mut told = |count: u64, what: &str| {
            if count > 0 {
                found.push(format!("{} {what}", wording::plural(count, "cell")));
            }
        };
        told(
            count(&|cell, noise| cell.judged && !noise.judged),
            "judged here and not there",
        );
        told(
            count(&|cell, noise| !cell.judged && noise.judged),
            "judged there and not here",
        );
        told(
            count(&|cell, noise| {
                let both = cell.judged && noise.judged;
                both && noise.margin.is_some_and(|margin| !margin.is_of(cell))
            }),
            "with another margin or floor",
        );
        if known.iter().all(|(_, noise)| noise.margin.is_none()) && !known.is_empty() {
            found.push("margins and floors are not known of it".to_owned());
        }
        found
    }
}

impl CalibratedMargin {
    fn is_of(self, cell: &Cell) -> bool {
        let same = |one: f64, other: f64| (one - other).abs() <= SAME * one.abs().max(1.0);
        same(self.regression, cell.margin.regression) && same(self.floor, cell.margin.floor)
    }
}
