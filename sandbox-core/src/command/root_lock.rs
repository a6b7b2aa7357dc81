//! One process at a time below a root, where nothing else keeps processes apart.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use unstall_sandbox_core::blocking_pool::BlockingPool;

use super::failure::Failure;

/// The file that is locked; it stays, since another process may wait for it.
const NAME: &str = ".lock";
const WAIT_S: u64 = 30;
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A root that this process has to itself, until it ends, however it ends.
#[derive(Debug)]
pub(crate) struct RootLock {
    _file: File,
}

impl RootLock {
    /// Waits for a root.
    pub(crate) async fn wait(root: &Path, pool: &BlockingPool) -> Result<Self, Failure> {
        let failed = |source| Failure::RootLock {
            root: root.to_owned(),
            source,
        };
        let opened = root.to_owned();
        let mut file = pool.run(move || open(&opened)).await.map_err(failed)?;
        let asks = WAIT_S * 1000 / 50;
        for _ in 0..asks {
            let (back, taken) = pool.run(move || ask(file)).await;
            file = back;
            if taken.map_err(failed)? {
                return Ok(Self { _file: file });
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Err(Failure::RootInUse {
            root: root.to_owned(),
            waited_s: WAIT_S,
        })
    }
}

fn open(root: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(root.join(NAME))
}

fn ask(file: File) -> (File, io::Result<bool>) {
    let taken = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    };
    (file, taken)
}
