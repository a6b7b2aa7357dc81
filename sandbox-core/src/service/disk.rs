//! How full the disk is, of which trees and caches may take a part, and what is done when it is full.

use std::path::Path;

use super::reserve::{DiskRoom, RESERVE_BYTES, Reserve};
use super::{SandboxService, ServiceError};
use crate::domain::eviction::{Disk, Limits};
use crate::domain::{DiskSpace, Workspace, WorkspaceId, WorkspaceKey};
use crate::volume;

/// What a pass that makes room lets be, because the room is made for it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Spared<'a> {
    /// Nothing of what there is.
    Nothing,
    /// A workspace.
    Workspace(WorkspaceId),
    /// The workspace of a key, if there is one.
    Key(&'a WorkspaceKey),
}

impl Spared<'_> {
    /// Is it this one?
    pub(super) fn is(self, workspace: &Workspace) -> bool {
        match self {
            Self::Nothing => false,
            Self::Workspace(id) => workspace.id == id,
            Self::Key(key) => workspace.key == *key,
        }
    }
}

impl SandboxService {
    /// Does `work`, and once more if it failed on a full disk, after a pass that made room. To be called
    /// before any lock is taken, since the pass leaves what is locked; `work` must be fit to be done
    /// again after it failed.
    pub(super) async fn with_room<T, F>(
        &self,
        spared: Spared<'_>,
        work: impl Fn() -> F + Send,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>> + Send,
    {
        let error = match work().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if !self.is_of_full_disk(&error).await {
            return Err(error);
        }
        tracing::warn!(%error, "the disk is full: making room, and trying once more");
        if let Err(reason) = self.make_room(spared).await {
            tracing::error!(%reason, "no room could be made on a full disk");
            return Err(error);
        }
        work().await
    }

    /// Does `work` that makes room by its end, with the space that is kept back for it if the disk is full.
    pub(super) async fn with_reserve<T>(
        &self,
        work: impl Future<Output = Result<T, ServiceError>> + Send,
    ) -> Result<T, ServiceError> {
        self.reserve().give_up_if_full().await?;
        let done = work.await;
        self.renew_reserve().await;
        done
    }

    /// How much room there is on the disk, and how much is kept back.
    ///
    /// # Errors
    /// When the disk can't be measured.
    pub async fn disk_room(&self) -> Result<DiskRoom, ServiceError> {
        self.reserve().look().await
    }

    /// Keeps space back for the moment in which the disk is full, as much as there is room for. What
    /// hinders it is logged: work goes on without.
    pub async fn renew_reserve(&self) {
        match self.reserve().renew().await {
            Ok(kept_bytes) if kept_bytes >= RESERVE_BYTES => {}
            Ok(kept_bytes) => {
                tracing::warn!(kept_bytes, "the disk has no room for the whole reserve");
            }
            Err(error) => tracing::warn!(%error, "no space is kept back for a full disk"),
        }
    }

    pub(super) fn reserve(&self) -> Reserve {
        Reserve::below(&self.settings.root, self.adapters.pool.clone())
    }

    /// Did it fail because no space is left? A database says so in a dozen ways, of which most mean
    /// other things, too: then the disk is asked.
    async fn is_of_full_disk(&self, error: &ServiceError) -> bool {
        if error.is_disk_full() {
            return true;
        }
        if !error.may_be_disk_full() {
            return false;
        }
        match self.space().await {
            Ok(space) => space.is_full(),
            Err(unmeasured) => {
                tracing::warn!(%unmeasured, "whether the disk is full isn't known");
                false
            }
        }
    }

    async fn space(&self) -> Result<DiskSpace, ServiceError> {
        let root = self.settings.root.clone();
        self.adapters.pool.run(move || space_of(&root)).await
    }

    /// How full the disk is, and the limits on it. The volume is no larger than the disk, and what isn't
    /// available of it any more counts as used, whoever uses it: no space is no space.
    pub(super) async fn disk(&self, sizes_bytes: u64) -> Result<(Disk, Limits), ServiceError> {
        let space = self.space().await?;
        Ok(judge(space, sizes_bytes, self.settings.limits))
    }
}

fn judge(space: DiskSpace, sizes_bytes: u64, limits: Limits) -> (Disk, Limits) {
    if limits.volume_bytes == 0 {
        let used_bytes = sizes_bytes;
        return (Disk { used_bytes }, limits);
    }
    let volume_bytes = limits.volume_bytes.min(space.total_bytes);
    let used_bytes = sizes_bytes.max(volume_bytes.saturating_sub(space.available_bytes));
    let limits = Limits {
        volume_bytes,
        ..limits
    };
    (Disk { used_bytes }, limits)
}

/// What the system says of the disk of a folder, with an error that names it. It may wait for the disk.
pub(super) fn space_of(root: &Path) -> Result<DiskSpace, ServiceError> {
    volume::space_of(root).map_err(|source| ServiceError::Disk {
        root: root.display().to_string(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(volume: u64, total: u64, available: u64, sizes: u64) -> (u64, u64) {
        let limits = Limits {
            volume_bytes: volume,
            ..Limits::default()
        };
        let space = DiskSpace {
            total_bytes: total,
            available_bytes: available,
            available_files: None,
        };
        let (disk, limits) = judge(space, sizes, limits);
        (disk.used_bytes, limits.volume_bytes)
    }

    #[test]
    fn what_is_not_available_counts_as_used() {
        assert_eq!(judged(100, 1000, 500, 30), (30, 100));
        assert_eq!(judged(100, 1000, 10, 30), (90, 100));
    }

    #[test]
    fn the_volume_is_no_larger_than_the_disk() {
        assert_eq!(judged(100, 20, 15, 1), (5, 20));
        assert_eq!(judged(0, 20, 0, 1), (1, 0));
    }
}
