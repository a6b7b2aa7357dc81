//! Of which design a certificate is, and in what a record's differs from it.

use super::{CalibratedDesign, CalibratedMachine};
use crate::comparability::{arrivals, probe};
use crate::level::Level;
use crate::record::RunRecord;

/// A key in which a record and a certificate differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesignDifference {
    /// Its name, for people.
    pub key: &'static str,
    /// The certificate's value.
    pub certified: String,
    /// The record's.
    pub found: String,
}

/// How a key reads in a design.
type KeyOf = fn(&CalibratedDesign) -> String;

impl std::fmt::Display for DesignDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} there, {} here",
            self.key, self.certified, self.found
        )
    }
}

impl CalibratedMachine {
    /// The machine of a record.
    pub(super) fn of(record: &RunRecord) -> Self {
        let machine = &record.machine;
        Self {
            class: machine.class.clone(),
            cpu: machine.cpu.clone(),
            cores: machine.cores,
            kernel: machine.kernel.clone(),
            colocated: machine.colocated,
        }
    }

    /// What differs and must not.
    pub(super) fn hard_differences(&self, other: &Self) -> Vec<DesignDifference> {
        let placement = |of: &Self| {
            let words = if of.colocated {
                "on the same cores"
            } else {
                "elsewhere"
            };
            words.to_owned()
        };
        let differences = [
            different("machine class", self.class.clone(), other.class.clone()),
            different("service", placement(self), placement(other)),
        ];
        differences.into_iter().flatten().collect()
    }

    /// What differs and is only told.
    pub(super) fn soft_differences(&self, other: &Self) -> Vec<DesignDifference> {
        let cores = |of: &Self| of.cores.to_string();
        let differences = [
            different("CPU", self.cpu.clone(), other.cpu.clone()),
            different("cores", cores(self), cores(other)),
            different("kernel", self.kernel.clone(), other.kernel.clone()),
        ];
        differences.into_iter().flatten().collect()
    }
}

impl CalibratedDesign {
    /// The design of a record.
    pub(super) fn of(record: &RunRecord) -> Self {
        let load = &record.load;
        Self {
            scenario: record.scenario.name.clone(),
            scenario_sha256: record.scenario.sha256.clone(),
            load_model: load.model.clone(),
            levels: load.levels.clone(),
            arrivals: arrivals(load.open.as_ref()),
            requests_per_endpoint: load.requests_per_endpoint,
            warmup_per_user: load.warmup_per_user,
            warmup_ms_min: load.warmup_ms_min,
            probe: probe(record),
            state_reset: load.state_reset.clone(),
            store_round_trip_us: load.store_round_trip_us,
            access: access(record),
            pairs: load.pairs,
            looks: load.looks.clone(),
        }
    }

    /// What differs and must not: all but the number of pairs and its looks, and the bystander probe
    /// until the other one has begun, since its route may turn out not to answer.
    pub(super) fn hard_differences(&self, other: &Self, begun: bool) -> Vec<DesignDifference> {
        let keys: [(&'static str, KeyOf); 10] = [
            ("scenario", |of| of.scenario.clone()),
            ("scenario's hash", |of| of.scenario_sha256.clone()),
            ("load model", |of| of.load_model.clone()),
            ("levels", Self::levels_named),
            ("arrivals", |of| of.arrivals.clone()),
            ("requests per endpoint and block", |of| {
                of.requests_per_endpoint.to_string()
            }),
            ("warm-up", |of| {
                format!(
                    "of {} rounds per user and {} ms",
                    of.warmup_per_user, of.warmup_ms_min
                )
            }),
            ("state reset", |of| of.state_reset.clone()),
            ("stated round trip", |of| {
                let stated = of.store_round_trip_us.map(|us| format!("{us} µs"));
                stated.unwrap_or_else(|| "none".to_owned())
            }),
            ("access", |of| {
                of.access.clone().unwrap_or_else(|| "the usual".to_owned())
            }),
        ];
        let keys = keys.into_iter();
        let mut differences: Vec<DesignDifference> = keys
            .filter_map(|(key, of)| different(key, of(self), of(other)))
            .collect();
        if begun {
            let probe = different("bystander probe", self.probe.clone(), other.probe.clone());
            differences.extend(probe);
        }
        differences
    }

    fn levels_named(&self) -> String {
        let levels = self.levels.iter();
        let named: Vec<String> = levels
            .map(|level| Level::of_model(&self.load_model, *level).to_string())
            .collect();
        named.join(", ")
    }
}

/// How its versions were reached, where any of them wasn't in the usual way.
fn access(record: &RunRecord) -> Option<String> {
    let accesses = record.arms.values().filter_map(|arm| arm.access.as_ref());
    let mut named: Vec<String> = accesses
        .map(|access| {
            let words = [
                access
                    .insecure
                    .then(|| "no certificate verified".to_owned()),
                access.full_handshakes.then(|| "full handshakes".to_owned()),
                access.proxy.as_ref().map(|proxy| format!("by {proxy}")),
            ];
            words.into_iter().flatten().collect::<Vec<_>>().join(", ")
        })
        .filter(|words| !words.is_empty())
        .collect();
    named.dedup();
    (!named.is_empty()).then(|| named.join("; "))
}

/// Another major version may judge by another rule.
pub(super) fn version_difference(certified: &str, found: &str) -> Option<DesignDifference> {
    let major = |version: &str| version.split('.').next().unwrap_or(version).to_owned();
    different("unstall's major version", major(certified), major(found))
}

/// A key, where its values are not the same.
pub(super) fn different(
    key: &'static str,
    certified: String,
    found: String,
) -> Option<DesignDifference> {
    (certified != found).then_some(DesignDifference {
        key,
        certified,
        found,
    })
}
