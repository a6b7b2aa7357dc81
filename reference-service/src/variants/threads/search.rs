//! Search, and whose an API key is, at the start: on threads, each call in a session of its own.

use super::sql::Sql;
use crate::search::{Indexed, Search};
use crate::stores::StoreFuture;
use crate::stores::api_keys::ApiKeyStore;
use crate::stores::search::SearchStore;

impl SearchStore for Sql {
    fn find<'a>(
        &'a self,
        uid: &'a str,
        search: &'a Search,
    ) -> StoreFuture<'a, Option<Vec<Indexed>>> {
        let (uid, search) = (uid.to_owned(), search.clone());
        self.call(async move |stores| stores.find(&uid, &search).await)
    }
}

impl ApiKeyStore for Sql {
    fn user_of_key<'a>(&'a self, key_hash: &'a str) -> StoreFuture<'a, Option<String>> {
        let hash = key_hash.to_owned();
        self.call(async move |stores| stores.user_of_key(&hash).await)
    }

    fn is_user<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, bool> {
        let uid = uid.to_owned();
        self.call(async move |stores| stores.is_user(&uid).await)
    }
}
