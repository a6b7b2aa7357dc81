//! The database's schema, embedded in the program.

use sqlx::{Connection, PgConnection};
use thiserror::Error;

/// Why the schema can't be brought up to date.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// No connection.
    #[error(
        "can't connect to PostgreSQL: {0}; check that it runs and that --database-url is right"
    )]
    Connect(#[source] sqlx::Error),
    /// A migration failed, or one that was applied before has changed.
    #[error("can't migrate the database: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
}

/// Applies what is missing; a second run changes nothing.
///
/// # Errors
/// [`MigrateError`]
pub async fn apply(database_url: &str) -> Result<(), MigrateError> {
    let mut connection = PgConnection::connect(database_url)
        .await
        .map_err(MigrateError::Connect)?;
    sqlx::migrate!().run(&mut connection).await?;
    connection.close().await.map_err(MigrateError::Connect)
}
