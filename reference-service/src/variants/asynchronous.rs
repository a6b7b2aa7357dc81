//! Awaited clients: the state after a step.

mod auth;
mod history;
pub(crate) mod notifier;
pub mod postgres;
pub mod redis;
mod sharing;
pub(crate) mod streams;
