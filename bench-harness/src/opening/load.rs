//! Which load a command drives: what the command line says goes before what the scenario says,
//! and what contradicts each other is said before anything is sent.

use std::time::Duration;

use anyhow::bail;
use unstall_bench_harness::engine::{LoadModel, OpenLoad};
use unstall_results::level::Level;
use unstall_results::record;
use unstall_scenarios::plan::{self, Arrivals, Plan, Stage};

use crate::arguments::OpenArguments;

/// Arrivals per block where nobody gives a duration: enough to judge a p95.
const ARRIVALS_DEFAULT: f64 = 400.0;
/// Least length of a block where nobody gives one.
const DURATION_MIN: Duration = Duration::from_secs(10);
/// A duration is rounded up to this.
const WHOLE: Duration = Duration::from_secs(1);

/// The levels of an open load; all of them last as long.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenLevels(Vec<OpenLoad>);

/// What decides about the load, beside [`OpenArguments`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside {
    /// The command line asks for users or for a number of requests.
    pub(crate) asks_for_closed: bool,
    /// How long a block lasts, if the command line says so.
    pub(crate) duration: Option<Duration>,
}

impl OpenLevels {
    /// The open load that is asked for; `None` if it is a closed one.
    pub(crate) fn choose(
        arguments: &OpenArguments,
        beside: Beside,
        plan: &Plan,
    ) -> anyhow::Result<Option<Self>> {
        let of_scenario = own(arguments, beside, plan)?;
        let arrivals = arguments.arrivals.map(Arrivals::from);
        let in_flight_max = arguments
            .in_flight
            .unwrap_or_else(|| OpenLoad::in_flight_max_of(plan));
        let levels: Vec<OpenLoad> = match (&arguments.rate[..], of_scenario) {
            ([], None) => {
                if arguments.arrivals.is_some() || arguments.in_flight.is_some() {
                    bail!(
                        "--arrivals and --in-flight belong to an open load: give --rate or --open, \
                         or leave them out"
                    );
                }
                return Ok(None);
            }
            ([], Some(open)) => {
                if beside.duration.is_some() {
                    bail!(
                        "the scenario `{}` gives its open load stages with lengths of their own: \
                         leave --duration out, or give --rate with it",
                        plan.name
                    );
                }
                vec![OpenLoad {
                    arrivals: arrivals.unwrap_or(open.arrivals),
                    stages: open.stages.clone(),
                    in_flight_max,
                }]
            }
            (rates, _) => {
                let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
                let duration = beside.duration.unwrap_or_else(|| usual_duration(slowest));
                let usual = plan.load.open.as_ref();
                let usual = usual.map_or(Arrivals::Poisson, |open| open.arrivals);
                let level = |rate: &f64| OpenLoad {
                    arrivals: arrivals.unwrap_or(usual),
                    stages: vec![Stage {
                        rate: *rate,
                        duration,
                    }],
                    in_flight_max,
                };
                rates.iter().map(level).collect()
            }
        };
        let levels = Self(levels);
        levels.check()?;
        Ok(Some(levels))
    }

    fn check(&self) -> anyhow::Result<()> {
        let keys = self.keys();
        for (index, load) in self.0.iter().enumerate() {
            if keys[..index].contains(&keys[index]) {
                bail!(
                    "the rate {} is named twice in --rate; name it once",
                    level(load)
                );
            }
            load.schedule(0)?;
        }
        Ok(())
    }

    /// The levels as a record has them.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.0.iter().map(|load| level(load).key()).collect()
    }

    /// What a block of each level is driven with.
    pub(crate) fn loads(&self) -> impl Iterator<Item = LoadModel> {
        self.0.iter().cloned().map(LoadModel::Open)
    }

    /// The load of one of [`OpenLevels::keys`].
    pub(crate) fn load(&self, key: u32) -> Option<LoadModel> {
        let found = self.0.iter().find(|load| level(load).key() == key);
        found.cloned().map(LoadModel::Open)
    }

    /// Fewest arrivals of a block.
    pub(crate) fn arrivals_min(&self) -> u64 {
        let counts = self
            .0
            .iter()
            .filter_map(|load| Some(load.schedule(0).ok()?.count()));
        counts.min().unwrap_or(0)
    }

    /// For the record.
    pub(crate) fn record(&self) -> Option<record::OpenLoad> {
        let first = self.0.first()?;
        let has_one = self.0.len() == 1;
        let stages = first.stages.iter().map(|stage| record::OpenStage {
            rate_per_second: has_one.then_some(stage.rate),
            duration_ms: u64::try_from(stage.duration.as_millis()).unwrap_or(u64::MAX),
        });
        let arrivals = match first.arrivals {
            Arrivals::Poisson => "poisson",
            Arrivals::Constant => "constant",
        };
        Some(record::OpenLoad {
            arrivals: arrivals.to_owned(),
            stages: stages.collect(),
            in_flight_max: first.in_flight_max,
        })
    }
}

/// The scenario's open load, if that is to be driven.
fn own<'p>(
    arguments: &OpenArguments,
    beside: Beside,
    plan: &'p Plan,
) -> anyhow::Result<Option<&'p plan::OpenLoad>> {
    let own = plan.load.open.as_ref();
    if arguments.open && own.is_none() {
        bail!(
            "--open: the scenario `{}` has no open load: add `open` to its [load], or give --rate",
            plan.name
        );
    }
    let is_usual = plan.load.is_open() && !beside.asks_for_closed;
    Ok(own.filter(|_| arguments.open || is_usual))
}

fn level(load: &OpenLoad) -> Level {
    Level::of_rate(load.rate_per_second())
}

/// Long enough for a p95 at this rate, in whole seconds.
fn usual_duration(rate: f64) -> Duration {
    let seconds = (ARRIVALS_DEFAULT / rate / WHOLE.as_secs_f64()).ceil();
    // Rates from the command line are 0.001 at least, so this is far from any limit.
    DURATION_MIN.max(WHOLE.mul_f64(seconds))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unstall_scenarios::Inputs;

    use super::*;
    use crate::arguments::Spread;

    fn plan(load: &str) -> Plan {
        let text = format!(
            "name = \"test\"\ndescribe = \"test\"\n[[request]]\nname = \"GET\"\n\
             method = \"GET\"\npath = \"/\"\n{load}"
        );
        Plan::parse(&text, Path::new("test.toml"), &Inputs::default()).expect("a scenario")
    }

    const STAGED: &str = "[load]\nopen = { arrivals = \"constant\", stages = \
                          [{ rate = 50, for = \"10s\" }, { rate = 100, for = \"10s\" }] }";

    fn beside(asks_for_closed: bool, duration: Option<u64>) -> Beside {
        Beside {
            asks_for_closed,
            duration: duration.map(Duration::from_secs),
        }
    }

    fn rates(rates: &[f64]) -> OpenArguments {
        OpenArguments {
            rate: rates.to_vec(),
            ..OpenArguments::default()
        }
    }

    #[test]
    fn rates_are_levels_of_one_length() {
        let chosen = OpenLevels::choose(&rates(&[20.0, 50.0]), beside(false, None), &plan(""));
        let chosen = chosen.expect("it fits").expect("an open load");
        assert_eq!(chosen.keys(), [20_000, 50_000]);
        // 400 arrivals at the slower rate.
        assert_eq!(chosen.arrivals_min(), 400);
        let record = chosen.record().expect("levels");
        assert_eq!(
            (record.arrivals.as_str(), record.in_flight_max),
            ("poisson", 1_000)
        );
        assert_eq!(record.stages[0].duration_ms, 20_000);
        assert_eq!(record.stages[0].rate_per_second, None);
    }

    #[test]
    fn a_scenarios_stages_are_one_level_at_their_mean_rate() {
        let none = OpenArguments::default();
        let chosen = OpenLevels::choose(&none, beside(false, None), &plan(STAGED));
        let chosen = chosen.expect("it fits").expect("an open load");
        assert_eq!(chosen.keys(), [75_000]);
        assert_eq!(chosen.record().expect("a level").arrivals, "constant");
        // -c and --requests win over it.
        let closed = OpenLevels::choose(&none, beside(true, None), &plan(STAGED));
        assert_eq!(closed.expect("it fits"), None);
    }

    /// A file with both loads is closed until the open one is asked for.
    #[test]
    fn an_open_load_beside_a_closed_one_waits_to_be_asked_for() {
        let both = format!("{STAGED}\nclosed = {{ concurrency = [5] }}");
        let asked = OpenArguments {
            open: true,
            ..OpenArguments::default()
        };
        let keys = |arguments: &OpenArguments| {
            let chosen = OpenLevels::choose(arguments, beside(false, None), &plan(&both));
            chosen.expect("it fits").map(|levels| levels.keys())
        };
        assert_eq!(keys(&OpenArguments::default()), None);
        assert_eq!(keys(&asked), Some(vec![75_000]));
        // Its way of arriving is the scenario's at other rates, too.
        let chosen = OpenLevels::choose(&rates(&[5.0]), beside(false, None), &plan(&both));
        let record = chosen.expect("it fits").and_then(|levels| levels.record());
        assert_eq!(record.expect("a level").arrivals, "constant");
        let refused = OpenLevels::choose(&asked, beside(false, None), &plan(""));
        assert!(
            refused
                .expect_err("no open load")
                .to_string()
                .contains("--open")
        );
    }

    #[test]
    fn what_contradicts_each_other_is_said() {
        let refused = |arguments: &OpenArguments, duration, load| {
            let chosen = OpenLevels::choose(arguments, beside(false, duration), &plan(load));
            chosen.expect_err("a contradiction").to_string()
        };
        let spread = OpenArguments {
            arrivals: Some(Spread::Constant),
            ..OpenArguments::default()
        };
        assert!(refused(&spread, None, "").contains("give --rate"));
        assert!(refused(&rates(&[5.0, 5.0]), None, "").contains("named twice"));
        assert!(refused(&OpenArguments::default(), Some(5), STAGED).contains("--duration"));
        assert!(refused(&rates(&[0.001]), Some(1), "").contains("no arrival"));
    }
}
