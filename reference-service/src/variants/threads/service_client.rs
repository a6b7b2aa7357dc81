//! Services at the start: the synchronous POST on a thread, still without a time limit.

use serde_json::Value;

use super::OnThreads;
use crate::service_client::{Answer, CallFuture, ServiceClient};

impl ServiceClient for OnThreads<dyn ServiceClient> {
    fn post<'a>(&'a self, path: &'a str, body: &'a Value) -> CallFuture<'a, Answer> {
        let (path, body) = (path.to_owned(), body.clone());
        self.call(async move |service| service.post(&path, &body).await)
    }
}
