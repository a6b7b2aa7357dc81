//! `unstall selftest monitor`: plants what blocks and what doesn't, and looks whether every tier of
//! the loop monitor tells them apart on this machine.
//!
//! A *canary* is one call, or one await, made in a route of a small program of its own: this
//! program in another role ([`host`]), or a Python interpreter with [`python`]'s script. A *column*
//! is one way to observe that program. The canary tells how many calls it made and how often its
//! thread really slept in them; the column tells what it saw; [`judge`] compares the two.

pub(crate) mod canary;
pub(crate) mod cell;
mod child;
pub(crate) mod column;
mod eye;
pub(crate) mod host;
mod judge;
mod lock_holder;
pub(crate) mod markdown;
mod planted;
mod protocol;
mod python;
mod quota;
mod rpc_peer;
mod spinners;
mod suite;
pub(crate) mod table;
mod truth;
mod watching;

pub(crate) use suite::{Findings, Settings, run};
