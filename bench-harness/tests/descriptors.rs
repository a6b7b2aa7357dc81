//! A descriptor limit is our own fault, never the service's. Alone in its process: the limit is too.

#[path = "measuring/support.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use unstall_bench_harness::engine::{Progress, Stop, Target, WarmBlock};
use unstall_results::record::{ErrorKind, LocalFault};

#[test]
fn no_descriptor_left_is_a_local_fault() {
    const LIMIT: u64 = 100;
    const FREE: usize = 15;
    const USERS: u32 = 40;
    // Connections stand in its queue and are never accepted: they cost this process nothing else.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit is known");
    setrlimit(Resource::RLIMIT_NOFILE, LIMIT, hard).expect("it may be lowered");

    let warm = WarmBlock::prepare(
        &support::plan(&[("it", "GET", "/")], "timeout = \"300ms\""),
        &Target::loopback(port),
        &support::cold(USERS, u64::from(USERS)),
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
    .expect("without warm-up nothing is opened yet");
    let mut held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    held.truncate(held.len().saturating_sub(FREE));
    let block = warm.measure().expect("the block can be measured");
    drop(held);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("it may be raised again");

    let expected = FREE as u64;
    assert_eq!(
        block.errors,
        BTreeMap::from([(ErrorKind::Timeout, expected)])
    );
    let local = u64::from(USERS) - expected;
    assert_eq!(
        block.local_faults,
        BTreeMap::from([(LocalFault::NoDescriptors, local)])
    );
    assert_eq!((block.offered, block.sent), (u64::from(USERS), expected));
}
