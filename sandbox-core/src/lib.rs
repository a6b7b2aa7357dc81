//! The sandbox core: a repository's working tree for an agent or a service, kept until it comes back.
//!
//! [`domain`] says what there is and which rules hold, without any I/O. [`ports`] are the doors to the
//! world, as traits, and behind each are adapters that don't know each other: [`stores`] keep the
//! records, [`locks`] keep workers apart, [`git`] has caches and trees, [`runtime`] runs commands, [`files`]
//! reads and writes trees. [`service`] has the use cases and knows ports only. [`client`] is the door for
//! agents and services, whose [`tools`] work through a handle of it.

pub mod blocking_pool;
mod boot_time;
pub mod client;
pub mod domain;
pub mod files;
pub mod git;
pub mod locks;
pub mod ports;
pub mod runtime;
pub mod service;
pub mod stores;
pub mod tools;
mod volume;
