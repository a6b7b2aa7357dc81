//! Synchronous clients, called straight from async handlers: the state before a step. The start of the
//! migration calls the same on threads (`threads`).
//!
//! Each call makes the round trips that `blocked the loop` in the service being migrated,
//! no more and no fewer. Nothing here moves work off the loop, on purpose.

mod auth;
mod code_cache;
mod history;
pub(crate) mod hub;
pub(crate) mod notifier;
pub mod pool;
pub mod postgres;
pub mod redis;
mod repositories;
mod search;
pub(crate) mod service_client;
mod sharing;
pub mod statement;
pub(crate) mod stream_reader;
pub(crate) mod streams;
