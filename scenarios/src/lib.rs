//! What to send: scenario files and migration plans, parsed, resolved and shipped.
//!
//! Text → raw form (`raw`) → resolved [`plan::Plan`]. A plan renders requests and
//! checks answers by pure functions; sending is the harness's work.

pub mod catalogue;
pub mod check;
pub mod error;
pub mod inputs;
pub mod migration;
pub mod plan;
pub mod redaction;
pub mod render;
pub mod schema;
pub mod scope;
pub mod template;

mod deserialize;
mod document;
mod encode;
mod raw;
mod resolve;

pub use error::ScenarioError;
pub use inputs::Inputs;
pub use migration::MigrationPlan;
pub use plan::Plan;
