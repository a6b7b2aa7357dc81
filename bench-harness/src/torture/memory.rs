//! What the engine keeps while it measures, told by the kernel's high-water mark of this process.

use std::fs;

use unstall_bench_harness::engine::BlockMeasurement;
use unstall_testbed::Behaviour;

use super::case::{Check, Tried, Trouble};
use super::exchange::counted_once;
use super::load::{ENDPOINT, cold, measure, scenario, start};

/// More than any buffer on the way, and much less than the body.
const BUFFERS_KIB_MAX: u64 = 48 << 10;
const BODY_BYTES: u64 = 256 << 20;
/// Less than 70 bytes for each request of the long block.
const KEPT_KIB_MAX: u64 = 2 << 10;
const SHORT: u64 = 2_000;
const LONG: u64 = 30_000;

/// A body that nobody looks at is counted and let go.
pub(super) fn large_body() -> Tried {
    let server = start(Behaviour::Paths)?;
    let path = format!("/large/{BODY_BYTES}");
    let scenario = scenario("GET", &path, "timeout = \"50s\"");
    let spec = cold(1, 1);
    reset_high_water()?;
    let before = high_water_kib()?;
    let block = measure(&scenario, &server.url(), &spec)?;
    let grown = high_water_kib()?.saturating_sub(before);
    let mut checks = vec![
        Check::same("completed", 1, block.completed),
        Check::same(
            "body bytes",
            BODY_BYTES,
            block.endpoints[ENDPOINT].body_bytes,
        ),
        Check::at_most("memory that it took, KiB", BUFFERS_KIB_MAX, grown),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// A block that is 15 times as long as another takes as much memory, in this process and in the
/// record.
pub(super) fn many_requests() -> Tried {
    let server = start(Behaviour::Paths)?;
    let scenario = scenario("GET", "/ok", "");
    let run = |requests| measure(&scenario, &server.url(), &cold(8, requests));
    let short = run(SHORT)?;
    reset_high_water()?;
    let before = high_water_kib()?;
    let long = run(LONG)?;
    let grown = high_water_kib()?.saturating_sub(before);
    let kept = |block: &BlockMeasurement| {
        serde_json::to_string(&block.endpoints)
            .map(|text| text.len() as u64)
            .map_err(|error| Trouble::Broken(format!("the samples are no JSON: {error}")))
    };
    let (short_bytes, long_bytes) = (kept(&short)?, kept(&long)?);
    Ok(vec![
        Check::same("completed", SHORT + LONG, short.completed + long.completed),
        Check::same("requests at the server", SHORT + LONG, server.requests()),
        Check::at_most(
            "memory that the long one took more, KiB",
            KEPT_KIB_MAX,
            grown,
        ),
        // More values, more bins in use, and never a value each.
        Check::at_most(
            "bytes of samples in the record",
            4 * short_bytes,
            long_bytes,
        ),
    ])
}

/// Sets the mark to what is in use now (proc_pid_clear_refs(5)).
fn reset_high_water() -> Result<(), Trouble> {
    fs::write("/proc/self/clear_refs", "5").map_err(|error| {
        Trouble::NotRun(format!(
            "the high-water mark of memory can't be set back: {error}"
        ))
    })
}

fn high_water_kib() -> Result<u64, Trouble> {
    let not_run = |why: String| Trouble::NotRun(format!("/proc/self/status: {why}"));
    let status =
        fs::read_to_string("/proc/self/status").map_err(|error| not_run(error.to_string()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| not_run("no VmHWM".to_owned()))
}
