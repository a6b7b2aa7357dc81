//! The lag probe: sees a stall on a single loop, refuses where it would mean nothing.
#![expect(clippy::disallowed_methods, reason = "the stall is planted")]

use std::time::Duration;

use tokio::runtime::Builder;
use unstall_loop_monitor::wire::Histogram;
use unstall_loop_monitor::{LagProbeError, Monitor};

/// Counts from a bucket on.
fn from_bucket(lag: &Histogram, bucket: usize) -> u64 {
    lag.log2_us.iter().skip(bucket).sum()
}

#[test]
fn a_stall_counts_for_every_deadline_it_covers() {
    for single in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let mut builder = single;
        let monitor = Monitor::builder().build();
        monitor.install(builder.worker_threads(1).enable_all());
        let runtime = builder.build().expect("a runtime");
        let lag = runtime.block_on(async {
            tokio::spawn(async move {
                assert_eq!(
                    monitor.snapshot().loop_lag,
                    None,
                    "not before it is asked for"
                );
                monitor.spawn_lag_probe().expect("a single loop");
                tokio::time::sleep(Duration::from_millis(60)).await;
                std::thread::sleep(Duration::from_millis(400));
                tokio::time::sleep(Duration::from_millis(60)).await;
                monitor.snapshot().loop_lag.expect("the probe runs")
            })
            .await
            .expect("no panic")
        });
        // 400 ms cover eight deadlines of 50 ms; the first of them is at least 350 ms late, and
        // at least four are more than 131 ms late (bucket 17 begins at 131 072 µs).
        assert!(from_bucket(&lag, 18) >= 1, "{lag:?}");
        assert!(from_bucket(&lag, 17) >= 4, "{lag:?}");
        assert!(from_bucket(&lag, 0) >= 8, "{lag:?}");
    }
}

#[test]
fn it_refuses_several_loops_a_second_probe_and_no_runtime() {
    let monitor = Monitor::builder().build();
    let error = monitor.spawn_lag_probe().expect_err("no runtime here");
    assert_eq!(error, LagProbeError::NoRuntime);
    let two = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let error = two
        .block_on(async { monitor.spawn_lag_probe() })
        .expect_err("two loops");
    assert_eq!(error, LagProbeError::SeveralLoops { workers: 2 });
    assert_eq!(monitor.snapshot().loop_lag, None);
    let one = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    one.block_on(async {
        monitor.spawn_lag_probe().expect("a single loop");
        let error = monitor.spawn_lag_probe().expect_err("runs already");
        assert_eq!(error, LagProbeError::AlreadyRunning);
    });
}
