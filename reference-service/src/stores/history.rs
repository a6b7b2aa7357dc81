//! Chat history; step 2b.

use super::StoreFuture;

/// What is kept of conversations.
pub trait HistoryStore: Send + Sync {
    /// INSERT what an agent had said when its user stopped it. `None` if the conversation
    /// isn't the user's.
    fn save_partial<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        content: &'a str,
    ) -> StoreFuture<'a, Option<String>>;
}
