//! What a made-up record says of its machine, scenario, load, versions and step.

use crate::record::{
    Arm, Block, EndpointIdentity, Harness, Load, Machine, RunRecord, SCHEMA_MAJOR, SCHEMA_MINOR,
    SCHEMA_NAME, ScenarioIdentity, Schema, StepIdentity,
};

use super::EndpointSpec;

/// Everything but what was measured.
pub(super) fn envelope(
    seed: u64,
    pairs: u32,
    requests: u64,
    endpoints: &[EndpointSpec],
    blocks: Vec<Block>,
) -> RunRecord {
    let arm = |mode: &str| Arm {
        command: Some(format!("reference --mode {mode} --port {{port}}")),
        url: None,
        git: Some("0123abc".to_owned()),
        access: None,
        imported: None,
    };
    RunRecord {
        schema: Schema {
            name: SCHEMA_NAME.to_owned(),
            major: SCHEMA_MAJOR,
            minor: SCHEMA_MINOR,
        },
        id: format!("synthetic-{seed}"),
        label: "synthetic".to_owned(),
        created_utc: "2026-01-01T00:00:00Z".to_owned(),
        harness: Harness {
            version: "0.1.0".to_owned(),
            git: None,
        },
        machine: machine(),
        floor: None,
        scenario: ScenarioIdentity {
            name: "synthetic".to_owned(),
            sha256: "00".repeat(32),
            endpoints: endpoints.iter().map(identity).collect(),
        },
        load: Load {
            model: "closed".to_owned(),
            levels: vec![20],
            requests_per_endpoint: requests,
            warmup_per_user: 5,
            warmup_ms_min: 1_000,
            pairs,
            seed,
            state_reset: "template+flush".to_owned(),
            store_round_trip_us: Some(500),
            store_round_trip_us_measured: Some(560),
            probe: None,
            open: None,
            capacity: None,
            looks: Vec::new(),
        },
        step: Some(step(endpoints)),
        arms: [("before", "blocking"), ("after", "async")]
            .map(|(name, mode)| (name.to_owned(), arm(mode)))
            .into(),
        blocks,
        interrupted: false,
        merged: None,
        contrast: None,
    }
}

fn machine() -> Machine {
    Machine {
        class: "x86_64/2c/24g/linux-6.18".to_owned(),
        cpu: "Synthetic CPU".to_owned(),
        cores: 2,
        memory_mib: 24_000,
        kernel: "6.18.0".to_owned(),
        governor: None,
        cgroup_quota_cores: None,
        colocated: true,
    }
}

fn step(endpoints: &[EndpointSpec]) -> StepIdentity {
    StepIdentity {
        id: "2a".to_owned(),
        title: "Usage check on async sessions".to_owned(),
        branch: "feat/async-usage-service".to_owned(),
        risk: "low".to_owned(),
        impact: "Sending a message no longer waits for the usage query".to_owned(),
        endpoints: endpoints.iter().map(|spec| spec.name.clone()).collect(),
        criteria: [
            ("p95", "better-or-flat"),
            ("errors", "none-new"),
            ("blocked", "down"),
            ("threads", "down-or-flat"),
        ]
        .map(|(name, expected)| (name.to_owned(), expected.to_owned()))
        .into(),
    }
}

fn identity(spec: &EndpointSpec) -> EndpointIdentity {
    let (method, rest) = spec
        .name
        .split_once(' ')
        .unwrap_or(("GET", spec.name.as_str()));
    EndpointIdentity {
        name: spec.name.clone(),
        method: method.to_owned(),
        path: format!("/api/v1/{}", rest.replace(' ', "-")),
        timeout_ms: 10_000,
        judged: true,
        share: None,
    }
}
