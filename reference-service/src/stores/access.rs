//! Who may see a conversation: asked before a run is shown, and moved by no step.

use super::StoreFuture;

/// The access check.
///
/// Of the routes that make it, the original's list of what blocked the loop names Redis commands
/// and no SQL: the check never ran on the loop, before the migration or after it. So it is awaited
/// in every state here, from a pool of its own.
pub trait AccessStore: Send + Sync {
    /// SELECT the conversation, COUNT its messages.
    fn access<'a>(&'a self, uid: &'a str, conversation_id: &'a str) -> StoreFuture<'a, Access>;
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
