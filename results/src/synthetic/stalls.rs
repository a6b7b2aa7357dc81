//! Stalls of a made-up service's loop, and whom they kept waiting.

use crate::record::{BLAMES_MAX, Blame, Block, RunRecord, Stalls, UnderWay};

/// Shorter holds aren't told one by one.
const THRESHOLD_US: u64 = 1_000;
/// How long the loop is held at a time.
const HOLD_US: u64 = 2_500;
/// Where the endpoint's code waits.
const LINES: [Option<&str>; 2] = [Some("usage_today at src/stores/redis.rs:17"), None];

/// Adds stalls to every block of a record: whatever blocked time an endpoint has is one hold of
/// 2.5 ms after the other, spread evenly over the block.
pub fn add_stalls(record: &mut RunRecord) {
    for block in &mut record.blocks {
        block.stalls = Some(stalls(block));
    }
}

fn stalls(block: &Block) -> Stalls {
    let wall_us = (block.wall_ns / 1_000).max(1);
    let mut stalls = Stalls {
        threshold_us: THRESHOLD_US,
        loops: 1,
        ..Stalls::default()
    };
    for (name, samples) in &block.endpoints {
        let mean_us = samples.response.quantile_us(0.5).unwrap_or(0);
        let victim = UnderWay {
            requests: samples.completed,
            under_way_us: samples.completed * mean_us,
        };
        stalls.victims.insert(name.clone(), victim);
    }
    let mut held_us = 0;
    let monitored = block.monitor.iter().flat_map(|monitor| &monitor.endpoints);
    for ((culprit, seen), line) in monitored.zip(LINES.iter().cycle()) {
        let holds = seen.blocked_us.slept / HOLD_US;
        stalls.placed += holds;
        held_us += holds * HOLD_US;
        for (victim, under_way) in &stalls.victims {
            // As many as there are on average at any moment.
            let overlapped_us = holds * HOLD_US * under_way.under_way_us / wall_us;
            if overlapped_us > 0 {
                stalls.blame.push(Blame {
                    culprit: culprit.clone(),
                    line: line.map(str::to_owned),
                    victim: victim.clone(),
                    requests: under_way.requests.min(overlapped_us / HOLD_US + 1),
                    overlapped_us,
                });
            }
        }
    }
    let by_time = |blame: &Blame| std::cmp::Reverse(blame.overlapped_us);
    stalls.blame.sort_by_key(by_time);
    stalls.blame.truncate(BLAMES_MAX);
    stalls.by_second_us = by_second_us(held_us, block.wall_ns);
    stalls
}

fn by_second_us(held_us: u64, wall_ns: u64) -> Vec<u64> {
    const SECOND_NS: u64 = 1_000_000_000;
    let seconds = wall_ns.div_ceil(SECOND_NS);
    let of = |second: u64| {
        let part_ns = (wall_ns - second * SECOND_NS).min(SECOND_NS);
        u128::from(held_us) * u128::from(part_ns) / u128::from(wall_ns)
    };
    (0..seconds)
        .map(|second| u64::try_from(of(second)).unwrap_or(u64::MAX))
        .collect()
}
