//! Which block a search for capacity measures next: the rates are the search's, the order of two
//! versions is random and balanced.

use std::collections::VecDeque;
use std::time::Duration;

use unstall_bench_harness::engine::{LoadModel, OpenLoad};
use unstall_results::capacity::{self, Bounds, Capacity, Search, Step, TrialEnd};
use unstall_results::record::{self, EndpointIdentity, RunRecord};
use unstall_results::slo::Slo;
use unstall_scenarios::plan::{Arrivals, Stage};

use crate::session::{Agenda, Planned, Turn};

/// No block lasts longer for the sake of a percentile.
const BLOCK_MAX: Duration = Duration::from_secs(60);

/// Fewer requests than these, of an endpoint that is judged, are no look at all.
const LOOK_REQUESTS: f64 = 10.0;

/// How its blocks are driven.
#[derive(Debug, Clone)]
pub(crate) struct BlockShape {
    /// How arrivals are spread.
    pub(crate) arrivals: Arrivals,
    /// Least length.
    pub(crate) length: Duration,
    /// Arrivals that are served at once.
    pub(crate) in_flight_max: u32,
}

impl BlockShape {
    /// For the record.
    pub(crate) fn record(&self) -> record::OpenLoad {
        let arrivals = match self.arrivals {
            Arrivals::Poisson => "poisson",
            Arrivals::Constant => "constant",
        };
        record::OpenLoad {
            arrivals: arrivals.to_owned(),
            stages: vec![record::OpenStage {
                rate_per_second: None,
                duration_ms: u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX),
            }],
            in_flight_max: self.in_flight_max,
        }
    }
}

/// One or two searches, block by block.
#[derive(Debug)]
pub(crate) struct RateSearch {
    slo: Slo,
    endpoints: Vec<EndpointIdentity>,
    shape: BlockShape,
    seed: u64,
    arms: Vec<(&'static str, Search)>,
    /// Blocks of the record that the searches know.
    learned: usize,
    round: u32,
    /// What is left of the round.
    turns: VecDeque<Turn>,
}

impl RateSearch {
    pub(crate) fn new(
        slo: Slo,
        endpoints: Vec<EndpointIdentity>,
        bounds: Bounds,
        shape: BlockShape,
        arms: &[&'static str],
        seed: u64,
    ) -> Self {
        Self {
            slo,
            endpoints,
            shape,
            seed,
            arms: arms.iter().map(|arm| (*arm, Search::new(bounds))).collect(),
            learned: 0,
            round: 0,
            turns: VecDeque::new(),
        }
    }

    fn learn(&mut self, record: &RunRecord) {
        for block in record.blocks.iter().skip(self.learned) {
            // Those of an earlier run have their rounds already.
            self.round = self.round.max(block.pair + 1);
            let seen = capacity::read_block(&self.slo, block, &record.scenario.endpoints);
            let arms = self.arms.iter_mut();
            for (_, search) in arms.filter(|(arm, _)| *arm == block.arm) {
                search.learn(seen.trial());
            }
        }
        self.learned = record.blocks.len();
    }

    /// A block of each version. One that is known goes on beside the other, so that both meet
    /// the same machine, unless more blocks would tell nothing.
    fn plan_round(&mut self) {
        let steps: Vec<Step> = self.arms.iter().map(|(_, search)| search.step()).collect();
        if steps.iter().all(|step| matches!(step, Step::Done(_))) {
            return;
        }
        let mut due: Vec<(&'static str, f64, bool)> = Vec::new();
        for ((arm, search), step) in self.arms.iter().zip(steps) {
            let is_near = search.trials().iter().any(|of| of.end == TrialEnd::Failed);
            match step {
                Step::Measure(rate) => due.push((arm, rate, is_near)),
                Step::Done(Capacity::Found { .. }) => due.push((arm, search.rate(), is_near)),
                Step::Done(_) => {}
            }
        }
        if is_turned(self.seed, self.round) {
            due.reverse();
        }
        for (position, (arm, rate, is_near)) in (0..).zip(due) {
            self.turns.push_back(Turn {
                arm,
                pair: self.round,
                position,
                load: self.load(rate, is_near),
            });
        }
        self.round += 1;
    }

    /// Far below the capacity a short look is enough, of some requests of each endpoint; near it, percentiles have the requests
    /// from which they may be judged.
    fn load(&self, rate: f64, is_near: bool) -> LoadModel {
        let looked = self.slo.arrivals_with(LOOK_REQUESTS, &self.endpoints);
        let arrivals = if is_near {
            looked.max(self.slo.arrivals_needed(&self.endpoints))
        } else {
            looked
        };
        let needed = Duration::try_from_secs_f64(arrivals / rate)
            .map_or(BLOCK_MAX, |needed| needed.min(BLOCK_MAX));
        // Whole seconds, so that a level stands for one length.
        let seconds = needed.max(self.shape.length).as_secs_f64().ceil();
        LoadModel::Open(OpenLoad {
            arrivals: self.shape.arrivals,
            stages: vec![Stage {
                rate,
                duration: Duration::from_secs_f64(seconds),
            }],
            in_flight_max: self.shape.in_flight_max,
        })
    }
}

impl Agenda for RateSearch {
    fn next(&mut self, record: &RunRecord) -> Option<Turn> {
        self.learn(record);
        if self.turns.is_empty() {
            self.plan_round();
        }
        self.turns.pop_front()
    }

    fn planned(&self) -> Option<Planned> {
        None
    }
}

/// Whether a round begins with the second version: by chance, and the next round the other way.
fn is_turned(seed: u64, round: u32) -> bool {
    // SplitMix64's mix (Steele, Lea and Flood, 2014): neighbouring numbers give unrelated bits.
    let mut z = seed.wrapping_add(u64::from(round / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let coin = (z ^ (z >> 31)) & 1 == 1;
    coin == round.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use unstall_scenarios::catalogue;
    use unstall_scenarios::inputs::Inputs;
    use unstall_scenarios::migration::MigrationPlan;

    use super::*;
    use crate::opening;

    #[test]
    fn the_order_is_random_and_balanced() {
        let mut first = 0;
        for seed in 0..100 {
            assert_ne!(is_turned(seed, 0), is_turned(seed, 1));
            assert_ne!(is_turned(seed, 6), is_turned(seed, 7));
            first += u32::from(is_turned(seed, 4));
        }
        assert!((30..=70).contains(&first), "{first}");
    }

    #[test]
    fn blocks_near_the_capacity_have_the_requests_of_their_percentile() {
        let slo = Slo::parse("p95<1s").expect("an objective");
        let bounds = Bounds {
            from: 10.0,
            lowest: 1.0,
            highest: 100.0,
            precision: 0.05,
            trials_max: 10,
        };
        let shape = BlockShape {
            arrivals: Arrivals::Poisson,
            length: Duration::from_secs(5),
            in_flight_max: 10,
        };
        let mut endpoint = EndpointIdentity {
            name: "GET a".to_owned(),
            method: "GET".to_owned(),
            path: "/".to_owned(),
            timeout_ms: 1_000,
            judged: true,
            share: None,
        };
        let search = RateSearch::new(
            slo.clone(),
            vec![endpoint.clone()],
            bounds,
            shape.clone(),
            &["run"],
            1,
        );
        let seconds = |rate, is_near| match search.load(rate, is_near) {
            LoadModel::Open(open) => open.duration().as_secs(),
            LoadModel::Closed { .. } => 0,
        };
        assert_eq!(seconds(20.0, false), 5);
        assert_eq!(seconds(20.0, true), 20);
        assert_eq!(seconds(1_000.0, true), 5);
        assert_eq!(seconds(0.1, true), 60);
        // Slow jobs, and rare alternatives, are seen too.
        assert_eq!(seconds(0.5, false), 20);
        endpoint.share = Some(0.05);
        let rare = RateSearch::new(slo, vec![endpoint], bounds, shape, &["run"], 1);
        let rare = |rate, is_near| match rare.load(rate, is_near) {
            LoadModel::Open(open) => open.duration().as_secs(),
            LoadModel::Closed { .. } => 0,
        };
        assert_eq!((rare(10.0, false), rare(1_000.0, true)), (20, 8));
        assert_eq!(rare(1.0, false), 60);
    }

    /// Two versions, some twenty blocks each: a minute per block would take longer than all steps.
    #[test]
    fn blocks_of_the_shipped_plan_s_question_are_short() {
        let plan = MigrationPlan::shipped().expect("the shipped plan");
        let goal = plan.capacity.expect("a question");
        let slo = Slo::parse(&goal.objective).expect("an objective");
        let scenario = catalogue::open(&goal.scenario, &Inputs::default()).expect("shipped");
        crate::commands::capacity::check(&slo, &scenario).expect("about the scenario");
        let endpoints = opening::endpoints(&scenario);
        let arrivals = slo.arrivals_needed(&endpoints);
        assert!(arrivals <= 4_000.0, "{arrivals}");
    }
}
