//! What to do about a comparison that can't tell.

use super::Findings;
use crate::candidate::cell_name;
use crate::comparison::Outcome;
use crate::need::Need;
use crate::wording;

impl Findings<'_> {
    /// `Measure again with --pairs 24, about 9 minutes: GET usage p95 needs most.`
    fn more_pairs(&self, need: &Need) -> String {
        let time = need.minutes.map_or_else(String::new, |minutes| {
            let minutes = minutes.ceil().max(1.0) as u64;
            format!(", about {}", wording::plural(minutes, "minute"))
        });
        let most = need.cell.map_or_else(String::new, |index| {
            let cell = &self.cells[index];
            let name = cell_name(cell.endpoint.as_deref(), cell.metric);
            format!(": {name}{} needs most", self.at(cell))
        });
        format!("Measure again with --pairs {}{time}{most}.", need.pairs)
    }

    pub(super) fn how_to_settle(&self) -> String {
        if self.successes == (0, 0) && self.pairs > 0 {
            return "Make the scenario pass once by hand, then measure again.".to_owned();
        }
        if self
            .saturation
            .iter()
            .any(|found| found.before && found.after)
        {
            return "Offer less than both versions can do, or compare what they can do with \
                    `unstall capacity`."
                .to_owned();
        }
        if !self.paired {
            return "Measure both versions in one session with `unstall ab`.".to_owned();
        }
        if self.beside_less.is_some() {
            return "See the after version's log for what ended its streams, then measure again."
                .to_owned();
        }
        if let Some(requests_needed) = self.requests_needed() {
            return format!("Measure again with --requests {requests_needed}.");
        }
        if let Some(looks) = self.looks.filter(|looks| !looks.is_last()) {
            let next = looks.planned[looks.number()];
            return format!(
                "Measure again and let it run: the next look would have been after {next} pairs."
            );
        }
        if self.broke_off {
            return "Measure again and let it run to its end.".to_owned();
        }
        let cells = self.cells.iter().filter(|cell| cell.judged);
        let of_cells = cells.filter_map(|cell| match cell.outcome {
            Outcome::Inconclusive { pairs_needed } => Some(pairs_needed),
            _ => None,
        });
        let mut open = of_cells.chain(self.pairs_of_objectives());
        match self.need {
            Some(need) => self.more_pairs(need),
            None if open.all(|needed| needed.is_some()) => {
                "Measure again with more requests per endpoint.".to_owned()
            }
            None if self.has_gaps() => {
                "Mend what kept a version from being measured, then measure again.".to_owned()
            }
            None => "More pairs alone won't settle it: use more requests, a quieter machine, or a \
                     wider limit in the policy."
                .to_owned(),
        }
    }

    /// True if a judged metric is missing in some block.
    fn has_gaps(&self) -> bool {
        let pairs = self.pairs as usize;
        self.cells.iter().any(|cell| {
            let measured = [&cell.before, &cell.after].map(|arm| arm.per_block.len());
            cell.judged && measured.into_iter().any(|blocks| blocks < pairs)
        })
    }
}
