//! Prepared trees in PostgreSQL.

use sqlx::types::Uuid;
use sqlx::{PgConnection, PgPool};

use super::super::admission::admit_prepared_tree;
use super::super::cache_row::read_cache_state;
use super::super::failure::{insert_failed, unavailable};
use super::super::prepared_tree_row::PreparedTreeRow;
use super::super::stored_values::{StoredPrecondition, stored_moment, stored_number};
use super::super::workspace_row::WorkspaceRow;
use super::super::write_check::{check_adoption, check_version};
use super::workspaces;
use crate::domain::{
    CacheId, PreparedTree, PreparedTreeId, RepoCacheState, SandboxError, Subject, Workspace,
};
use crate::ports::store::{Page, Precondition, TreeClaim};

const READING: &str = "reading a prepared tree";
const WRITING: &str = "writing a prepared tree";

/// A checked statement that gives [`PreparedTreeRow`]s: their columns stand between the two texts.
macro_rules! tree_rows {
    ($before:tt, $after:tt $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            PreparedTreeRow,
            $before
                + "id, repo_cache_id, base_ref, commit_id, local_path, state, claimed_by, "
                + "claimed_until_us, claims, version, created_at_us, updated_at_us"
                + $after
            $(, $argument)*
        )
    };
}

pub(super) async fn insert(
    pool: &PgPool,
    tree: &PreparedTree,
    unclaimed_max: u32,
) -> Result<(), SandboxError> {
    let row = PreparedTreeRow::try_from(tree)?;
    let mut transaction = pool.begin().await.map_err(unavailable(WRITING))?;
    let cache = hold_cache(&mut transaction, tree.repo_cache_id).await?;
    let unclaimed = sqlx::query_scalar!(
        r#"SELECT count(*) AS "unclaimed!" FROM sandbox_prepared_trees
           WHERE repo_cache_id = $1 AND base_ref = $2 AND state IN ('warming', 'ready')"#,
        row.repo_cache_id,
        row.base_ref,
    )
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(READING))?;
    admit_prepared_tree(tree, cache, unclaimed.unsigned_abs(), unclaimed_max)?;
    sqlx::query!(
        "INSERT INTO sandbox_prepared_trees (
             id, repo_cache_id, base_ref, commit_id, local_path, state, claimed_by, claimed_until_us,
             claims, version, created_at_us, updated_at_us
         )
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        row.id,
        row.repo_cache_id,
        row.base_ref,
        row.commit_id,
        row.local_path,
        row.state,
        row.claimed_by,
        row.claimed_until_us,
        row.claims,
        row.version,
        row.created_at_us,
        row.updated_at_us,
    )
    .execute(&mut *transaction)
    .await
    .map_err(insert_failed(
        WRITING,
        Subject::PreparedTree(tree.id),
        Subject::PreparedTree(tree.id),
    ))?;
    transaction.commit().await.map_err(unavailable(WRITING))
}

/// The state of a live cache, whose trees nobody else counts until the transaction's end.
async fn hold_cache(
    connection: &mut PgConnection,
    id: CacheId,
) -> Result<Option<RepoCacheState>, SandboxError> {
    let state = sqlx::query_scalar!(
        "SELECT state FROM sandbox_repo_caches
         WHERE id = $1 AND state <> 'deleted'
         FOR NO KEY UPDATE",
        id.as_uuid(),
    )
    .fetch_optional(connection)
    .await
    .map_err(unavailable("reading a repository cache"))?;
    read_cache_state(id, state)
}

pub(super) async fn claim(
    pool: &PgPool,
    claim: &TreeClaim,
) -> Result<Option<PreparedTree>, SandboxError> {
    // Whoever comes at the same time skips the row that this one has locked. The second search is
    // carried out only when the first has found nothing.
    let row = tree_rows!(
        "UPDATE sandbox_prepared_trees
         SET state = 'claimed', claimed_by = $4, claimed_until_us = $6, claims = claims + 1,
             version = version + 1, updated_at_us = $5
         WHERE id = coalesce(
             (SELECT id FROM sandbox_prepared_trees
              WHERE repo_cache_id = $1 AND base_ref = $2 AND created_at_us >= $3
                AND state = 'ready'
              ORDER BY created_at_us DESC, id DESC
              LIMIT 1
              FOR UPDATE SKIP LOCKED),
             (SELECT id FROM sandbox_prepared_trees
              WHERE repo_cache_id = $1 AND base_ref = $2 AND created_at_us >= $3
                AND state = 'claimed' AND claimed_until_us <= $5
              ORDER BY created_at_us DESC, id DESC
              LIMIT 1
              FOR UPDATE SKIP LOCKED)
         )
         RETURNING ",
        "",
        claim.repo_cache_id.as_uuid(),
        claim.base_ref.as_str(),
        stored_moment(claim.made_since),
        claim.worker.as_str(),
        stored_moment(claim.now),
        stored_moment(claim.lease_until),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable("claiming a prepared tree"))?;
    row.map(PreparedTree::try_from).transpose()
}

pub(super) async fn update(
    pool: &PgPool,
    tree: &PreparedTree,
) -> Result<PreparedTree, SandboxError> {
    let row = PreparedTreeRow::try_from(tree)?;
    loop {
        let written = tree_rows!(
            "UPDATE sandbox_prepared_trees
             SET commit_id = $2, state = $3, claimed_by = $4, claimed_until_us = $5,
                 updated_at_us = $6, version = version + 1
             WHERE id = $1 AND state NOT IN ('adopted', 'terminated') AND version = $7
             RETURNING ",
            "",
            row.id,
            row.commit_id,
            row.state,
            row.claimed_by,
            row.claimed_until_us,
            row.updated_at_us,
            row.version,
        )
        .fetch_optional(pool)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(written) = written {
            return written.try_into();
        }
        let subject = Subject::PreparedTree(tree.id);
        let Some(found) = find(pool, tree.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If this is the version, it has only now become that.
        check_version(subject, tree.version, found.version)?;
    }
}

pub(super) async fn adopt(
    pool: &PgPool,
    tree: &PreparedTree,
    workspace: &Workspace,
    when: Precondition,
) -> Result<Workspace, SandboxError> {
    let mut transaction = pool.begin().await.map_err(unavailable(WRITING))?;
    match adopt_within(&mut transaction, tree, workspace, when).await {
        Ok(written) => {
            transaction.commit().await.map_err(unavailable(WRITING))?;
            Ok(written)
        }
        Err(refused) => {
            // One that is dropped ends later, and until then whoever claims a tree passes over this one.
            transaction.rollback().await.map_err(unavailable(WRITING))?;
            Err(refused)
        }
    }
}

async fn adopt_within(
    connection: &mut PgConnection,
    tree: &PreparedTree,
    workspace: &Workspace,
    when: Precondition,
) -> Result<Workspace, SandboxError> {
    stored_number("version", tree.version)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    let row = WorkspaceRow::try_from(workspace)?;
    let Some(found) = hold(connection, tree.id).await? else {
        return Err(SandboxError::NotFound(Subject::PreparedTree(tree.id)));
    };
    let missing = || SandboxError::NotFound(Subject::Workspace(workspace.id));
    let adopter = workspaces::hold(connection, workspace.id).await?;
    let adopter = adopter.ok_or_else(missing)?;
    check_adoption(&found, tree.version, &adopter, &when)?;
    sqlx::query!(
        "UPDATE sandbox_prepared_trees
         SET state = 'adopted', version = version + 1, updated_at_us = $2
         WHERE id = $1",
        found.id.as_uuid(),
        row.updated_at_us,
    )
    .execute(&mut *connection)
    .await
    .map_err(unavailable(WRITING))?;
    let written = workspaces::write(connection, &row, stored_when).await?;
    written.ok_or_else(missing)
}

async fn find(pool: &PgPool, id: PreparedTreeId) -> Result<Option<PreparedTree>, SandboxError> {
    let row = tree_rows!(
        "SELECT ",
        " FROM sandbox_prepared_trees WHERE id = $1 AND state NOT IN ('adopted', 'terminated')",
        id.as_uuid(),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    row.map(PreparedTree::try_from).transpose()
}

/// A live tree, which nobody else changes until the transaction's end.
async fn hold(
    connection: &mut PgConnection,
    id: PreparedTreeId,
) -> Result<Option<PreparedTree>, SandboxError> {
    let row = tree_rows!(
        "SELECT ",
        " FROM sandbox_prepared_trees
         WHERE id = $1 AND state NOT IN ('adopted', 'terminated')
         FOR UPDATE",
        id.as_uuid(),
    )
    .fetch_optional(connection)
    .await
    .map_err(unavailable(READING))?;
    row.map(PreparedTree::try_from).transpose()
}

pub(super) async fn list(
    pool: &PgPool,
    page: Page<PreparedTreeId>,
) -> Result<Vec<PreparedTree>, SandboxError> {
    let rows = tree_rows!(
        "SELECT ",
        " FROM sandbox_prepared_trees
         WHERE id > $1 AND state NOT IN ('adopted', 'terminated')
         ORDER BY id
         LIMIT $2",
        page.after.map_or(Uuid::nil(), PreparedTreeId::as_uuid),
        i64::from(page.rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(PreparedTree::try_from).collect()
}
