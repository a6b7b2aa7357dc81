//! Any bytes, by every decoder: see `decoding.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unstall_scenarios::plan::Decoder;

#[path = "../decoding.rs"]
mod decoding;

fuzz_target!(|body: &[u8]| {
    for decoder in [Decoder::Sse, Decoder::Ndjson, Decoder::JsonObjects] {
        decoding::assert_cuts_change_nothing(decoder, decoding::BYTES_MAX, body);
    }
});
