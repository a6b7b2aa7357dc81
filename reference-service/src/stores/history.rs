//! Chat history; step 2b.

use super::StoreFuture;
use crate::chat_history::AgentMessage;

/// What is kept of conversations, as routes write it. The agent's worker has a way of its own
/// (`worker::journal`), with the same statements.
pub trait HistoryStore: Send + Sync {
    /// INSERT what an agent has said, as far as it came. False if nothing was written: the
    /// conversation isn't the user's, or more is stored under the message's id already.
    fn save_answer<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        message: &'a AgentMessage,
    ) -> StoreFuture<'a, bool>;
}
