//! Prepared trees in SQLite.

use sqlx::SqliteExecutor;
use sqlx::types::Uuid;

use super::super::admission::admit_prepared_tree;
use super::super::failure::{insert_failed, unavailable};
use super::super::prepared_tree_row::PreparedTreeRow;
use super::super::stored_values::{StoredPrecondition, stored_moment, stored_number};
use super::super::workspace_row::WorkspaceRow;
use super::super::write_check::{check_adoption, check_version};
use super::{SqliteStore, caches, workspaces};
use crate::domain::{PreparedTree, PreparedTreeId, SandboxError, Subject, Workspace};
use crate::ports::store::{Page, Precondition, TreeClaim};

const READING: &str = "reading a prepared tree";
const WRITING: &str = "writing a prepared tree";

/// The columns of a [`PreparedTreeRow`].
macro_rules! tree_columns {
    () => {
        "id, repo_cache_id, base_ref, commit_id, local_path, state, claimed_by, claimed_until_us, \
         claims, version, created_at_us, updated_at_us"
    };
}

pub(super) async fn insert(
    store: &SqliteStore,
    tree: &PreparedTree,
    unclaimed_max: u32,
) -> Result<(), SandboxError> {
    let row = PreparedTreeRow::try_from(tree)?;
    let mut transaction = store.begin(WRITING).await?;
    let cache = caches::find_state(&mut *transaction, tree.repo_cache_id).await?;
    let unclaimed = sqlx::query_scalar::<_, i64>(
        "SELECT count(*) FROM sandbox_prepared_trees
         WHERE repo_cache_id = ?1 AND base_ref = ?2 AND state IN ('warming', 'ready')",
    )
    .bind(row.repo_cache_id)
    .bind(&row.base_ref)
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(READING))?;
    admit_prepared_tree(tree, cache, unclaimed.unsigned_abs(), unclaimed_max)?;
    sqlx::query(concat!(
        "INSERT INTO sandbox_prepared_trees (",
        tree_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
    ))
    .bind(row.id)
    .bind(row.repo_cache_id)
    .bind(row.base_ref)
    .bind(row.commit_id)
    .bind(row.local_path)
    .bind(row.state)
    .bind(row.claimed_by)
    .bind(row.claimed_until_us)
    .bind(row.claims)
    .bind(row.version)
    .bind(row.created_at_us)
    .bind(row.updated_at_us)
    .execute(&mut *transaction)
    .await
    .map_err(insert_failed(
        WRITING,
        Subject::PreparedTree(tree.id),
        Subject::PreparedTree(tree.id),
    ))?;
    transaction.commit().await.map_err(unavailable(WRITING))
}

pub(super) async fn claim(
    store: &SqliteStore,
    claim: &TreeClaim,
) -> Result<Option<PreparedTree>, SandboxError> {
    let mut rows = sqlx::query_as::<_, PreparedTreeRow>(concat!(
        "UPDATE sandbox_prepared_trees
         SET state = 'claimed', claimed_by = ?4, claimed_until_us = ?6, claims = claims + 1,
             version = version + 1, updated_at_us = ?5
         WHERE id = coalesce(
             (SELECT id FROM sandbox_prepared_trees
              WHERE repo_cache_id = ?1 AND base_ref = ?2 AND created_at_us >= ?3
                AND state = 'ready'
              ORDER BY created_at_us DESC, id DESC
              LIMIT 1),
             (SELECT id FROM sandbox_prepared_trees
              WHERE repo_cache_id = ?1 AND base_ref = ?2 AND created_at_us >= ?3
                AND state = 'claimed' AND claimed_until_us <= ?5
              ORDER BY created_at_us DESC, id DESC
              LIMIT 1)
         )
         RETURNING ",
        tree_columns!()
    ))
    .bind(claim.repo_cache_id.as_uuid())
    .bind(claim.base_ref.as_str())
    .bind(stored_moment(claim.made_since))
    .bind(claim.worker.as_str())
    .bind(stored_moment(claim.now))
    .bind(stored_moment(claim.lease_until))
    .fetch_all(&store.writer)
    .await
    .map_err(unavailable("claiming a prepared tree"))?;
    rows.pop().map(PreparedTree::try_from).transpose()
}

pub(super) async fn update(
    store: &SqliteStore,
    tree: &PreparedTree,
) -> Result<PreparedTree, SandboxError> {
    let row = PreparedTreeRow::try_from(tree)?;
    loop {
        let mut written = sqlx::query_as::<_, PreparedTreeRow>(concat!(
            "UPDATE sandbox_prepared_trees
             SET commit_id = ?2, state = ?3, claimed_by = ?4, claimed_until_us = ?5,
                 updated_at_us = ?6, version = version + 1
             WHERE id = ?1 AND state NOT IN ('adopted', 'terminated') AND version = ?7
             RETURNING ",
            tree_columns!()
        ))
        .bind(row.id)
        .bind(&row.commit_id)
        .bind(&row.state)
        .bind(&row.claimed_by)
        .bind(row.claimed_until_us)
        .bind(row.updated_at_us)
        .bind(row.version)
        .fetch_all(&store.writer)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(written) = written.pop() {
            return written.try_into();
        }
        let subject = Subject::PreparedTree(tree.id);
        let Some(found) = find(&store.readers, tree.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If this is the version, it has only now become that.
        check_version(subject, tree.version, found.version)?;
    }
}

pub(super) async fn adopt(
    store: &SqliteStore,
    tree: &PreparedTree,
    workspace: &Workspace,
    when: Precondition,
) -> Result<Workspace, SandboxError> {
    stored_number("version", tree.version)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    let row = WorkspaceRow::try_from(workspace)?;
    let mut transaction = store.begin(WRITING).await?;
    let Some(found) = find(&mut *transaction, tree.id).await? else {
        return Err(SandboxError::NotFound(Subject::PreparedTree(tree.id)));
    };
    let missing = || SandboxError::NotFound(Subject::Workspace(workspace.id));
    let adopter = workspaces::find(&mut *transaction, workspace.id).await?;
    let adopter = adopter.ok_or_else(missing)?;
    check_adoption(&found, tree.version, &adopter, &when)?;
    sqlx::query(
        "UPDATE sandbox_prepared_trees
         SET state = 'adopted', version = version + 1, updated_at_us = ?2
         WHERE id = ?1",
    )
    .bind(found.id.as_uuid())
    .bind(row.updated_at_us)
    .execute(&mut *transaction)
    .await
    .map_err(unavailable(WRITING))?;
    let written = workspaces::write(&mut *transaction, &row, stored_when).await?;
    let written = written.ok_or_else(missing)?;
    transaction.commit().await.map_err(unavailable(WRITING))?;
    Ok(written)
}

async fn find(
    executor: impl SqliteExecutor<'_>,
    id: PreparedTreeId,
) -> Result<Option<PreparedTree>, SandboxError> {
    let row = sqlx::query_as::<_, PreparedTreeRow>(concat!(
        "SELECT ",
        tree_columns!(),
        " FROM sandbox_prepared_trees WHERE id = ?1 AND state NOT IN ('adopted', 'terminated')"
    ))
    .bind(id.as_uuid())
    .fetch_optional(executor)
    .await
    .map_err(unavailable(READING))?;
    row.map(PreparedTree::try_from).transpose()
}

pub(super) async fn list(
    store: &SqliteStore,
    page: Page<PreparedTreeId>,
) -> Result<Vec<PreparedTree>, SandboxError> {
    let rows = sqlx::query_as::<_, PreparedTreeRow>(concat!(
        "SELECT ",
        tree_columns!(),
        " FROM sandbox_prepared_trees
         WHERE id > ?1 AND state NOT IN ('adopted', 'terminated')
         ORDER BY id
         LIMIT ?2"
    ))
    .bind(page.after.map_or(Uuid::nil(), PreparedTreeId::as_uuid))
    .bind(i64::from(page.rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(PreparedTree::try_from).collect()
}
