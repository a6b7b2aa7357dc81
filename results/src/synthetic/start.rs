//! The start of a migration beside the two versions of one of its steps.

use super::{EndpointSpec, SessionSpec};
use crate::design::{ArmName, Design};
use crate::record::RunRecord;

/// Makes triples of a record's pairs, at its one level: the start behaves as `endpoints` say of
/// their `before`, and the arms come in the order of a design with a start.
///
/// # Panics
/// If the record has no design, such as one of fewer than 5 pairs.
pub fn add_start(record: &mut RunRecord, endpoints: &[EndpointSpec]) {
    let load = &record.load;
    let (pairs, requests) = (load.pairs, load.requests_per_endpoint);
    let seed = load.seed ^ 0x7374_6172_7400;
    let start = SessionSpec::new(seed, pairs, requests, endpoints).record();
    let of_before = |block: &&crate::record::Block| block.arm == ArmName::Before.as_str();
    for block in start.blocks.iter().filter(of_before) {
        let mut block = block.clone();
        ArmName::Start.as_str().clone_into(&mut block.arm);
        record.blocks.push(block);
    }
    let design = Design::new(pairs, load.levels.clone(), 0.05, load.seed, requests)
        .expect("a record has a design")
        .with_start();
    let mut blocks = Vec::new();
    for planned in design.schedule() {
        let key = (planned.pair, planned.arm.as_str());
        let mut all = record.blocks.iter();
        let block = all.find(|block| (block.pair, block.arm.as_str()) == key);
        let mut block = block.expect("each pair has its blocks").clone();
        block.position = planned.position;
        blocks.push(block);
    }
    // They follow each other as they did before.
    let mut clock_ns = 0;
    for block in &mut blocks {
        block.started_mono_ns = clock_ns;
        clock_ns += block.wall_ns + 1_000_000_000;
    }
    record.blocks = blocks;
    let mut arm = start.arms[ArmName::Before.as_str()].clone();
    arm.command = Some("unstall-reference --port {port} --steps start".to_owned());
    record.arms.insert(ArmName::Start.as_str().to_owned(), arm);
}
