//! `unstall selftest http`: the load engine against services that do everything wrong, and against
//! limits of its own machine.
//!
//! A [`case::Case`] is one misbehaviour, named by the public report that it stands for. Its service
//! counts what it did (the [testbed](unstall_testbed)'s torture server), the engine is driven
//! through its public door, and what either of them says becomes [`case::Check`]s: what was
//! expected, what was seen. Counts are exact. Times are lower bounds, which no busy machine can
//! break; where only a time could tell, exceeding it makes the self-test inconclusive.

mod alone;
pub(crate) mod case;
mod catalogue;
mod clients;
mod exchange;
mod http2;
mod limits;
mod load;
mod memory;
mod namespaces;
mod rates;
mod resolver;
mod right_answers;
mod secured;
mod service;
mod streams;
mod suite;
pub(crate) mod table;
mod times;
mod wrong_answers;

pub(crate) use alone::{ROLE, execute as execute_alone};
pub(crate) use catalogue::check_name;
pub(crate) use suite::{Finding, Findings, Verdict, run};
