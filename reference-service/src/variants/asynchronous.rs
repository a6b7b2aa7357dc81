//! Awaited clients: the state after a step.

pub(crate) mod access;
mod auth;
mod followers;
mod history;
pub(crate) mod notifier;
pub mod postgres;
mod reader_connection;
mod reader_task;
pub mod redis;
mod sharing;
pub(crate) mod stream_reader;
pub(crate) mod streams;
