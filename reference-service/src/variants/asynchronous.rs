//! Awaited clients: the state after a step.

mod auth;
pub(crate) mod notifier;
pub mod postgres;
pub mod redis;
mod sharing;
