//! The certificate of a machine: what the rule said here of a version against itself, how much the
//! numbers scatter, and the smallest worsening that a design would have found.
//!
//! It is made of sessions in which both arms ran the same version ([`certify`]), kept as a file,
//! and read again by whoever judges a record of the same machine, scenario and design: a limit that
//! this machine can't see is told as a blind spot, and where identical code alarms more often than
//! α allows, no verdict is worth anything ([`Certificate::apply`]).

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::comparison::{Family, Metric, Verdict};

mod binomial;
mod certify;
mod design;
mod noise;
mod reach;
mod resampled;
mod rule;
mod sight;

pub use certify::{CertifyError, certify, is_of_a_kind, minutes};
pub use design::DesignDifference;
pub use sight::{BlindSpot, CertificateMisfit};

/// The schema name that every certificate carries.
pub const SCHEMA_NAME: &str = "unstall-calibration";
/// Bumped when a field changes its meaning or disappears.
pub const SCHEMA_MAJOR: u32 = 1;
/// Bumped when a field is added.
pub const SCHEMA_MINOR: u32 = 1;

/// What a version against itself showed of a machine, a scenario and a design.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// Name and version of this format.
    pub schema: CertificateSchema,
    /// When the last of its sessions began: RFC 3339, UTC.
    pub created_utc: String,
    /// Version of the tool that measured.
    pub harness_version: String,
    /// Where it was measured.
    pub machine: CalibratedMachine,
    /// What ran against itself: the command, or the URL.
    pub target: String,
    /// How it was measured.
    pub design: CalibratedDesign,
    /// Significance level of every test and bound.
    pub alpha: f64,
    /// What the rule said of each session, in the order in which they ran.
    pub sessions: Vec<CalibrationSession>,
    /// How often.
    pub counts: VerdictCounts,
    /// How often it alarmed, of the sessions that it judged.
    pub false_alarms: Share,
    /// The same of sessions that were put together from the measured pairs, each pair with its two
    /// blocks in the order of a coin's toss. Many more than could be measured; what lasts longer
    /// than a pair is in none of them.
    pub resampled: Option<ResampledSessions>,
    /// How long one pair took at all levels, in minutes.
    pub minutes_per_pair: f64,
    /// Endpoint × level × metric, in the order in which a comparison lists them.
    pub cells: Vec<CellNoise>,
}

/// Name and version of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateSchema {
    /// Always [`SCHEMA_NAME`].
    pub name: String,
    /// See [`SCHEMA_MAJOR`].
    pub major: u32,
    /// See [`SCHEMA_MINOR`].
    pub minor: u32,
}

/// The machine of a certificate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedMachine {
    /// As in a record: a certificate holds for this class only.
    pub class: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// Cores that could be used.
    pub cores: u32,
    /// Full kernel release.
    pub kernel: String,
    /// Whether generator, service and backing servers shared cores.
    pub colocated: bool,
}

/// The design of a certificate's sessions: it holds for records of the same, whose number of pairs
/// may be another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedDesign {
    /// Name of the scenario.
    pub scenario: String,
    /// SHA-256 of its file, in hex.
    pub scenario_sha256: String,
    /// `closed` or `open`.
    pub load_model: String,
    /// Users at once, or offered rates in thousandths of an arrival per second.
    pub levels: Vec<u32>,
    /// How the arrivals of an open load came; `none` of a closed one.
    pub arrivals: String,
    /// Measured requests per endpoint and block.
    pub requests_per_endpoint: u64,
    /// Warm-up iterations per user before each block.
    pub warmup_per_user: u32,
    /// Least warm-up time in ms.
    pub warmup_ms_min: u64,
    /// The bystander probe beside the load, or `none`.
    pub probe: String,
    /// From what state each block started.
    pub state_reset: String,
    /// Stated round trip between the service and its stores, where a proxy made one. Since 1.1.
    #[serde(default)]
    pub store_round_trip_us: Option<u64>,
    /// How the service was reached, where that isn't the usual way. Since 1.1.
    #[serde(default)]
    pub access: Option<String>,
    /// Pairs of blocks in each session.
    pub pairs: u32,
    /// Numbers of pairs after each of which a session could be judged and ended.
    pub looks: Vec<u32>,
}

/// One session of a version against itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationSession {
    /// Id of its record.
    pub id: String,
    /// When it began: RFC 3339, UTC.
    pub started_utc: String,
    /// What the rule said.
    pub verdict: Verdict,
    /// The sentence of the comparison.
    pub headline: String,
    /// Complete pairs.
    pub pairs: u32,
    /// How long it took.
    pub minutes: f64,
}

/// How often each verdict was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictCounts {
    /// Nothing got worse, and everything is within its limit.
    pub pass: u32,
    /// Not enough evidence either way.
    pub inconclusive: u32,
    /// A false alarm.
    pub regression: u32,
    /// A fault of the machine's own; not judged.
    pub invalid: u32,
}

/// A share of counted things, with an interval for the share behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// How many.
    pub count: u32,
    /// Of how many.
    pub of: u32,
    /// Lower end of the exact 95 % interval (Clopper and Pearson, 1934), 0 to 1.
    pub low: f64,
    /// Upper end of the same.
    pub high: f64,
}

/// Sessions that were put together from measured pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResampledSessions {
    /// Pairs that they were drawn from.
    pub from_pairs: u32,
    /// What the rule said.
    pub counts: VerdictCounts,
    /// How often it alarmed.
    pub false_alarms: Share,
}

/// How much one cell scatters between identical versions, and what can be found in spite of that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellNoise {
    /// Endpoint, or `null` for the whole service.
    pub endpoint: Option<String>,
    /// Users at once, or thousandths of an arrival per second.
    pub level: u32,
    /// What is measured.
    pub metric: Metric,
    /// With which others it is judged.
    pub family: Family,
    /// Whether the policy judges it.
    pub judged: bool,
    /// What an alarm had to exceed by the policy of the sessions. Since 1.1.
    #[serde(default)]
    pub margin: Option<CalibratedMargin>,
    /// Mean over all blocks, in the metric's unit.
    pub value: f64,
    /// Pairs behind the noise.
    pub pairs: u32,
    /// Standard deviation of a pair's difference: of the logarithm of the ratio, or in the metric's
    /// unit where differences are compared.
    pub sd_between_pairs: f64,
    /// The part of it that the number of requests in a block explains, where that can be told:
    /// more requests lessen it, and only more pairs lessen the rest.
    pub sd_within_blocks: Option<f64>,
    /// By number of pairs, the fewest first; empty where the cell isn't judged or too little was
    /// measured.
    pub detectable: Vec<Detectable>,
}

/// What makes a change an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedMargin {
    /// The smallest change that can be one: 0.05 for 5 %, or a difference in the metric's unit.
    pub regression: f64,
    /// The smallest absolute change, in the metric's unit.
    pub floor: f64,
}

/// What so many pairs would find.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detectable {
    /// How many.
    pub pairs: u32,
    /// By how much a change must exceed the policy's margin to be found 8 times in 10, on the scale
    /// of [`CellNoise::sd_between_pairs`].
    pub beyond_margin: f64,
    /// The change itself under the policy of the calibration: 0.12 for 12 % more, or a difference
    /// in the metric's unit.
    pub change: f64,
}

/// A certificate that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It can't be read at all.
    #[error("{}: could not read the certificate: {source}; name a file that `unstall calibrate` wrote", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It is something else, or damaged.
    #[error("{}:{line}:{column}: {message}\n  fix: give a calibration.json that `unstall calibrate` wrote, or calibrate again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What was found and what was expected.
        message: String,
    },
}

/// The JSON Schema of certificates' files.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Certificate).to_value()
}

impl Certificate {
    /// Reads a certificate's file.
    ///
    /// # Errors
    /// [`CertificateError`]: it can't be read, or is no certificate of this version.
    pub fn read(path: &Path) -> Result<Self, CertificateError> {
        let bytes = std::fs::read(path).map_err(|source| CertificateError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&bytes, path)
    }

    /// The same of a document in memory; `origin` names it in errors. Fields that only a newer
    /// minor version knows are ignored.
    ///
    /// # Errors
    /// [`CertificateError::Malformed`].
    pub fn parse(bytes: &[u8], origin: &Path) -> Result<Self, CertificateError> {
        /// The part that every version has.
        #[derive(Deserialize)]
        struct AnyVersion {
            schema: CertificateSchema,
        }
        let malformed =
            |(line, column): (usize, usize), message: String| CertificateError::Malformed {
                path: origin.to_owned(),
                line: line.max(1),
                column: column.max(1),
                message,
            };
        let syntax = |error: serde_json::Error| {
            let place = format!(" at line {} column {}", error.line(), error.column());
            let text = error.to_string();
            let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
            malformed((error.line(), error.column()), message)
        };
        let any: AnyVersion = serde_json::from_slice(bytes).map_err(syntax)?;
        let at = |json_path| crate::text_position::locate(bytes, json_path);
        if any.schema.name != SCHEMA_NAME {
            let message = format!("found a {:?}, expected {SCHEMA_NAME:?}", any.schema.name);
            return Err(malformed(at("schema.name"), message));
        }
        if any.schema.major != SCHEMA_MAJOR {
            let message = format!(
                "format {}.{} of a certificate, expected {SCHEMA_MAJOR}.x",
                any.schema.major, any.schema.minor
            );
            return Err(malformed(at("schema.major"), message));
        }
        serde_json::from_slice(bytes).map_err(syntax)
    }

    /// As it is kept in a file.
    ///
    /// # Errors
    /// What the serialiser says; none is known.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// The noise of a cell.
    pub fn cell(&self, endpoint: Option<&str>, level: u32, metric: Metric) -> Option<&CellNoise> {
        self.cells.iter().find(|cell| {
            (cell.endpoint.as_deref(), cell.level, cell.metric) == (endpoint, level, metric)
        })
    }
}
