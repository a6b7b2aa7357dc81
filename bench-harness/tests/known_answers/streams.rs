//! Streams with a known clock: the first item after 50 ms, then every 20 ms, and one stall of
//! 500 ms. What was measured must be what the server did.

use std::sync::PoisonError;
use std::time::Duration;

use unstall_bench_harness::engine::BlockMeasurement;
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::EndpointSamples;
use unstall_testbed::{ExactStream, StreamClock, StreamFormat, StreamTruth};

use crate::{ALONE, PATIENCE, TRIES, noticing_business, support};

const USERS: u32 = 20;
const STREAMS: u64 = 60;
const ITEMS: u32 = 15;
const STALL: Duration = Duration::from_millis(500);
const CLOCK: StreamClock = StreamClock {
    first: Duration::from_millis(50),
    gap: Duration::from_millis(20),
    items: ITEMS,
    stall: Some((8, STALL)),
};
/// What a time may be off.
const ALLOWED_US: u64 = 1_000;
/// Percentiles beyond these are the machine's.
const QUANTILES: [f64; 2] = [0.50, 0.95];

fn measure(format: StreamFormat, url: &str) -> BlockMeasurement {
    let name = format.name();
    let plan = support::parse(&format!(
        "name = \"test\"\n[[request]]\nname = \"it\"\nmethod = \"POST\"\npath = \"/\"\n\
         stream = {{ decoder = \"{name}\", complete = {{ items_min = {ITEMS} }} }}\n"
    ));
    // One stream of warm-up per user: opening a connection is no part of the clock.
    let mut spec = support::cold(USERS, STREAMS);
    spec.warmup.rounds_per_user = 1;
    support::run(&plan, url, &spec)
}

fn times(of: &Option<LatencyHistogram>) -> &LatencyHistogram {
    of.as_ref().expect("the endpoint reads streams")
}

/// Holds in every block, on any machine.
fn assert_counts(block: &BlockMeasurement, truth: &[StreamTruth]) {
    let samples = &block.endpoints["it"];
    assert_eq!(truth.len() as u64, STREAMS, "streams that were sent");
    let counts = (block.offered, block.sent, block.completed);
    assert_eq!(counts, (STREAMS, STREAMS, STREAMS), "{:?}", block.examples);
    assert_eq!(samples.items, STREAMS * u64::from(ITEMS));
    assert_eq!(times(&samples.ttft).count(), STREAMS);
    assert_eq!(times(&samples.ttft_sent).count(), STREAMS);
    let medians = [&samples.ttft, &samples.ttft_sent].map(|of| times(of).quantile_us(0.5));
    assert!(
        medians[0] >= medians[1],
        "intended comes before sent: {medians:?}"
    );
    let gaps = times(&samples.gap).count() + samples.items_coalesced + samples.gaps_stalled;
    assert_eq!(gaps, STREAMS * u64::from(ITEMS - 1), "no gap is lost");
    assert_stalls_found(samples);
}

/// The stall is the longest gap of each stream, and as long as it was. It could only be left
/// out if this side had been late by 50 ms and more, and then it is counted as such.
fn assert_stalls_found(samples: &EndpointSamples) {
    let stall_us = STALL.as_micros() as u64;
    // A read that came late on this side, by what is forgiven, makes the gap behind it shorter.
    let shortest_us = stall_us - stall_us / 10;
    let longest = times(&samples.gap_longest).iter();
    let found: u64 = longest
        .filter(|(us, _)| *us >= shortest_us)
        .map(|(_, count)| count)
        .sum();
    assert!(found <= STREAMS);
    assert!(
        found + samples.gaps_stalled >= STREAMS,
        "{found} stalls were found in {STREAMS} streams, and only {} gaps were left out",
        samples.gaps_stalled
    );
}

/// A percentile beside its truth, in microseconds.
fn pairs(
    samples: &EndpointSamples,
    truth: &[StreamTruth],
    q: f64,
) -> [(&'static str, u64, u64); 4] {
    let of = |ns: &mut dyn Iterator<Item = u64>| {
        let mut histogram = LatencyHistogram::new();
        ns.for_each(|ns| histogram.record(Duration::from_nanos(ns)));
        histogram.quantile_us(q).expect("streams were sent")
    };
    let ours = |histogram| times(histogram).quantile_us(q).unwrap_or(0);
    let mut first = truth.iter().map(|stream| stream.receive_to_item_ns[0]);
    // A closed model without pauses on warm connections sends when it means to.
    let ttft = of(&mut first.clone());
    let mut gaps = truth.iter().flat_map(StreamTruth::gaps_ns);
    let mut longest = truth.iter().filter_map(|stream| stream.gaps_ns().max());
    [
        ("ttft", ours(&samples.ttft), ttft),
        ("ttft_sent", ours(&samples.ttft_sent), of(&mut first)),
        ("gap", ours(&samples.gap), of(&mut gaps)),
        ("gap_longest", ours(&samples.gap_longest), of(&mut longest)),
    ]
}

/// Measures until each percentile has agreed with the truth; counts must be exact always.
fn agrees(format: StreamFormat) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = ExactStream::start(format, CLOCK).expect("a server starts");
    let mut failed_in_quiet = Vec::new();
    for _ in 0..TRIES {
        let (block, busy) = noticing_business(|| measure(format, &server.url()));
        let mut truth = server.take_truth();
        let warm_up = truth.drain(..(USERS as usize).min(truth.len()));
        assert_eq!(warm_up.len(), USERS as usize);
        drop(warm_up);
        assert_counts(&block, &truth);
        let samples = &block.endpoints["it"];
        let off: Vec<String> = QUANTILES
            .into_iter()
            .flat_map(|q| pairs(samples, &truth, q).map(|pair| (q, pair)))
            .filter(|(_, (_, ours, theirs))| ours.abs_diff(*theirs) > ALLOWED_US * PATIENCE)
            .map(|(q, pair)| format!("{pair:?} at {q}"))
            .collect();
        if off.is_empty() {
            return;
        }
        if !busy {
            failed_in_quiet.push(off);
        }
    }
    let name = format.name();
    assert!(
        failed_in_quiet.is_empty(),
        "{name}: no block of {TRIES} agrees with the server: {failed_in_quiet:#?}"
    );
    eprintln!("{name}: times not judged, the machine was busy in all {TRIES} blocks");
}

#[test]
fn streams_of_events_have_their_times() {
    agrees(StreamFormat::Sse);
}

#[test]
fn streams_of_lines_have_their_times() {
    agrees(StreamFormat::Ndjson);
}

#[test]
fn streams_of_objects_have_their_times() {
    agrees(StreamFormat::JsonObjects);
}

#[test]
fn streams_of_chunks_have_their_times() {
    agrees(StreamFormat::Chunks);
}
