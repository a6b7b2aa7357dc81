//! Services started by their command: ready, watched, and gone afterwards with all they started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use unstall_bench_harness::block::{BlockPlace, Service, measure};
use unstall_bench_harness::engine::{BlockSpec, Ended, Progress, Stop};
use unstall_bench_harness::process_group::{Ending, ServiceCommand, ServiceError, ServiceProcess};
use unstall_bench_harness::process_sample::GroupSample;
use unstall_testbed::Guard;

use crate::support::{cold, get};

/// The example service, which cargo builds beside the tests.
fn tiny_service() -> String {
    let this = std::env::current_exe().expect("a test has a path");
    let folder: PathBuf = this.ancestors().nth(2).expect("target/debug").into();
    let program = folder.join("examples/tiny_service");
    assert!(
        program.is_file(),
        "{} is not built: run `cargo build -p unstall-bench-harness --examples` first",
        program.display()
    );
    program.display().to_string()
}

fn guard() -> Arc<Guard> {
    Arc::new(Guard::new().expect("the guard starts"))
}

fn start(command: String) -> Result<ServiceProcess, ServiceError> {
    let mut service = ServiceCommand::new(command);
    service.ready_within = Duration::from_secs(20);
    ServiceProcess::start(&service, &guard())
}

fn group_of(service: &ServiceProcess) -> i32 {
    let (process, _) = service
        .start_id()
        .split_once(':')
        .expect("number and start");
    process.parse().expect("a number")
}

#[test]
fn a_block_of_a_started_service_knows_its_resources() {
    let service = start(format!("{} --port {{port}} --delay-ms 2", tiny_service())).expect("ready");
    let place = BlockPlace {
        arm: "before".to_owned(),
        pair: 3,
        position: 1,
    };
    let measured = measure(
        &get("/anything"),
        Service::Started(&service),
        &place,
        // Long enough to be looked at while it goes on.
        &cold(5, 1_000),
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
    .expect("the block can be measured");
    let block = &measured.block;
    assert_eq!(
        (block.arm.as_str(), block.pair, block.position, block.level),
        ("before", 3, 1, 5)
    );
    assert_eq!((block.offered, block.completed), (1_000, 1_000));
    assert_eq!(block.process_start_id.as_deref(), Some(service.start_id()));
    let process = block.process.clone().expect("it was started here");
    assert!(process.rss_kib_max > 100, "{process:?}");
    assert!(
        process.threads_max >= 6,
        "a thread per connection and main: {process:?}"
    );
    assert!(process.cpu_us > 0, "{process:?}");
    assert_eq!(block.monitor, None);
    assert_eq!(measured.ended, Ended::Complete);
    let json = serde_json::to_string(block).expect("a block can be written");
    let again: unstall_results::record::Block = serde_json::from_str(&json).expect("and read");
    assert_eq!(&again, block);
    let group = group_of(&service);
    service.stop().expect("it ends");
    assert_eq!(
        GroupSample::take(group).expect("/proc is there").processes,
        0
    );
}

#[test]
fn children_end_with_their_service() {
    let command = format!(
        "sh -c 'sleep 1000 & sh -c \"sleep 1000\" & exec {} --port {{port}}'",
        tiny_service()
    );
    let service = start(command).expect("ready");
    let group = group_of(&service);
    let before = GroupSample::take(group).expect("/proc is there");
    assert!(before.processes >= 3, "{before:?}");
    service.stop().expect("it ends");
    assert_eq!(
        GroupSample::take(group).expect("/proc is there").processes,
        0
    );
}

#[test]
fn who_ignores_term_is_killed_and_told_and_an_urgent_stop_does_not_wait_for_it() {
    for is_urgent in [false, true] {
        let stop = Stop::new();
        let mut command = ServiceCommand::new(format!(
            "sh -c 'trap \"\" TERM; exec {} --port {{port}}'",
            tiny_service()
        ));
        command.stop = Some(stop.clone());
        let service = ServiceProcess::start(&command, &guard()).expect("ready");
        let group = group_of(&service);
        if is_urgent {
            stop.request();
            stop.request();
        }
        let ending = service.stop().expect("it ends");
        assert_eq!(ending == Ending::Killed, !is_urgent, "{ending:?}");
        assert_eq!(
            GroupSample::take(group).expect("/proc is there").processes,
            0
        );
    }
}

#[test]
fn a_dropped_service_is_gone_too() {
    let service = start(format!("{} --port {{port}}", tiny_service())).expect("ready");
    let group = group_of(&service);
    drop(service);
    assert_eq!(
        GroupSample::take(group).expect("/proc is there").processes,
        0
    );
}

#[test]
fn a_service_that_ends_early_shows_its_last_words() {
    let error = start("sh -c 'echo no database >&2; exit 3'".to_owned()).expect_err("not ready");
    let text = error.to_string();
    assert!(
        text.contains("no database") && text.contains("exit status: 3"),
        "{text}"
    );
}

#[test]
fn a_service_that_never_answers_is_not_ready() {
    let mut service = ServiceCommand::new("sh -c 'echo waiting; exec sleep 1000'");
    service.ready_within = Duration::from_millis(200);
    let error = ServiceProcess::start(&service, &guard()).expect_err("not ready");
    assert!(matches!(error, ServiceError::NotReady { .. }), "{error}");
    assert!(error.to_string().contains("waiting"), "{error}");
}

#[test]
fn waiting_for_a_service_can_be_stopped() {
    let mut service = ServiceCommand::new("sleep 1000");
    let stop = Stop::new();
    stop.request();
    service.stop = Some(stop);
    let error = ServiceProcess::start(&service, &guard()).expect_err("not ready");
    assert!(matches!(error, ServiceError::Stopped(_)), "{error}");
}

#[test]
fn a_missing_program_says_what_to_do() {
    let error = start("no-such-program-anywhere".to_owned()).expect_err("not there");
    assert!(error.to_string().contains("full path"), "{error}");
    let error = start("'open quote".to_owned()).expect_err("no command");
    assert!(error.to_string().contains("close it"), "{error}");
}

#[test]
fn a_service_that_dies_in_the_block_is_in_the_block() {
    let command = format!(
        "sh -c '{} --port {{port}} & sleep 1; kill $!; exec sleep 1000'",
        tiny_service()
    );
    let service = start(command).expect("ready");
    let place = BlockPlace {
        arm: "after".to_owned(),
        pair: 0,
        position: 0,
    };
    let spec = BlockSpec {
        patience: Duration::from_millis(200),
        ..cold(4, 10_000_000)
    };
    let measured = measure(
        &get("/"),
        Service::Started(&service),
        &place,
        &spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
    .expect("the block can be measured");
    assert_eq!(measured.ended, Ended::ServiceGone);
    assert!(measured.block.completed > 0);
    assert!(measured.block.errors.values().sum::<u64>() > 0);
    assert!(
        measured
            .warnings
            .iter()
            .any(|text| text.contains("given up"))
    );
}
