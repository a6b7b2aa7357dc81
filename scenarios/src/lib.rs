//! What to send: scenario files and migration plans, parsed, resolved and shipped.
//!
//! Text → raw form (`raw`) → resolved [`plan::Plan`]. A plan renders requests and
//! checks answers by pure functions; sending is the harness's work.
//!
//! ```
//! use std::sync::Arc;
//! use unstall_scenarios::{Inputs, catalogue, scope::Scope};
//!
//! let plan = Arc::new(catalogue::open("tunnel-github", &Inputs::default())?);
//! let mut scope = Scope::new(Arc::clone(&plan), 0, 10, 42);
//! scope.begin_iteration(0);
//! let sent = plan.requests[1].render(&scope)?;
//! assert_eq!(sent.path_and_query, "/api/v1/tunnel/workspace/00000000000000a1/socket-status");
//!
//! let headers = [("content-type", b"application/json".as_slice())];
//! let answer = br#"{"workspace_id": "00000000000000a1", "online": true}"#;
//! scope.answer(plan.requests[1].accept(&scope, 200, headers, answer)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod catalogue;
pub mod check;
pub mod error;
pub mod import;
pub mod inputs;
pub mod migration;
pub mod pattern;
pub mod plan;
pub mod redaction;
pub mod render;
pub mod schema;
pub mod scope;
pub mod template;

mod deserialize;
mod document;
mod draw;
mod encode;
mod extract;
mod item;
mod raw;
mod resolve;

pub use error::ScenarioError;
pub use inputs::Inputs;
pub use migration::MigrationPlan;
pub use plan::Plan;
