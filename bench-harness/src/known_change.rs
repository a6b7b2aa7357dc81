//! `unstall selftest gate`: the gate on this machine against changes that were made on purpose.
//!
//! A [`case::Case`] is two versions of a private service of which the difference is known: none, a
//! share of the response time behind a delay proxy, a place in the pair, blocked time, failures,
//! threads. Both are measured as `unstall ab` measures, the shipped rule judges, and what it says is
//! held against what it had to say. Failures and threads are counted, so that there the answer is
//! exact. Where only a clock tells, an answer that noise allows but nobody wants is *unseen*, which
//! makes the self-test inconclusive, and only one that the rule must never give is missed.

pub(crate) mod case;
mod expectation;
pub(crate) mod service;
mod stage;
mod suite;
pub(crate) mod table;

pub(crate) use expectation::State;
pub(crate) use suite::{Finding, Findings, Settings, run};
