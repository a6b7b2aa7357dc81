//! Awaited clients: the state after a step.

pub mod history;
pub mod postgres;
pub mod redis;
pub mod streams;
