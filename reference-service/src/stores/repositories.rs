//! The code host's queries; step 2e.

use super::StoreFuture;
use crate::repositories::{Known, Project};

/// What PostgreSQL knows of repositories.
pub trait RepositoryStore: Send + Sync {
    /// What is known of a user's repositories: up to five SELECTs, on one connection.
    fn known<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, Known>;

    /// SELECT: a project, if it is the user's.
    fn project<'a>(&'a self, id: &'a str, uid: &'a str) -> StoreFuture<'a, Option<Project>>;
}
