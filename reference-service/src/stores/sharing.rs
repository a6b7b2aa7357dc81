//! Sharing and access; step 2c.

use super::StoreFuture;
use crate::sharing::{Change, Changed, Sharing};

/// With whom the caller's conversations are shared.
pub trait SharingStore: Send + Sync {
    /// SELECT, in its own right.
    fn sharing<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
    ) -> StoreFuture<'a, Option<Sharing>>;

    /// One transaction: SELECT, UPDATE, COMMIT; without the UPDATE if there is nothing to write.
    fn change<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
        change: &'a Change,
    ) -> StoreFuture<'a, Changed>;
}
