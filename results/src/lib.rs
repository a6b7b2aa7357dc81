//! What was measured, and what it means: records, histograms, statistics,
//! comparisons, verdicts and the ledger of a migration.
//!
//! Data flows one way: a [`record::RunRecord`] is written by the harness, read
//! by [`compare`], judged into a [`comparison::Comparison`] and rendered by the
//! reports crate. Nothing here touches a network or a clock.

pub mod age;
pub mod answers;
pub mod baseline;
pub mod blame;
pub mod bystander;
pub mod calibration;
mod candidate;
pub mod capacity;
mod comparability;
pub mod compare;
pub mod comparison;
pub mod connecting;
mod contrast;
mod criteria;
pub mod design;
mod error_adjusted;
mod hdr_wire;
mod headline;
mod held;
pub mod histogram;
mod hodges_lehmann;
pub mod import;
mod judge;
pub mod ledger;
pub mod level;
pub mod looks;
mod measure;
pub mod merge;
mod metric;
mod need;
mod order_effect;
mod order_statistics;
mod pairing;
pub mod policy;
mod pool;
mod pressure;
pub mod record;
pub mod saturation;
pub mod service_counters;
mod signflip;
pub mod slo;
mod stated;
pub mod store;
pub mod stream;
mod student;
pub mod summary;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;
mod text_position;
mod unpaired;
pub mod validate;
pub mod watched;
mod wilson;
mod wording;

pub use contrast::ContrastError;
pub use pairing::open_lag_limit_us;
