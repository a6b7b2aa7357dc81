//! Why a store can't be opened, before there is anything to ask of it.

use thiserror::Error;

/// Why a store can't be used at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL can't be understood. It isn't shown: it may hold a password.
    #[error(
        "the store's URL can't be understood: {0}; write postgres://user:password@host:port/database"
    )]
    Url(#[source] sqlx::Error),
    /// The server can't be reached, or the file can't be opened.
    #[error("{store} can't be opened: {source}; check that it is there and that we may use it")]
    Connect {
        /// `PostgreSQL`, or the file.
        store: String,
        /// What the driver says.
        source: sqlx::Error,
    },
    /// A migration failed, or one that was applied before has changed.
    #[error(
        "the store's schema can't be brought up to date: {0}; use the version that migrated it last, or a newer one"
    )]
    Migrate(#[from] sqlx::migrate::MigrateError),
}
