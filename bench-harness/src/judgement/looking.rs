//! A session that is judged at looks on its way, and ends at the first that settles it.

use unstall_results::compare::compare;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;

use crate::session::{Agenda, Planned, Turn, Turns};

/// Blocks that are known beforehand, of which the last ones may not be needed.
#[derive(Debug)]
pub(crate) struct Looking {
    turns: Turns,
    policy: Policy,
    /// Number of pairs at the last look.
    looked_after: u32,
}

impl Looking {
    /// The looks are those of the record.
    pub(crate) fn new(turns: Turns, policy: Policy) -> Self {
        Self {
            turns,
            policy,
            looked_after: 0,
        }
    }
}

impl Agenda for Looking {
    fn next(&mut self, record: &RunRecord) -> Option<Turn> {
        // Pairs are counted from 0: so many are over when the next one has this number.
        let over = self.turns.peek()?.pair;
        if over > self.looked_after && record.load.looks.contains(&over) {
            self.looked_after = over;
            if is_settled(record, &self.policy) {
                return None;
            }
        }
        self.turns.next(record)
    }

    fn planned(&self) -> Option<Planned> {
        self.turns.planned()
    }
}

/// Whether the session ends with these pairs.
fn is_settled(record: &RunRecord, policy: &Policy) -> bool {
    let mut so_far = record.clone();
    // The last block is whole: a record is only called interrupted while more is to come.
    so_far.interrupted = false;
    match compare(&so_far, policy) {
        Ok(comparison) => comparison.verdict.is_settled(),
        // It is judged, and the error told, when the session is over.
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::turns;
    use unstall_bench_harness::engine::{Amount, LoadModel};
    use unstall_results::design::Design;
    use unstall_results::synthetic::{EndpointSpec, record};

    /// How many pairs a session measures whose blocks are those of a synthetic record.
    fn pairs_measured(ratio: f64, spread: f64) -> usize {
        let spec = EndpointSpec {
            ratio,
            spread,
            ..EndpointSpec::new("GET a", 20.0)
        };
        let mut whole = record(1, 24, 400, &[spec]);
        whole.load.looks = vec![10, 16, 24];
        whole.interrupted = true;
        let blocks = std::mem::take(&mut whole.blocks);
        let design = Design::new(24, vec![20], 0.05, 1, 400)
            .and_then(|design| design.with_looks(vec![10, 16, 24], 0.05))
            .expect("a design");
        let load = LoadModel::Closed {
            users: 20,
            amount: Amount::PerEndpoint(400),
        };
        let turns = Turns::of(turns(&design, |_| load.clone()));
        let mut agenda = Looking::new(turns, Policy::default());
        let mut blocks = blocks.into_iter();
        while agenda.next(&whole).is_some() {
            whole.blocks.extend(blocks.next());
        }
        whole.blocks.len() / 2
    }

    #[test]
    fn a_clear_answer_ends_it_at_the_first_look() {
        assert_eq!(pairs_measured(1.5, 0.2), 10, "a regression");
        assert_eq!(pairs_measured(0.5, 0.2), 10, "a pass");
    }

    #[test]
    fn what_is_not_settled_goes_on_to_the_last_pair() {
        // No more than p95's margin, 5 %, and too noisy to exclude its limit.
        assert_eq!(pairs_measured(1.05, 0.5), 24);
    }
}
