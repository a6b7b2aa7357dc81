//! Step 2b before: chat history through diesel, called on the loop.

use diesel::RunQueryDsl;
use diesel::sql_types::{BigInt, Bool};

use super::postgres::{PostgresStores, execute, store_error};
use super::statement::{Bind, Statement};
use crate::conversation::fresh_id;
use crate::stores::history::{Access, HistoryStore};
use crate::stores::{StoreError, StoreFuture};

pub(super) const SELECT_ACCESS: &str = include_str!("../../../sql/select_access.sql");
pub(super) const COUNT_MESSAGES: &str = include_str!("../../../sql/count_messages.sql");
pub(super) const INSERT_PARTIAL_MESSAGE: &str =
    include_str!("../../../sql/insert_partial_message.sql");

impl HistoryStore for PostgresStores {
    fn access<'a>(&'a self, uid: &'a str, conversation_id: &'a str) -> StoreFuture<'a, Access> {
        Box::pin(async move { self.access_blocking(uid, conversation_id) })
    }

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
    fn access_blocking(&self, uid: &str, conversation_id: &str) -> Result<Access, StoreError> {
        let mut connection = self.pool.get()?;
        let binds = [Bind::Text(uid), Bind::Text(conversation_id)];
        let may_read: Vec<bool> = Statement::<Bool>::new(SELECT_ACCESS, &binds)
            .load(&mut *connection)
            .map_err(store_error)?;
        match may_read.first() {
            None => Ok(Access::Missing),
            Some(false) => Ok(Access::Denied),
            Some(true) => {
                let binds = [Bind::Text(conversation_id)];
                let messages: i64 = Statement::<BigInt>::new(COUNT_MESSAGES, &binds)
                    .get_result(&mut *connection)
                    .map_err(store_error)?;
                Ok(Access::Allowed { messages })
            }
        }
    }

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
