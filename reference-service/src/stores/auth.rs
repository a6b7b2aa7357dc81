//! Accounts and the ways to sign in to them; step 2d.
//!
//! One statement or one transaction per method, so that the order of statements, which is what a
//! step's round trips are made of, is written once for both variants (`auth/sign_in.rs` and
//! `auth/sign_up.rs`).

use super::StoreFuture;
use crate::auth::{
    AuditEvent, Client, NewProvider, NewUser, PendingLink, Provider, ProviderKey, User,
};

/// Where accounts are kept.
pub trait AuthStore: Send + Sync {
    /// Takes a connection for the statements of one request.
    fn session(&self) -> StoreFuture<'_, Box<dyn AuthSession>>;
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
