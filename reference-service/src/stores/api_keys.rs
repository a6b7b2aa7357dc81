//! Keys of the v2 routes; step 2c, which moved the look-up of who calls them.

use super::StoreFuture;

/// Whose a key is.
pub trait ApiKeyStore: Send + Sync {
    /// SELECT the user whose key has this hash, by a column without an index.
    fn user_of_key<'a>(&'a self, key_hash: &'a str) -> StoreFuture<'a, Option<String>>;

    /// SELECT a user by id: whether there is one for whom an administrator could act.
    fn is_user<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, bool>;
}
