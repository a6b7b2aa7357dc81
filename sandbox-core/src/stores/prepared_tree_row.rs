//! A prepared tree as a row of a database.

use sqlx::types::Uuid;

use super::failure::damaged;
use super::stored_values::{read_moment, read_number, stored_moment, stored_number};
use crate::domain::{
    BaseRef, CacheId, CommitId, Invalid, LocalPath, PreparedTree, PreparedTreeId,
    PreparedTreeState, SandboxError, Subject, WorkerId,
};

/// The columns of `sandbox_prepared_trees`.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct PreparedTreeRow {
    pub(super) id: Uuid,
    pub(super) repo_cache_id: Uuid,
    pub(super) base_ref: String,
    pub(super) commit_id: Option<String>,
    pub(super) local_path: String,
    pub(super) state: String,
    pub(super) claimed_by: Option<String>,
    pub(super) claimed_until_us: Option<i64>,
    pub(super) claims: i64,
    pub(super) version: i64,
    pub(super) created_at_us: i64,
    pub(super) updated_at_us: i64,
}

impl TryFrom<&PreparedTree> for PreparedTreeRow {
    type Error = Invalid;

    fn try_from(tree: &PreparedTree) -> Result<Self, Invalid> {
        let has_claim = tree.claimed_by.is_some() && tree.claimed_until.is_some();
        if tree.state == PreparedTreeState::Claimed && !has_claim {
            return Err(Invalid::new(
                "prepared tree",
                tree.state.as_str(),
                "a claim needs who has it and until when; give both",
            ));
        }
        Ok(Self {
            id: tree.id.as_uuid(),
            repo_cache_id: tree.repo_cache_id.as_uuid(),
            base_ref: tree.base_ref.as_str().to_owned(),
            commit_id: tree
                .commit
                .as_ref()
                .map(|commit| commit.as_str().to_owned()),
            local_path: tree.local_path.as_str().to_owned(),
            state: tree.state.as_str().to_owned(),
            claimed_by: tree
                .claimed_by
                .as_ref()
                .map(|worker| worker.as_str().to_owned()),
            claimed_until_us: tree.claimed_until.map(stored_moment),
            claims: i64::from(tree.claims),
            version: stored_number("version", tree.version)?,
            created_at_us: stored_moment(tree.created_at),
            updated_at_us: stored_moment(tree.updated_at),
        })
    }
}

impl TryFrom<PreparedTreeRow> for PreparedTree {
    type Error = SandboxError;

    fn try_from(row: PreparedTreeRow) -> Result<Self, SandboxError> {
        let id = PreparedTreeId::from_uuid(row.id);
        read(&row, id).map_err(damaged(Subject::PreparedTree(id)))
    }
}

fn read(row: &PreparedTreeRow, id: PreparedTreeId) -> Result<PreparedTree, Invalid> {
    let claims = u32::try_from(row.claims).map_err(|_out_of_range| {
        Invalid::new(
            "number of claims",
            &row.claims.to_string(),
            "it must be between 0 and 2^32-1",
        )
    })?;
    Ok(PreparedTree {
        id,
        repo_cache_id: CacheId::from_uuid(row.repo_cache_id),
        base_ref: BaseRef::parse(&row.base_ref)?,
        commit: row.commit_id.as_deref().map(CommitId::parse).transpose()?,
        local_path: LocalPath::parse(&row.local_path)?,
        state: PreparedTreeState::from_stored(&row.state)?,
        claimed_by: row.claimed_by.as_deref().map(WorkerId::parse).transpose()?,
        claimed_until: row.claimed_until_us.map(read_moment).transpose()?,
        claims,
        version: read_number("version", row.version)?,
        created_at: read_moment(row.created_at_us)?,
        updated_at: read_moment(row.updated_at_us)?,
    })
}
