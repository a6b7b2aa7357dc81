//! Searching a project's code; step 5.

use super::StoreFuture;
use crate::search::{Indexed, Search};

/// Where projects' code is indexed.
pub trait SearchStore: Send + Sync {
    /// SELECT the project, SELECT all its nodes that have a word. `None` if the project isn't the
    /// caller's; then only the first is made.
    fn find<'a>(
        &'a self,
        uid: &'a str,
        search: &'a Search,
    ) -> StoreFuture<'a, Option<Vec<Indexed>>>;
}
