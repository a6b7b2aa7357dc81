//! Step 2b before: chat history through diesel, called on the loop.

use super::postgres::{PostgresStores, execute, store_error};
use super::statement::Bind;
use crate::conversation::fresh_id;
use crate::stores::history::HistoryStore;
use crate::stores::{StoreError, StoreFuture};

pub(super) const INSERT_PARTIAL_MESSAGE: &str =
    include_str!("../../../sql/insert_partial_message.sql");

impl HistoryStore for PostgresStores {
    fn save_partial<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        content: &'a str,
    ) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move { self.save_partial_blocking(uid, conversation_id, content) })
    }
}

impl PostgresStores {
    fn save_partial_blocking(
        &self,
        uid: &str,
        conversation_id: &str,
        content: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut connection = self.pool.get()?;
        let id = fresh_id();
        let binds = [
            Bind::Text(&id),
            Bind::Text(content),
            Bind::Text(conversation_id),
            Bind::Text(uid),
        ];
        let stored =
            execute(&mut connection, INSERT_PARTIAL_MESSAGE, &binds).map_err(store_error)?;
        Ok((stored == 1).then_some(id))
    }
}
