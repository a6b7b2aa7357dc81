//! Accounts and the ways to sign in to them; step 2d.
//!
//! One statement or one transaction per method of a session, so that the order of statements, which
//! is what a step's round trips are made of, is written once for all variants (`auth/sign_in.rs` and
//! `auth/sign_up.rs`).

use super::StoreFuture;
use crate::auth::sign_in::{self, SignIn, SignedIn};
use crate::auth::sign_up::{self, SignUp, SignedUp};
use crate::auth::{
    AuditEvent, Client, NewProvider, NewUser, PendingLink, Provider, ProviderKey, User,
};

/// What routes ask of accounts: each in a session that ends with it.
pub trait AuthStore: Send + Sync {
    /// See [`sign_in::sign_in`].
    fn sign_in<'a>(&'a self, request: &'a SignIn) -> StoreFuture<'a, SignedIn>;
    /// See [`sign_up::sign_up`].
    fn sign_up<'a>(&'a self, request: &'a SignUp, client: &'a Client) -> StoreFuture<'a, SignedUp>;
    /// See [`AuthSession::providers_of`].
    fn providers_of<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, Vec<Provider>>;
}

impl<S: AuthSessions> AuthStore for S {
    fn sign_in<'a>(&'a self, request: &'a SignIn) -> StoreFuture<'a, SignedIn> {
        Box::pin(async move { sign_in::sign_in(&mut *self.session().await?, request).await })
    }

    fn sign_up<'a>(&'a self, request: &'a SignUp, client: &'a Client) -> StoreFuture<'a, SignedUp> {
        Box::pin(
            async move { sign_up::sign_up(&mut *self.session().await?, request, client).await },
        )
    }

    fn providers_of<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, Vec<Provider>> {
        Box::pin(async move { self.session().await?.providers_of(uid).await })
    }
}

/// Where accounts are kept.
pub trait AuthSessions: Send + Sync {
    /// Takes a connection for the statements of one request.
    fn session(&self) -> StoreFuture<'_, Box<dyn AuthSession + '_>>;
}

/// A connection on loan. It must not be held while anything but the database is waited for: in
/// the blocking variant others would wait for it on the loop.
pub trait AuthSession: Send {
    /// SELECT: the account, if there is one.
    fn user_by_uid<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Option<User>>;
    /// SELECT: the account with that address, if there is one.
    fn user_by_email<'a>(&'a mut self, email: &'a str) -> StoreFuture<'a, Option<User>>;
    /// SELECT: all ways to sign in to an account, the primary one first.
    fn providers_of<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Vec<Provider>>;
    /// SELECT: an account's provider of a type, if it has one.
    fn provider<'a>(
        &'a mut self,
        uid: &'a str,
        provider_type: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>>;
    /// SELECT: whoever has that account at a provider.
    fn provider_by_uid<'a>(
        &'a mut self,
        provider_type: &'a str,
        provider_uid: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>>;
    /// INSERT, INSERT, COMMIT: an account with its first provider. `false` if the uid, the address
    /// or the provider is somebody's already; then nothing is written.
    fn create_user<'a>(
        &'a mut self,
        user: &'a NewUser,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool>;
    /// INSERT, COMMIT: a further provider. `false` if it is somebody's already.
    fn add_provider<'a>(
        &'a mut self,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool>;
    /// INSERT, COMMIT: a provider that waits for its user's consent.
    fn add_pending_link<'a>(
        &'a mut self,
        link: &'a PendingLink,
        client: &'a Client,
    ) -> StoreFuture<'a, ()>;
    /// UPDATE, COMMIT: the provider was used now.
    fn record_use<'a>(&'a mut self, provider_id: &'a str) -> StoreFuture<'a, ()>;
    /// UPDATE, COMMIT: the user signed in now.
    fn record_login<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, ()>;
    /// INSERT, COMMIT: a line of the audit log.
    fn record_event<'a>(
        &'a mut self,
        event: &'a AuditEvent<'a>,
        client: &'a Client,
    ) -> StoreFuture<'a, ()>;
}
