//! Accounts at the start: all that a request asks of them is one call on a thread.

use super::sql::Sql;
use crate::auth::sign_in::{SignIn, SignedIn};
use crate::auth::sign_up::{SignUp, SignedUp};
use crate::auth::{Client, Provider};
use crate::stores::StoreFuture;
use crate::stores::auth::AuthStore;

impl AuthStore for Sql {
    fn sign_in<'a>(&'a self, request: &'a SignIn) -> StoreFuture<'a, SignedIn> {
        let request = request.clone();
        self.call(async move |stores| stores.sign_in(&request).await)
    }

    fn sign_up<'a>(&'a self, request: &'a SignUp, client: &'a Client) -> StoreFuture<'a, SignedUp> {
        let (request, client) = (request.clone(), client.clone());
        self.call(async move |stores| stores.sign_up(&request, &client).await)
    }

    fn providers_of<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, Vec<Provider>> {
        let uid = uid.to_owned();
        self.call(async move |stores| stores.providers_of(&uid).await)
    }
}
