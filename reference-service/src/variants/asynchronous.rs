//! Awaited clients: the state after a step.

pub mod postgres;
pub mod redis;
