//! The data that scenarios count on. Seeding twice changes nothing but dates.

use fred::interfaces::{ClientLike, KeysInterface};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use thiserror::Error;

use crate::variants::ConnectError;
use crate::variants::asynchronous::redis;
use crate::{branch_list, project_structure, tunnel};

/// Registered for `u-0`, socket connected.
pub const WORKSPACE_ONLINE: &str = "00000000000000a1";
/// Registered for `u-0`, socket not connected.
pub const WORKSPACE_OFFLINE: &str = "00000000000000a2";
/// Registered for `u-1`.
pub const WORKSPACE_OF_ANOTHER: &str = "00000000000000b1";
/// A repository with a cached branch list.
pub const REPO: &str = "octo/hello";
/// Branches in that list.
pub const BRANCHES: usize = 30;

/// A project of `u-0` with a cached structure.
pub const PROJECT: &str = "p-1";
/// That structure, of the project's root.
pub const STRUCTURE: &str = "README.md\nsrc/\n  main.rs\n";

/// Why the data isn't there.
#[derive(Debug, Error)]
pub enum SeedError {
    /// PostgreSQL can't be reached or refuses.
    #[error(
        "can't seed PostgreSQL: {0}; run `unstall-reference migrate` first, and check --database-url"
    )]
    Postgres(#[from] sqlx::Error),
    /// Redis can't be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Redis refuses.
    #[error("can't seed Redis: {0}")]
    Redis(#[from] fred::error::Error),
}

/// Users, projects, conversations and messages (`sql/seed.sql`).
///
/// # Errors
/// [`SeedError::Postgres`]
pub async fn postgres(database_url: &str) -> Result<(), SeedError> {
    let mut connection = PgConnection::connect(database_url).await?;
    sqlx::raw_sql(include_str!("../sql/seed.sql"))
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    Ok(())
}

/// Workspaces, a branch list and a project's structure. They don't expire, so that a long measurement doesn't outlive
/// them.
///
/// # Errors
/// [`SeedError::Connect`] or [`SeedError::Redis`]
pub async fn redis(redis_url: &str) -> Result<(), SeedError> {
    let client = redis::connect(redis_url).await?;
    let record = |user: &str| {
        json!({ "user_id": user, "repo_url": "https://github.com/octo/hello", "status": "connected" }).to_string()
    };
    let branches: Vec<String> = std::iter::once("main".to_owned())
        .chain((1..BRANCHES).map(|n| format!("feature/{n}")))
        .collect();
    let values = [
        (tunnel::record_key(WORKSPACE_ONLINE), record("u-0")),
        (tunnel::socket_key(WORKSPACE_ONLINE), "sid-a1".to_owned()),
        (
            "socket:workspace:sid-a1".to_owned(),
            WORKSPACE_ONLINE.to_owned(),
        ),
        ("auth:sid:sid-a1".to_owned(), "u-0".to_owned()),
        (tunnel::record_key(WORKSPACE_OFFLINE), record("u-0")),
        (tunnel::record_key(WORKSPACE_OF_ANOTHER), record("u-1")),
        (branch_list::key(REPO), branch_list::value(&branches)),
        (project_structure::key(PROJECT, ""), STRUCTURE.to_owned()),
    ];
    client.mset(values.to_vec()).await?;
    client
        .del::<(), _>(tunnel::socket_key(WORKSPACE_OFFLINE))
        .await?;
    client.quit().await?;
    Ok(())
}
