//! Watches and proves another process, with no change to it.

pub mod tracer;
mod tracer_judge;
mod tracer_ledger;
mod tracer_python;
mod tracer_routes;
mod tracer_session;
mod tracer_threads;
