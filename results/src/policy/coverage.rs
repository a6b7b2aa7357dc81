//! A policy against the records that it is to judge: what matches nothing, and what another rule
//! makes void, is a mistake and no silence.

use std::collections::BTreeSet;

use super::error::{PolicyError, listed, meant, nearest};
use super::rule::is_described;
use super::{LIMIT_FIX, Place, Policy, Rule, SloRule, is_only_shown, limit_not_above};
use crate::candidate::{OF_AN_ENDPOINT, OF_THE_SERVICE, cell_name};
use crate::comparison::Metric;
use crate::level::Level;
use crate::measure::reading;
use crate::record::{EndpointIdentity, Load, RunRecord, ScenarioIdentity};
use crate::slo;

/// What a policy may be about: a record, or what one will hold.
struct Ground<'r> {
    scenario: &'r ScenarioIdentity,
    load: &'r Load,
    /// `None` before anything is measured: whatever can be measured may be.
    record: Option<&'r RunRecord>,
}

/// One cell that there is.
struct Known<'r> {
    endpoint: Option<&'r EndpointIdentity>,
    route: Option<String>,
    metric: Metric,
}

impl Policy {
    /// Holds the policy against all the records that it is to judge together: each rule, SLO and
    /// metric that it names must match something in one of them, no rule may be overridden
    /// everywhere by later ones, and each limit must lie above its margin.
    ///
    /// # Errors
    /// [`PolicyError`] with the place in the file, the names there are and the nearest one.
    pub fn check(&self, records: &[&RunRecord]) -> Result<(), PolicyError> {
        let grounds = records.iter().map(|record| Ground {
            scenario: &record.scenario,
            load: &record.load,
            record: Some(record),
        });
        self.check_on(&grounds.collect::<Vec<_>>())
    }

    /// The same before anything is measured: whatever a scenario's endpoints can have is taken
    /// as there.
    ///
    /// # Errors
    /// As for [`Self::check`].
    pub fn check_plans(&self, plans: &[(&ScenarioIdentity, &Load)]) -> Result<(), PolicyError> {
        let grounds = plans.iter().map(|(scenario, load)| Ground {
            scenario,
            load,
            record: None,
        });
        self.check_on(&grounds.collect::<Vec<_>>())
    }

    fn check_on(&self, grounds: &[Ground<'_>]) -> Result<(), PolicyError> {
        let known: Vec<Known<'_>> = grounds.iter().flat_map(Ground::cells).collect();
        let measured: BTreeSet<Metric> = known.iter().map(|cell| cell.metric).collect();
        for (metric, place) in &self.judge_places {
            if !measured.contains(metric) {
                return Err(self.unmeasured(*place, metric.name(), &measured));
            }
        }
        for rule in &self.rules {
            if !known.iter().any(|cell| rule.covers(cell)) {
                return Err(self.matches_nothing(rule, grounds, &measured));
            }
        }
        for (index, rule) in self.rules.iter().enumerate() {
            self.has_effect(index, rule, &known)?;
        }
        for ground in grounds {
            self.limits_are_above(ground)?;
        }
        for slo in &self.slos {
            self.slo_matches(slo, grounds)?;
        }
        Ok(())
    }

    fn error(&self, place: Place, message: String, fix: String) -> PolicyError {
        PolicyError {
            origin: self.origin.clone(),
            line: place.line,
            column: place.column,
            message,
            fix,
        }
    }

    fn unmeasured(&self, place: Place, name: &str, measured: &BTreeSet<Metric>) -> PolicyError {
        let names = || measured.iter().map(|metric| metric.name());
        let near = nearest(name, names()).map_or_else(String::new, |near| {
            format!(", or write `{near}` if that was meant")
        });
        self.error(
            place,
            format!(
                "`{name}` is not in the record, which has {}",
                listed(names())
            ),
            format!("measure it (its metric needs a stream, a monitor, a probe or a process to look at), take it out{near}"),
        )
    }

    fn matches_nothing(
        &self,
        rule: &Rule,
        grounds: &[Ground<'_>],
        measured: &BTreeSet<Metric>,
    ) -> PolicyError {
        let is_there = |metric: &&Metric| rule.is_about_metric(**metric);
        let metrics = rule.metric.as_ref().map_or("", |glob| glob.as_str());
        let Some(glob) = rule.endpoint.as_ref() else {
            return self.unmeasured(rule.place, metrics, measured);
        };
        let endpoints = || grounds.iter().flat_map(|ground| &ground.scenario.endpoints);
        if !endpoints().any(|of| is_described(glob, Some(&of.name), Some(&route(of)))) {
            return self.no_endpoint(rule.place, glob.as_str(), grounds);
        }
        if !measured.iter().any(|metric| is_there(&metric)) {
            return self.unmeasured(rule.place, metrics, measured);
        }
        let own: BTreeSet<Metric> = OF_AN_ENDPOINT.into_iter().collect();
        if own.iter().any(|metric| is_there(&metric)) {
            return self.error(
                rule.place,
                format!("`{metrics}` is measured, but on no endpoint that `{glob}` matches"),
                "widen one of the two globs, or take the rule out".to_owned(),
            );
        }
        self.error(
            rule.place,
            format!("`{metrics}` is of the whole service and of no endpoint"),
            "leave `endpoint` out".to_owned(),
        )
    }

    fn no_endpoint(&self, place: Place, wanted: &str, grounds: &[Ground<'_>]) -> PolicyError {
        let names = names(grounds);
        let shown = || names.iter().map(String::as_str);
        self.error(
            place,
            format!(
                "`{wanted}` matches no endpoint, expected one of {}, or a glob over them",
                listed(shown())
            ),
            meant(wanted, shown()),
        )
    }

    /// A rule has effect where something that it says is not said again by a later one.
    fn has_effect(
        &self,
        index: usize,
        rule: &Rule,
        known: &[Known<'_>],
    ) -> Result<(), PolicyError> {
        let mut winners = BTreeSet::new();
        for cell in known.iter().filter(|cell| rule.covers(cell)) {
            let later = || self.rules[index + 1..].iter().filter(|of| of.covers(cell));
            let parts: [fn(&Rule) -> bool; 3] = [
                |of| of.margin.is_some(),
                |of| of.limit.is_some(),
                |of| of.floor.is_some(),
            ];
            let decides = |of: &Rule| of.judged.is_some();
            if rule.judged.is_some() && !is_only_shown(cell.endpoint, cell.metric) {
                match later().find(|of| decides(of)) {
                    Some(winner) => winners.insert(winner.place.line),
                    None => return Ok(()),
                };
            }
            for says in parts.into_iter().filter(|says| says(rule)) {
                match later().find(|of| says(of)) {
                    Some(winner) => winners.insert(winner.place.line),
                    None => return Ok(()),
                };
            }
        }
        if winners.is_empty() {
            return Err(self.error(
                rule.place,
                "the scenario wants the times of these endpoints shown and not judged, so \
                 `judged` changes nothing"
                    .to_owned(),
                "take the rule out, or let the scenario judge them".to_owned(),
            ));
        }
        let lines: Vec<String> = winners.iter().map(usize::to_string).collect();
        let s = if lines.len() == 1 { "" } else { "s" };
        Err(self.error(
            rule.place,
            format!(
                "{} is void: later rules say the same of all that it matches (line{s} {})",
                rule.title,
                lines.join(", ")
            ),
            "put it behind them, since the last rule has its way, or take it out".to_owned(),
        ))
    }

    /// Margin and limit may come from different rules.
    fn limits_are_above(&self, ground: &Ground<'_>) -> Result<(), PolicyError> {
        let policy = self.for_scenario(ground.scenario);
        for cell in ground.cells() {
            let name = cell.endpoint.map(|endpoint| endpoint.name.as_str());
            let margin = policy.margin(name, cell.metric);
            if margin.harm > margin.regression {
                continue;
            }
            let of_both = |of: &&Rule| of.covers(&cell) && (of.margin.or(of.limit)).is_some();
            // Defaults go together, so a rule has broken them.
            let Some(last) = self.rules.iter().rfind(of_both) else {
                continue;
            };
            return Err(self.error(
                last.place,
                format!(
                    "of {} {}",
                    cell_name(name, cell.metric),
                    limit_not_above(&margin, cell.metric.scale())
                ),
                LIMIT_FIX.to_owned(),
            ));
        }
        Ok(())
    }

    fn slo_matches(&self, rule: &SloRule, grounds: &[Ground<'_>]) -> Result<(), PolicyError> {
        let levels = || grounds.iter().flat_map(|ground| ground.levels());
        if !levels().any(|level| rule.is_at(level)) {
            let shown: BTreeSet<String> = levels().map(|level| level.to_string()).collect();
            return Err(self.error(
                rule.place,
                format!(
                    "no load has the level {}, expected one of {}",
                    rule.level.unwrap_or_default(),
                    listed(shown.iter().map(String::as_str))
                ),
                "name the number of one of these, or leave `level` out".to_owned(),
            ));
        }
        if let Some(glob) = &rule.endpoint {
            let endpoints = || grounds.iter().flat_map(|ground| &ground.scenario.endpoints);
            if !endpoints().any(|of| is_described(glob, Some(&of.name), Some(&route(of)))) {
                return Err(self.no_endpoint(rule.place, glob.as_str(), grounds));
            }
        }
        let mut refused = None;
        for ground in grounds {
            let endpoints = &ground.scenario.endpoints;
            match rule.slo.check(endpoints, |name| ground.streams(name)) {
                Err(why) => refused = refused.or(Some(why)),
                Ok(()) if self.applies(rule, ground) => return Ok(()),
                Ok(()) => {}
            }
        }
        let why = refused
            .unwrap_or_else(|| format!("`{}` is about nothing that the record has", rule.slo));
        Err(self.error(
            rule.place,
            why,
            "name what the scenario has, or take it out".to_owned(),
        ))
    }

    /// Each of its objectives is about something there.
    fn applies(&self, rule: &SloRule, ground: &Ground<'_>) -> bool {
        let streams = |name: &str| ground.streams(name);
        let objectives = rule.slo.objectives().iter();
        objectives.clone().all(|objective| {
            let subjects = slo::subjects(rule, objective, ground.scenario, &streams);
            !subjects.is_empty()
        })
    }
}

impl Rule {
    fn covers(&self, cell: &Known<'_>) -> bool {
        let name = cell.endpoint.map(|endpoint| endpoint.name.as_str());
        self.is_about(name, cell.route.as_deref()) && self.is_about_metric(cell.metric)
    }
}

impl<'r> Ground<'r> {
    fn cells(&self) -> Vec<Known<'r>> {
        let endpoints = self.scenario.endpoints.iter();
        let own = endpoints.flat_map(|of| OF_AN_ENDPOINT.map(|metric| (Some(of), metric)));
        let service = OF_THE_SERVICE.map(|metric| (None, metric));
        own.chain(service)
            .filter(|(endpoint, metric)| self.has(*endpoint, *metric))
            .map(|(endpoint, metric)| Known {
                endpoint,
                route: endpoint.map(route),
                metric,
            })
            .collect()
    }

    fn has(&self, endpoint: Option<&EndpointIdentity>, metric: Metric) -> bool {
        self.record.is_none_or(|record| {
            let mut blocks = record.blocks.iter();
            blocks.any(|block| reading(block, endpoint, metric).is_some())
        })
    }

    fn levels(&self) -> impl Iterator<Item = Level> {
        let levels = self.load.levels.iter();
        levels.map(|level| Level::of(self.load, *level))
    }

    fn streams(&self, name: &str) -> bool {
        self.record
            .is_none_or(|record| slo::is_streamed(&record.blocks, name))
    }
}

/// `METHOD /path`.
fn route(of: &EndpointIdentity) -> String {
    format!("{} {}", of.method, of.path)
}

/// Every name by which an endpoint may be called.
fn names(grounds: &[Ground<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    for endpoint in grounds.iter().flat_map(|of| &of.scenario.endpoints) {
        for name in [endpoint.name.clone(), route(endpoint)] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}
