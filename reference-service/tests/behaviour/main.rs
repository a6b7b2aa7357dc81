//! The service's behaviour through its one door, HTTP, at several steps of the migration:
//! whatever the variant of a store, the answers are the same.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests wait for servers and processes on threads of their own, where no loop runs"
)]

mod account_exchanges;
mod accounts;
mod bridged;
mod command_line;
mod example_streams;
mod example_texts;
mod exchanges;
mod failing_runs;
mod faults;
mod faulty_load;
mod history;
mod hub_answers;
mod hub_counts;
mod hub_faults;
mod keys;
mod leaks;
mod long_answers;
mod loop_time;
mod outages;
mod own_redis;
mod proof;
mod python_service;
mod round_trips;
mod run_commands;
mod run_exchanges;
mod runs;
mod same_answers;
mod search;
mod service;
mod service_exchanges;
mod services_beside;
mod shutdown;
mod sql_wire;
mod start;
mod statement_counts;
mod strange_texts;
mod stream_readers;
mod watched_hub;
mod written_rows;

/// The start, one that left step 0 out, step 0, then each that moves stores with those before it.
const STATES: [&str; 11] = [
    "start",
    "1,2a,3",
    "0",
    "0,1",
    "0,1,2a",
    "0,1,2a,2b,2c",
    "0,1,2a,2b,2c,2d",
    "0,1,2a,2b,2c,2d,2e",
    "0,1,2a,2b,2c,2d,2e,3",
    "0,1,2a,2b,2c,2d,2e,3,4",
    "0,1,2a,2b,2c,2d,2e,3,4,5,6",
];
/// What blocks the loop most, and the last of them, with every call caught: a proof changes nothing
/// that it watches.
const PROVEN_STATES: [&str; 2] = ["0 under proof", "0,1,2a,2b,2c,2d,2e,3,4,5,6 under proof"];
/// The FastAPI example before and after.
const EXAMPLES: [&str; 2] = ["fastapi blocking", "fastapi asynchronous"];

/// All that answer alike.
fn services() -> impl Iterator<Item = &'static str> {
    let states = STATES.into_iter().chain(PROVEN_STATES);
    states.chain(EXAMPLES)
}
