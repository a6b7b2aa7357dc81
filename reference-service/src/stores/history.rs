//! Chat history; step 2b.

use super::StoreFuture;

/// What is kept of conversations.
///
/// The access check runs beside step 1's commands in the same routes. It is SQL on the
/// messages, so it moves with chat history and goes on blocking until then.
pub trait HistoryStore: Send + Sync {
    /// SELECT the conversation, COUNT its messages.
    fn access<'a>(&'a self, uid: &'a str, conversation_id: &'a str) -> StoreFuture<'a, Access>;
    /// INSERT what an agent had said when its user stopped it. `None` if the conversation
    /// isn't the user's.
    fn save_partial<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        content: &'a str,
    ) -> StoreFuture<'a, Option<String>>;
}

/// What a user may do with a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read it: it is theirs, public, or shared with them. It has this many messages.
    Allowed {
        /// Messages of all kinds. The original counts them in the same check, for answers
        /// that other routes give.
        messages: i64,
    },
    /// Nothing: it is somebody else's.
    Denied,
    /// There is none.
    Missing,
}
