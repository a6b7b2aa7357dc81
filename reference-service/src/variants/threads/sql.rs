//! The stores in PostgreSQL at the start, but accounts: each call on a thread, each in a session
//! of its own.

use std::sync::Arc;

use super::{CallPool, OnThreads};
use crate::conversation::{Created, NewConversation};
use crate::repositories::{Known, Project};
use crate::sharing::{Change, Changed, Sharing};
use crate::stores::history::HistoryStore;
use crate::stores::repositories::RepositoryStore;
use crate::stores::sharing::SharingStore;
use crate::stores::{ConversationStore, SqlStores, StoreFuture, UsageStore};
use crate::usage::{Usage, Window};

/// The blocking stores, called on threads.
pub(crate) fn stores(blocking: Arc<dyn SqlStores>, pool: &CallPool) -> Arc<dyn SqlStores> {
    Arc::new(OnThreads::in_sessions(blocking, pool))
}

pub(super) type Sql = OnThreads<dyn SqlStores>;

impl UsageStore for Sql {
    fn usage<'a>(&'a self, uid: &'a str, window: Window) -> StoreFuture<'a, Usage> {
        let uid = uid.to_owned();
        self.call(async move |stores| stores.usage(&uid, window).await)
    }
}

impl ConversationStore for Sql {
    fn create<'a>(&'a self, new: &'a NewConversation) -> StoreFuture<'a, Created> {
        let new = new.clone();
        self.call(async move |stores| stores.create(&new).await)
    }
}

impl HistoryStore for Sql {
    fn save_partial<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        content: &'a str,
    ) -> StoreFuture<'a, Option<String>> {
        let [uid, conversation_id, content] = [uid, conversation_id, content].map(str::to_owned);
        self.call(async move |stores| stores.save_partial(&uid, &conversation_id, &content).await)
    }
}

impl SharingStore for Sql {
    fn sharing<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
    ) -> StoreFuture<'a, Option<Sharing>> {
        let [conversation_id, owner] = [conversation_id, owner].map(str::to_owned);
        self.call(async move |stores| stores.sharing(&conversation_id, &owner).await)
    }

    fn change<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
        change: &'a Change,
    ) -> StoreFuture<'a, Changed> {
        let [conversation_id, owner] = [conversation_id, owner].map(str::to_owned);
        let change = change.clone();
        self.call(async move |stores| stores.change(&conversation_id, &owner, &change).await)
    }
}

impl RepositoryStore for Sql {
    fn known<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, Known> {
        let uid = uid.to_owned();
        self.call(async move |stores| stores.known(&uid).await)
    }

    fn project<'a>(&'a self, id: &'a str, uid: &'a str) -> StoreFuture<'a, Option<Project>> {
        let [id, uid] = [id, uid].map(str::to_owned);
        self.call(async move |stores| stores.project(&id, &uid).await)
    }
}
