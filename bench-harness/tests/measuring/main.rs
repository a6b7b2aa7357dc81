//! Measuring through the public door: the engine, services and monitors, with real servers.

mod bystander;
mod connections;
mod drawing;
mod endless;
mod faults;
mod iterations;
mod monitor;
mod open;
mod service;
mod stopping;
mod streams;
mod support;
