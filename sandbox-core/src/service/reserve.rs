//! Space that is kept back for the moment in which the disk is full. What goes is said in rows first, and
//! what it holds is saved: so without any space nothing could go, and the disk would stay full.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::ServiceError;
use super::disk::space_of;
use crate::blocking_pool::BlockingPool;
use crate::domain::{DiskSpace, OWN_FOLDER};

/// How much is kept back: twice what a database's log takes, so that a pass of eviction has room for its
/// rows and for the objects of edits that it saves.
pub const RESERVE_BYTES: u64 = 8 << 20;

/// The smallest piece of it that is worth keeping, where there is no room for more.
const RESERVE_BYTES_MIN: u64 = 1 << 20;

const NAME: &str = "reserve";

/// Bytes that are written at a time where a file system can't set space aside without them.
const PIECE_BYTES: usize = 64 * 1024;

/// The space that is kept back below a root.
#[derive(Debug, Clone)]
pub struct Reserve {
    root: PathBuf,
    file: PathBuf,
    pool: BlockingPool,
}

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// What the system says of the disk. What is kept back isn't free.
    pub space: DiskSpace,
    /// Bytes that are kept back: [`RESERVE_BYTES`], or less if there was no room.
    pub kept_bytes: u64,
}

impl Reserve {
    /// That of a root, which must be there before it is asked for anything.
    #[must_use]
    pub fn below(root: &Path, pool: BlockingPool) -> Self {
        Self {
            root: root.to_owned(),
            file: root.join(OWN_FOLDER).join(NAME),
            pool,
        }
    }

    /// How much room there is.
    ///
    /// # Errors
    /// When the disk can't be measured.
    pub async fn look(&self) -> Result<DiskRoom, ServiceError> {
        let (root, file) = (self.root.clone(), self.file.clone());
        let look = move || -> Result<DiskRoom, ServiceError> {
            Ok(DiskRoom {
                space: space_of(&root)?,
                kept_bytes: kept_bytes(&file).map_err(failed(&file))?,
            })
        };
        self.pool.run(look).await
    }

    /// Gives it up if the disk is full, and answers whether that is so. To be called before something is
    /// done that needs space to make some, with [`renew`](Self::renew) after it.
    ///
    /// # Errors
    /// When the disk can't be measured, or the file can't be removed.
    pub async fn give_up_if_full(&self) -> Result<bool, ServiceError> {
        let (root, file) = (self.root.clone(), self.file.clone());
        let give_up = move || -> Result<bool, ServiceError> {
            let is_full = space_of(&root)?.is_full();
            if is_full {
                remove(&file).map_err(failed(&file))?;
            }
            Ok(is_full)
        };
        self.pool.run(give_up).await
    }

    /// Gives it up whatever the system says of the disk: a quota may be what is reached.
    pub(super) async fn give_up(&self) -> Result<(), ServiceError> {
        let file = self.file.clone();
        let give_up = move || remove(&file).map_err(failed(&file));
        self.pool.run(give_up).await
    }

    /// Makes it anew, as large as there is room for. Answers how large it is.
    ///
    /// # Errors
    /// When the file can't be made for another reason than that the disk is full.
    pub async fn renew(&self) -> Result<u64, ServiceError> {
        let file = self.file.clone();
        let renew = move || match make(&file) {
            Err(error) if is_full(&error) => Ok(0),
            made => made.map_err(failed(&file)),
        };
        self.pool.run(renew).await
    }
}

fn failed(file: &Path) -> impl FnOnce(io::Error) -> ServiceError + use<> {
    let file = file.to_owned();
    move |source| ServiceError::Reserve { file, source }
}

fn kept_bytes(file: &Path) -> io::Result<u64> {
    match file.symlink_metadata() {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Several processes may do so at a time: they take the same space.
fn make(file: &Path) -> io::Result<u64> {
    let kept = kept_bytes(file)?;
    if kept >= RESERVE_BYTES {
        return Ok(kept);
    }
    if let Some(folder) = file.parent() {
        let mut folders = DirBuilder::new();
        folders.recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let reserve = options.open(file)?;
    let mut bytes = RESERVE_BYTES;
    loop {
        match allocate(&reserve, bytes) {
            Ok(()) => return Ok(bytes),
            // What was taken on the way is given back, and less is asked for.
            Err(error) if is_full(&error) && bytes > RESERVE_BYTES_MIN => {
                reserve.set_len(0)?;
                bytes /= 2;
            }
            Err(error) => {
                remove(file)?;
                return Err(error);
            }
        }
    }
}

fn allocate(reserve: &File, bytes: u64) -> io::Result<()> {
    match fallocate(reserve, FallocateFlags::empty(), 0, bytes) {
        // As the C library does there: the space is taken by what is written.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let piece = [0; PIECE_BYTES];
            for offset in (0..bytes).step_by(PIECE_BYTES) {
                reserve.write_all_at(&piece, offset)?;
            }
            reserve.sync_all()
        }
        taken => Ok(taken?),
    }
}

/// Is it that no space is left?
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[tokio::test]
    async fn space_is_really_taken_given_up_and_taken_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = BlockingPool::new(1).expect("a thread");
        let reserve = Reserve::below(folder.path(), pool);
        let room = reserve.look().await.expect("measured");
        assert_eq!(room.kept_bytes, 0);
        for _ in 0..2 {
            assert_eq!(reserve.renew().await.expect("made"), RESERVE_BYTES);
            let made = reserve.file.metadata().expect("it is there");
            assert_eq!(made.len(), RESERVE_BYTES);
            assert!(made.blocks() * 512 >= RESERVE_BYTES, "it isn't sparse");
        }
        let room = reserve.look().await.expect("measured");
        assert_eq!(room.kept_bytes, RESERVE_BYTES);
        assert!(!reserve.give_up_if_full().await.expect("measured"));
        assert!(reserve.file.exists());
        reserve.give_up().await.expect("given up");
        reserve.give_up().await.expect("it is given up already");
        assert!(!reserve.file.exists());
    }
}
