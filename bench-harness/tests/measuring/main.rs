//! Measuring through the public door: the engine, services and monitors, with real servers.

mod background;
mod bystander;
mod client_server;
mod clients;
mod connections;
mod drawing;
mod endless;
mod faults;
mod iterations;
mod monitor;
mod open;
mod service;
mod stalls;
mod stopping;
mod streams;
mod support;
