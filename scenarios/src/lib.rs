//! What to send: scenario files and migration plans, parsed, resolved and shipped.
//!
//! Text → raw form (`raw`) → resolved [`plan::Plan`]. A plan renders requests and
//! checks answers by pure functions; sending is the harness's work.

pub mod plan;
