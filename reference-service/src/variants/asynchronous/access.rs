//! The access check, awaited in every state of the migration.

use std::sync::Arc;

use sqlx::PgPool;

use super::postgres::{acquire, pool, store_error};
use crate::stores::StoreFuture;
use crate::stores::access::{Access, AccessStore};
use crate::variants::ConnectError;

/// Opens the check's own pool.
pub(crate) async fn open(database_url: &str) -> Result<Arc<dyn AccessStore>, ConnectError> {
    Ok(Arc::new(PostgresAccess {
        pool: pool(database_url).await?,
    }))
}

struct PostgresAccess {
    pool: PgPool,
}

impl AccessStore for PostgresAccess {
    fn access<'a>(&'a self, uid: &'a str, conversation_id: &'a str) -> StoreFuture<'a, Access> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let may_read = sqlx::query_file_scalar!("sql/select_access.sql", uid, conversation_id)
                .fetch_optional(&mut *connection)
                .await
                .map_err(store_error)?;
            match may_read {
                None => Ok(Access::Missing),
                Some(false) => Ok(Access::Denied),
                Some(true) => {
                    let messages =
                        sqlx::query_file_scalar!("sql/count_messages.sql", conversation_id)
                            .fetch_one(&mut *connection)
                            .await
                            .map_err(store_error)?;
                    Ok(Access::Allowed { messages })
                }
            }
        })
    }
}
