//! Any bytes as a scenario file: see `reading.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../reading.rs"]
mod reading;

fuzz_target!(|bytes: &[u8]| reading::assert_scenario(bytes));
