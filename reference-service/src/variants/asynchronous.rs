//! Awaited clients: the state after a step.

pub(crate) mod access;
mod auth;
mod code_cache;
mod history;
pub(crate) mod hub;
pub(crate) mod notifier;
pub mod postgres;
pub mod redis;
mod repositories;
mod sharing;
pub(crate) mod streams;
