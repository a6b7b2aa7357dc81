//! What was measured, and what it means: records, histograms, statistics,
//! comparisons, verdicts and the ledger of a migration.
//!
//! Data flows one way: a [`record::RunRecord`] is written by the harness, read
//! by [`compare`], judged into a [`comparison::Comparison`] and rendered by the
//! reports crate. Nothing here touches a network or a clock.

pub mod comparison;
pub mod error_adjusted;
mod hdr_wire;
pub mod histogram;
pub mod hodges_lehmann;
mod json_position;
pub mod order_statistics;
pub mod record;
pub mod signflip;
pub mod store;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;
pub mod validate;
