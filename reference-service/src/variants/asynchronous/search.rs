//! Step 5 after: sqlx, awaited. And whose an API key is, of step 2c.

use super::postgres::{PostgresStores, acquire, store_error};
use crate::search::{Indexed, Search};
use crate::stores::StoreFuture;
use crate::stores::api_keys::ApiKeyStore;
use crate::stores::search::SearchStore;

impl SearchStore for PostgresStores {
    fn find<'a>(
        &'a self,
        uid: &'a str,
        search: &'a Search,
    ) -> StoreFuture<'a, Option<Vec<Indexed>>> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let project =
                sqlx::query_file!("sql/select_project_of_user.sql", search.project_id, uid)
                    .fetch_optional(&mut *connection)
                    .await
                    .map_err(store_error)?;
            if project.is_none() {
                return Ok(None);
            }
            let patterns = search.patterns();
            let rows = sqlx::query_file_as!(
                Indexed,
                "sql/search.sql",
                search.project_id,
                &patterns,
                &patterns,
                &patterns
            )
            .fetch_all(&mut *connection)
            .await
            .map_err(store_error)?;
            Ok(Some(rows))
        })
    }
}

impl ApiKeyStore for PostgresStores {
    fn user_of_key<'a>(&'a self, key_hash: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let row = sqlx::query_file!("sql/select_user_of_key.sql", key_hash)
                .fetch_optional(&mut *connection)
                .await
                .map_err(store_error)?;
            Ok(row.map(|row| row.user_id))
        })
    }

    fn is_user<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let user = sqlx::query_file!("sql/select_user_by_uid.sql", uid)
                .fetch_optional(&mut *connection)
                .await
                .map_err(store_error)?;
            Ok(user.is_some())
        })
    }
}
