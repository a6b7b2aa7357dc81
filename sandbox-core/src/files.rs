//! Files of a working tree, read, changed and searched without a way out of it, and without holding the
//! runtime.
//!
//! [`TreeFiles`] is the door: its calls run in the [`BlockingPool`], and paths are resolved by the
//! kernel below the tree's root. Links are followed for reading only, and only within the tree. What a
//! call changes, it changes whole or not at all, and not after its answer was dropped.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::blocking_pool::BlockingPool;
use crate::domain::TreePath;
use crate::ports::Answer;
use crate::ports::files::{
    Entry, Expected, FileAccess, FileRead, FilesError, Listing, SearchFound, SearchRequest, Written,
};

mod change;
mod root;
mod search;
mod system_error;
mod walk;

use root::TreeRoot;

/// A local tree's files. Clones are the same tree.
#[derive(Debug, Clone)]
pub struct TreeFiles {
    root: Arc<TreeRoot>,
    pool: BlockingPool,
}

impl TreeFiles {
    /// Opens the tree at `path`, which is trusted, but for its last part: that must not be a link. From
    /// then on it is this very folder, also when another gets its path.
    ///
    /// # Errors
    /// When it isn't a folder, or the system refuses.
    pub async fn open(path: PathBuf, pool: BlockingPool) -> Result<Self, FilesError> {
        let root = pool.run(move || TreeRoot::open(&path)).await?;
        Ok(Self {
            root: Arc::new(root),
            pool,
        })
    }

    /// Removes what writes left that a crash ended, and says how many. Only for whoever holds the
    /// tree's lock, so that nobody writes meanwhile.
    ///
    /// # Errors
    /// When the root can't be listed, or something in it not be removed.
    pub async fn sweep(&self) -> Result<u64, FilesError> {
        self.run(move |root, _| root.sweep()).await
    }

    async fn run<T, F>(&self, work: F) -> Result<T, FilesError>
    where
        F: FnOnce(&TreeRoot, &Abandoned) -> Result<T, FilesError> + Send + 'static,
        T: Send + 'static,
    {
        let root = Arc::clone(&self.root);
        let abandoned = Abandoned::default();
        let watched = abandoned.clone();
        // Dropped with this future, or when the work is done and nobody reads it any more.
        let _sets_it = SetWhenDropped(abandoned);
        self.pool.run(move || work(&root, &watched)).await
    }
}

impl FileAccess for TreeFiles {
    fn read(&self, path: TreePath, bytes_max: usize) -> Answer<'_, FileRead, FilesError> {
        Box::pin(self.run(move |root, _| root.read(&path, bytes_max)))
    }

    fn write(
        &self,
        path: TreePath,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> Answer<'_, Written, FilesError> {
        Box::pin(self.run(move |root, abandoned| root.write(&path, &bytes, expected, abandoned)))
    }

    fn list(&self, path: TreePath, entries_max: usize) -> Answer<'_, Listing, FilesError> {
        Box::pin(self.run(move |root, _| root.list(&path, entries_max)))
    }

    fn stat(&self, path: TreePath) -> Answer<'_, Entry, FilesError> {
        Box::pin(self.run(move |root, _| root.stat(&path)))
    }

    fn make_folder(&self, path: TreePath) -> Answer<'_, (), FilesError> {
        Box::pin(self.run(move |root, _| root.make_folder(&path)))
    }

    fn remove(&self, path: TreePath) -> Answer<'_, (), FilesError> {
        Box::pin(self.run(move |root, _| root.remove(&path)))
    }

    fn search(&self, request: SearchRequest) -> Answer<'_, SearchFound, FilesError> {
        Box::pin(self.run(move |root, abandoned| root.search(&request, abandoned)))
    }
}

/// Has whoever asked for something gone? Then it isn't done, if that's still possible.
#[derive(Debug, Clone, Default)]
struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct SetWhenDropped(Abandoned);

impl Drop for SetWhenDropped {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}
