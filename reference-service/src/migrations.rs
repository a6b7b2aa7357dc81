//! The database's schema, embedded in the program.

use sqlx::{Connection, PgConnection};
use thiserror::Error;

use crate::stores::{Backend, StoreError};
use crate::variants::ConnectError;
use crate::variants::asynchronous::postgres::{connect_options, store_error};

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

/// Whether the tables are there.
///
/// # Errors
/// [`ConnectError`] if the URL is wrong or the server can't be reached.
pub async fn are_applied(database_url: &str) -> Result<bool, ConnectError> {
    let mut connection = PgConnection::connect_with(&connect_options(database_url)?)
        .await
        .map_err(|error| StoreError::unavailable(Backend::Postgres, error))?;
    let found =
        sqlx::query_scalar!(r#"SELECT to_regclass('conversations') IS NOT NULL AS "found!""#)
            .fetch_one(&mut connection)
            .await
            .map_err(store_error)?;
    connection.close().await.map_err(store_error)?;
    Ok(found)
}
