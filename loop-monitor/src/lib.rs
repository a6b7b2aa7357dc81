//! How an event loop fares: what its polls cost, what blocked it, and where.

pub mod wire;
