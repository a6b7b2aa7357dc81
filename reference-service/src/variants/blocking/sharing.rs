//! Step 2c before: diesel on libpq, called on the loop.

use diesel::sql_types::{Array, Text};
use diesel::{PgConnection, QueryResult, RunQueryDsl};

use super::postgres::{PostgresStores, execute, store_error, transaction};
use super::statement::{Bind, Statement};
use crate::sharing::{Change, Changed, Sharing};
use crate::stores::sharing::SharingStore;
use crate::stores::{StoreError, StoreFuture};

pub(super) const SELECT_SHARING: &str = include_str!("../../../sql/select_sharing.sql");
pub(super) const UPDATE_SHARING: &str = include_str!("../../../sql/update_sharing.sql");

impl SharingStore for PostgresStores {
    fn sharing<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
    ) -> StoreFuture<'a, Option<Sharing>> {
        Box::pin(async move {
            let mut connection = self.pool.get()?;
            select(&mut connection, conversation_id, owner).map_err(store_error)
        })
    }

    fn change<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
        change: &'a Change,
    ) -> StoreFuture<'a, Changed> {
        Box::pin(async move { self.change_blocking(conversation_id, owner, change) })
    }
}

impl PostgresStores {
    fn change_blocking(
        &self,
        conversation_id: &str,
        owner: &str,
        change: &Change,
    ) -> Result<Changed, StoreError> {
        let mut connection = self.pool.get()?;
        transaction(&mut connection, |connection| {
            let Some(sharing) = select(connection, conversation_id, owner)? else {
                return Ok(Changed::NotFound);
            };
            let Some(changed) = change.applied_to(sharing) else {
                return Ok(Changed::NobodyHadAccess);
            };
            execute(
                connection,
                UPDATE_SHARING,
                &[
                    Bind::Text(&changed.visibility),
                    Bind::Texts(&changed.emails),
                    Bind::Text(conversation_id),
                ],
            )?;
            Ok(Changed::Yes)
        })
        .map_err(store_error)
    }
}

fn select(
    connection: &mut PgConnection,
    conversation_id: &str,
    owner: &str,
) -> QueryResult<Option<Sharing>> {
    let binds = [Bind::Text(conversation_id), Bind::Text(owner)];
    let rows: Vec<(String, Vec<String>)> =
        Statement::<(Text, Array<Text>)>::new(SELECT_SHARING, &binds).load(connection)?;
    let row = rows.into_iter().next();
    Ok(row.map(|(visibility, emails)| Sharing { visibility, emails }))
}
