//! Awaited clients: the state after a step.

pub(crate) mod access;
mod auth;
mod history;
pub(crate) mod notifier;
pub mod postgres;
pub mod redis;
mod search;
pub(crate) mod service_client;
mod sharing;
pub(crate) mod streams;
