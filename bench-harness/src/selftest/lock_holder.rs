//! A thread that holds a mutex until somebody sleeps for it, and a little longer.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};

/// For how long the lock is held at most for somebody who doesn't come.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lock and who holds it.
#[derive(Debug)]
pub(super) struct LockHolder {
    shared: Arc<Held>,
    orders: Sender<(Pid, Duration)>,
}

#[derive(Debug, Default)]
struct Held {
    lock: Mutex<()>,
    /// The other thread has it.
    is_taken: AtomicBool,
    /// Somebody is about to wait for it.
    is_wanted: AtomicBool,
}

impl LockHolder {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (orders, received) = channel();
        let shared = Arc::new(Held::default());
        let held = Arc::clone(&shared);
        thread::Builder::new()
            .name("lock-holder".to_owned())
            .spawn(move || hold(&received, &held))?;
        Ok(Self { shared, orders })
    }

    /// Has the lock taken from under the calling thread; it is given back `hold` after that
    /// thread fell asleep for it.
    pub(super) fn take_away(&self, hold: Duration) -> io::Result<()> {
        let gone = |_| io::Error::other("the thread that holds the lock has ended");
        self.orders.send((gettid(), hold)).map_err(gone)?;
        while !self.shared.is_taken.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Ok(())
    }

    /// Takes the lock for a moment.
    pub(super) fn wait_for_lock(&self) {
        self.shared.is_wanted.store(true, Ordering::Release);
        drop(
            self.shared
                .lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

fn hold(orders: &Receiver<(Pid, Duration)>, held: &Held) {
    while let Ok((waiter, time)) = orders.recv() {
        let guard = held.lock.lock().unwrap_or_else(PoisonError::into_inner);
        held.is_taken.store(true, Ordering::Release);
        let patience = Instant::now() + PATIENCE;
        while !(held.is_wanted.load(Ordering::Acquire) && is_asleep(waiter))
            && Instant::now() < patience
        {
            thread::yield_now();
        }
        thread::sleep(time);
        held.is_wanted.store(false, Ordering::Release);
        held.is_taken.store(false, Ordering::Release);
        drop(guard);
    }
}

/// Whether that thread of this process sleeps; one that can't be read is taken to, so that
/// nobody waits for it.
fn is_asleep(thread: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    stat.map_or(true, |stat| {
        let after_name = stat.rsplit_once(") ").map(|(_, after)| after);
        after_name.is_some_and(|state| state.starts_with('S'))
    })
}
