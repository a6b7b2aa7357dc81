//! Prepared trees in memory.

use std::cmp::Reverse;

use super::super::admission::admit_prepared_tree;
use super::super::prepared_tree_row::PreparedTreeRow;
use super::super::stored_values::{StoredPrecondition, stored_moment, stored_number};
use super::super::workspace_row::WorkspaceRow;
use super::super::write_check::{check_adoption, check_version};
use super::tables::{Tables, count_of, page_of};
use crate::domain::{
    PreparedTree, PreparedTreeId, PreparedTreeState, SandboxError, Subject, Workspace,
    to_the_microsecond,
};
use crate::ports::store::{Page, Precondition, TreeClaim};

/// The record as a database would give it back.
fn as_kept(tree: &PreparedTree) -> Result<PreparedTree, SandboxError> {
    PreparedTreeRow::try_from(tree)?.try_into()
}

fn is_live(tree: &PreparedTree) -> bool {
    !tree.state.is_final()
}

impl Tables {
    pub(super) fn insert_prepared_tree(
        &mut self,
        tree: &PreparedTree,
        unclaimed_max: u32,
    ) -> Result<(), SandboxError> {
        let kept = as_kept(tree)?;
        let unclaimed = self.trees.values().filter(|other| {
            matches!(
                other.state,
                PreparedTreeState::Warming | PreparedTreeState::Ready
            ) && other.repo_cache_id == kept.repo_cache_id
                && other.base_ref == kept.base_ref
        });
        let cache = self.state_of_cache(kept.repo_cache_id);
        admit_prepared_tree(&kept, cache, count_of(unclaimed), unclaimed_max)?;
        if self.trees.contains_key(&kept.id) {
            return Err(SandboxError::AlreadyExists(Subject::PreparedTree(kept.id)));
        }
        self.trees.insert(kept.id, kept);
        Ok(())
    }

    pub(super) fn claim_prepared_tree(&mut self, claim: &TreeClaim) -> Option<PreparedTree> {
        let now_us = stored_moment(claim.now);
        let is_free = |tree: &PreparedTree| match tree.state {
            PreparedTreeState::Ready => true,
            PreparedTreeState::Claimed => {
                let end_us = tree.claimed_until.map(stored_moment);
                end_us.is_some_and(|end_us| end_us <= now_us)
            }
            _ => false,
        };
        let mut trees: Vec<&mut PreparedTree> = self
            .trees
            .values_mut()
            .filter(|tree| {
                tree.repo_cache_id == claim.repo_cache_id
                    && tree.base_ref == claim.base_ref
                    && stored_moment(tree.created_at) >= stored_moment(claim.made_since)
                    && is_free(tree)
            })
            .collect();
        trees.sort_by_key(|tree| {
            let is_ready = tree.state == PreparedTreeState::Ready;
            Reverse((is_ready, tree.created_at, tree.id))
        });
        let tree = trees.into_iter().next()?;
        tree.state = PreparedTreeState::Claimed;
        tree.claimed_by = Some(claim.worker.clone());
        tree.claimed_until = Some(to_the_microsecond(claim.lease_until));
        tree.claims += 1;
        tree.version += 1;
        tree.updated_at = to_the_microsecond(claim.now);
        Some(tree.clone())
    }

    pub(super) fn update_prepared_tree(
        &mut self,
        tree: &PreparedTree,
    ) -> Result<PreparedTree, SandboxError> {
        let kept = as_kept(tree)?;
        let found = self.live_tree(kept.id)?;
        check_version(Subject::PreparedTree(kept.id), kept.version, found.version)?;
        found.commit = kept.commit;
        found.state = kept.state;
        found.claimed_by = kept.claimed_by;
        found.claimed_until = kept.claimed_until;
        found.version += 1;
        found.updated_at = kept.updated_at;
        Ok(found.clone())
    }

    pub(super) fn adopt_prepared_tree(
        &mut self,
        tree: &PreparedTree,
        workspace: &Workspace,
        when: Precondition,
    ) -> Result<Workspace, SandboxError> {
        // What couldn't be kept is refused before anything is looked for, as databases do.
        stored_number("version", tree.version)?;
        StoredPrecondition::try_from(&when)?;
        WorkspaceRow::try_from(workspace)?;
        let found = self.live_tree(tree.id)?.clone();
        let adopter = self.live_workspace(workspace.id)?;
        check_adoption(&found, tree.version, adopter, &when)?;
        let written = self.update_workspace(workspace, when)?;
        let adopted = self.live_tree(tree.id)?;
        adopted.state = PreparedTreeState::Adopted;
        adopted.version += 1;
        adopted.updated_at = written.updated_at;
        Ok(written)
    }

    pub(super) fn list_prepared_trees(&self, page: Page<PreparedTreeId>) -> Vec<PreparedTree> {
        page_of(&self.trees, page, is_live)
    }

    fn live_tree(&mut self, id: PreparedTreeId) -> Result<&mut PreparedTree, SandboxError> {
        let found = self.trees.get_mut(&id).filter(|tree| is_live(tree));
        found.ok_or(SandboxError::NotFound(Subject::PreparedTree(id)))
    }
}
