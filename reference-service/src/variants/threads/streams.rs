//! Runs in Redis at the start: what the original wrapped whole is one call on a thread, and else each
//! command is, and each pause.

use std::sync::Arc;
use std::time::Duration;

use super::{CallPool, HeldOnThreads, OnThreads};
use crate::run::Run;
use crate::sessions::{Session, TaskStatus};
use crate::stores::StoreFuture;
use crate::stores::streams::{StreamConnection, StreamStore};
use crate::stream_event::{EntryWithId, Fields};

/// The blocking store, called on threads.
pub(crate) fn store(blocking: Arc<dyn StreamStore>, pool: &CallPool) -> Arc<dyn StreamStore> {
    Arc::new(OnThreads::new(blocking, pool))
}

impl StreamStore for OnThreads<dyn StreamStore> {
    fn connect(&self) -> StoreFuture<'_, Box<dyn StreamConnection>> {
        Box::pin(async move {
            let connection = self.call(async |store| store.connect().await).await?;
            let held = HeldOnThreads::new(connection, self.pool.clone());
            Ok(Box::new(held) as Box<dyn StreamConnection>)
        })
    }

    fn reserve<'a>(&'a self, conversation_id: &'a str, base: &'a str) -> StoreFuture<'a, Run> {
        let [id, base] = [conversation_id, base].map(str::to_owned);
        self.call(async move |store| store.reserve(&id, &base).await)
    }

    fn is_there<'a>(&'a self, run: &'a Run) -> StoreFuture<'a, bool> {
        let run = run.clone();
        self.call(async move |store| store.is_there(&run).await)
    }

    fn latest_session<'a>(&'a self, conversation_id: &'a str) -> StoreFuture<'a, Option<Session>> {
        let id = conversation_id.to_owned();
        self.call(async move |store| store.latest_session(&id).await)
    }

    fn task_status<'a>(&'a self, conversation_id: &'a str) -> StoreFuture<'a, Option<TaskStatus>> {
        let id = conversation_id.to_owned();
        self.call(async move |store| store.task_status(&id).await)
    }
}

impl StreamConnection for HeldOnThreads<dyn StreamConnection> {
    fn exists<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, bool> {
        let key = key.to_owned();
        self.call(async move |redis| redis.exists(&key).await)
    }

    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        let key = key.to_owned();
        self.call(async move |redis| redis.get(&key).await)
    }

    fn put<'a>(&'a mut self, key: &'a str, value: &'a str, ttl_s: i64) -> StoreFuture<'a, ()> {
        let [key, value] = [key, value].map(str::to_owned);
        self.call(async move |redis| redis.put(&key, &value, ttl_s).await)
    }

    fn claim<'a>(&'a mut self, key: &'a str, ttl_s: i64) -> StoreFuture<'a, bool> {
        let key = key.to_owned();
        self.call(async move |redis| redis.claim(&key, ttl_s).await)
    }

    fn delete<'a>(&'a mut self, keys: &'a [String]) -> StoreFuture<'a, ()> {
        let keys = keys.to_vec();
        self.call(async move |redis| redis.delete(&keys).await)
    }

    fn matching<'a>(&'a mut self, pattern: &'a str) -> StoreFuture<'a, Vec<String>> {
        let pattern = pattern.to_owned();
        self.call(async move |redis| redis.matching(&pattern).await)
    }

    fn first_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>> {
        let stream = stream.to_owned();
        self.call(async move |redis| redis.first_id(&stream).await)
    }

    fn last_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>> {
        let stream = stream.to_owned();
        self.call(async move |redis| redis.last_id(&stream).await)
    }

    fn entries<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Vec<EntryWithId>> {
        let stream = stream.to_owned();
        self.call(async move |redis| redis.entries(&stream).await)
    }

    fn append<'a>(&'a mut self, stream: &'a str, fields: Fields) -> StoreFuture<'a, ()> {
        let stream = stream.to_owned();
        self.call(async move |redis| redis.append(&stream, fields).await)
    }

    fn enqueue<'a>(&'a mut self, task: &'a str) -> StoreFuture<'a, ()> {
        let task = task.to_owned();
        self.call(async move |redis| redis.enqueue(&task).await)
    }

    fn pause(&mut self, time: Duration) -> StoreFuture<'_, ()> {
        self.call(async move |redis| redis.pause(time).await)
    }
}
