//! Step 5 before: diesel on libpq, called on the loop. And whose an API key is, of step 2c.

use diesel::RunQueryDsl;
use diesel::sql_types::{Nullable, Text};

use super::auth::SELECT_USER_BY_UID;
use super::postgres::{PostgresStores, store_error};
use super::statement::{Bind, Statement};
use crate::search::{Indexed, Search};
use crate::stores::api_keys::ApiKeyStore;
use crate::stores::search::SearchStore;
use crate::stores::{StoreError, StoreFuture};

pub(super) const SELECT_PROJECT_OF_USER: &str =
    include_str!("../../../sql/select_project_of_user.sql");
pub(super) const SEARCH: &str = include_str!("../../../sql/search.sql");
pub(super) const SELECT_USER_OF_KEY: &str = include_str!("../../../sql/select_user_of_key.sql");

type Row = (String, String, String, String);

impl SearchStore for PostgresStores {
    fn find<'a>(
        &'a self,
        uid: &'a str,
        search: &'a Search,
    ) -> StoreFuture<'a, Option<Vec<Indexed>>> {
        Box::pin(async move { self.find_blocking(uid, search) })
    }
}

impl ApiKeyStore for PostgresStores {
    fn user_of_key<'a>(&'a self, key_hash: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let mut connection = self.pool.get()?;
            let binds = [Bind::Text(key_hash)];
            let users: Vec<String> = Statement::<Text>::new(SELECT_USER_OF_KEY, &binds)
                .load(&mut *connection)
                .map_err(store_error)?;
            Ok(users.into_iter().next())
        })
    }

    fn is_user<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut connection = self.pool.get()?;
            let binds = [Bind::Text(uid)];
            let users: Vec<(String, String, Option<String>)> =
                Statement::<(Text, Text, Nullable<Text>)>::new(SELECT_USER_BY_UID, &binds)
                    .load(&mut *connection)
                    .map_err(store_error)?;
            Ok(!users.is_empty())
        })
    }
}

impl PostgresStores {
    fn find_blocking(
        &self,
        uid: &str,
        search: &Search,
    ) -> Result<Option<Vec<Indexed>>, StoreError> {
        let mut connection = self.pool.get()?;
        let binds = [Bind::Text(&search.project_id), Bind::Text(uid)];
        let projects: Vec<String> = Statement::<Text>::new(SELECT_PROJECT_OF_USER, &binds)
            .load(&mut *connection)
            .map_err(store_error)?;
        if projects.is_empty() {
            return Ok(None);
        }
        let patterns = search.patterns();
        let binds = [
            Bind::Text(&search.project_id),
            Bind::Texts(&patterns),
            Bind::Texts(&patterns),
            Bind::Texts(&patterns),
        ];
        let rows: Vec<Row> = Statement::<(Text, Text, Text, Text)>::new(SEARCH, &binds)
            .load(&mut *connection)
            .map_err(store_error)?;
        Ok(Some(rows.into_iter().map(indexed).collect()))
    }
}

fn indexed((node_id, name, file_path, content): Row) -> Indexed {
    Indexed {
        node_id,
        name,
        file_path,
        content,
    }
}
