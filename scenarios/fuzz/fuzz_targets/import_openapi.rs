//! Any bytes as what `scenarios import openapi` reads: see `reading.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unstall_scenarios::import;

#[path = "../reading.rs"]
mod reading;

fuzz_target!(|bytes: &[u8]| reading::assert_import(import::openapi, bytes));
