//! The port of working trees, as a table of contents: what is done is in the files beside this one.

use super::layout::TreePlace;
use super::{LocalGit, disk, layout, listing, removal};
use crate::domain::{
    AuthToken, BaseRef, CommitId, LocalPath, PreparedTreeId, RepoUrl, WorkspaceId, WorkspaceKey,
    WorkspaceMode,
};
use crate::ports::Answer;
use crate::ports::caches::GitError;
use crate::ports::workspaces::{
    BranchRule, CommitRequest, DiffBase, FoundTree, NewTree, Pushed, SavedEdits, SavedTree,
    TreeDiff, TreeLocation, TreeRequest, TreeStatus, WorkspaceProvider,
};

impl WorkspaceProvider for LocalGit {
    fn path_of(&self, cache: &LocalPath, mode: WorkspaceMode, id: WorkspaceId) -> LocalPath {
        layout::workspace_path(cache, mode, id)
    }

    fn prepared_path_of(&self, cache: &LocalPath, id: PreparedTreeId) -> LocalPath {
        layout::prepared_path(cache, id)
    }

    fn locate(&self, path: &LocalPath) -> Result<TreeLocation, GitError> {
        let place = TreePlace::of(&self.root, path)?;
        Ok(TreeLocation {
            tree: place.tree(),
            git_dir: place.git_dir(),
            shared_objects: place.cache.join("objects"),
        })
    }

    fn create<'a>(&'a self, request: TreeRequest<'a>) -> Answer<'a, NewTree, GitError> {
        Box::pin(self.make(request))
    }

    fn prepare<'a>(
        &'a self,
        path: &'a LocalPath,
        base: &'a BaseRef,
    ) -> Answer<'a, CommitId, GitError> {
        Box::pin(async move {
            let branch = &BranchRule::Detached;
            let request = TreeRequest { path, base, branch };
            Ok(self.make(request).await?.head)
        })
    }

    fn adopt<'a>(
        &'a self,
        prepared: &'a LocalPath,
        request: TreeRequest<'a>,
    ) -> Answer<'a, NewTree, GitError> {
        Box::pin(self.make_from(prepared, request))
    }

    fn status<'a>(&'a self, path: &'a LocalPath) -> Answer<'a, TreeStatus, GitError> {
        Box::pin(async move { self.status_of(&self.tree_at(path).await?).await })
    }

    fn diff<'a>(
        &'a self,
        path: &'a LocalPath,
        base: &'a DiffBase,
        bytes_max: usize,
    ) -> Answer<'a, TreeDiff, GitError> {
        Box::pin(async move {
            let place = self.tree_at(path).await?;
            self.difference(&place, base, bytes_max).await
        })
    }

    fn commit<'a>(
        &'a self,
        path: &'a LocalPath,
        request: CommitRequest<'a>,
    ) -> Answer<'a, CommitId, GitError> {
        Box::pin(async move { self.commit_in(&self.tree_at(path).await?, request).await })
    }

    fn push<'a>(
        &'a self,
        path: &'a LocalPath,
        url: &'a RepoUrl,
        token: Option<&'a AuthToken>,
    ) -> Answer<'a, Pushed, GitError> {
        Box::pin(async move { self.push_from(&self.tree_at(path).await?, url, token).await })
    }

    fn save<'a>(
        &'a self,
        path: &'a LocalPath,
        workspace: WorkspaceId,
        key: &'a WorkspaceKey,
    ) -> Answer<'a, SavedEdits, GitError> {
        Box::pin(async move {
            let place = self.tree_at(path).await?;
            self.save_all(&place, workspace, key).await
        })
    }

    fn find_saved<'a>(
        &'a self,
        path: &'a LocalPath,
        key: &'a WorkspaceKey,
    ) -> Answer<'a, Option<SavedTree>, GitError> {
        Box::pin(async move {
            let place = TreePlace::of(&self.root, path)?;
            self.saved_in(&layout::saved_store(&place.cache, key)).await
        })
    }

    fn restore<'a>(
        &'a self,
        path: &'a LocalPath,
        saved: &'a SavedTree,
    ) -> Answer<'a, CommitId, GitError> {
        Box::pin(self.make_of_saved(path, saved))
    }

    fn drop_saved<'a>(
        &'a self,
        path: &'a LocalPath,
        workspace: WorkspaceId,
        key: &'a WorkspaceKey,
    ) -> Answer<'a, bool, GitError> {
        Box::pin(async move {
            let place = self.tree_at(path).await?;
            let store = layout::saved_store(&place.cache, key);
            self.drop_held(&place, workspace, store).await
        })
    }

    fn remove<'a>(&'a self, path: &'a LocalPath) -> Answer<'a, (), GitError> {
        Box::pin(async move {
            let place = TreePlace::of_removable(&self.root, path)?;
            let is_leftover = layout::is_leftover(&place.name);
            let remove = if is_leftover {
                removal::take_apart
            } else {
                removal::remove
            };
            self.on_disk("removing a tree", place.folder, remove).await
        })
    }

    fn size_of<'a>(&'a self, path: &'a LocalPath) -> Answer<'a, u64, GitError> {
        Box::pin(async move {
            let place = self.tree_at(path).await?;
            self.on_disk("measuring a tree", place.folder, disk::size_of)
                .await
        })
    }

    fn list(&self) -> Answer<'_, Vec<FoundTree>, GitError> {
        Box::pin(async move {
            let root = self.root.clone();
            self.on_disk("listing trees", root, listing::trees).await
        })
    }
}

impl LocalGit {
    /// The place of a tree that is there.
    async fn tree_at(&self, path: &LocalPath) -> Result<TreePlace, GitError> {
        let place = TreePlace::of(&self.root, path)?;
        if self
            .on_disk("looking for a tree", place.tree(), disk::is_there)
            .await?
        {
            return Ok(place);
        }
        Err(GitError::NotThere { path: place.folder })
    }
}
