//! Waits in the way that its argument names: `tests/release_builds.rs` builds it as Cargo builds a
//! release, and asks where it waits.

use std::hint::black_box;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Longer than the test.
const WAIT: Duration = Duration::from_secs(60);

/// Keeps more values over the wait than there are other registers to keep them in, so that a frame
/// pointer that nobody asked for is one of theirs.
#[inline(never)]
fn keeps_values(first: u64, wait: fn()) -> u64 {
    let values: [u64; 6] = std::array::from_fn(|index| black_box(first + index as u64));
    let [a, b, c, d, e, f] = values;
    wait();
    black_box(a) + black_box(b) * black_box(c) + black_box(d) * black_box(e) + black_box(f)
}

#[inline(never)]
fn sleeps() {
    thread::sleep(WAIT);
    black_box(());
}

#[inline(never)]
fn locks() {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().expect("not poisoned");
    let other = Arc::clone(&lock);
    // Held by this thread's own guard until the process ends.
    std::mem::forget(held);
    drop(black_box(other.lock()));
    black_box(());
}

#[inline(never)]
fn reads() {
    let read = std::io::stdin().read(&mut [0]);
    black_box(read.is_ok());
}

fn main() {
    let wait = match std::env::args().nth(1).as_deref() {
        Some("sleep") => sleeps,
        Some("lock") => locks,
        _ => reads,
    };
    black_box(keeps_values(black_box(1), wait));
}
