//! Accounts at the start: a request's session, each statement or transaction of it on a thread.

use super::HeldOnThreads;
use super::sql::Sql;
use crate::auth::{
    AuditEvent, Client, NewProvider, NewUser, PendingLink, Provider, ProviderKey, User,
};
use crate::stores::StoreFuture;
use crate::stores::auth::{AuthSession, AuthStore};

impl AuthStore for Sql {
    fn session(&self) -> StoreFuture<'_, Box<dyn AuthSession>> {
        Box::pin(async move {
            let session = self.call(async |stores| stores.session().await).await?;
            let held = HeldOnThreads::new(session, self.pool.clone());
            Ok(Box::new(held) as Box<dyn AuthSession>)
        })
    }
}

impl AuthSession for HeldOnThreads<dyn AuthSession> {
    fn user_by_uid<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Option<User>> {
        let uid = uid.to_owned();
        self.call(async move |session| session.user_by_uid(&uid).await)
    }

    fn user_by_email<'a>(&'a mut self, email: &'a str) -> StoreFuture<'a, Option<User>> {
        let email = email.to_owned();
        self.call(async move |session| session.user_by_email(&email).await)
    }

    fn providers_of<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Vec<Provider>> {
        let uid = uid.to_owned();
        self.call(async move |session| session.providers_of(&uid).await)
    }

    fn provider<'a>(
        &'a mut self,
        uid: &'a str,
        provider_type: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>> {
        let [uid, provider_type] = [uid, provider_type].map(str::to_owned);
        self.call(async move |session| session.provider(&uid, &provider_type).await)
    }

    fn provider_by_uid<'a>(
        &'a mut self,
        provider_type: &'a str,
        provider_uid: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>> {
        let [provider_type, uid] = [provider_type, provider_uid].map(str::to_owned);
        self.call(async move |session| session.provider_by_uid(&provider_type, &uid).await)
    }

    fn create_user<'a>(
        &'a mut self,
        user: &'a NewUser,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool> {
        let (user, provider, client) = (user.clone(), provider.clone(), client.clone());
        self.call(async move |session| session.create_user(&user, &provider, &client).await)
    }

    fn add_provider<'a>(
        &'a mut self,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool> {
        let (provider, client) = (provider.clone(), client.clone());
        self.call(async move |session| session.add_provider(&provider, &client).await)
    }

    fn add_pending_link<'a>(
        &'a mut self,
        link: &'a PendingLink,
        client: &'a Client,
    ) -> StoreFuture<'a, ()> {
        let (link, client) = (link.clone(), client.clone());
        self.call(async move |session| session.add_pending_link(&link, &client).await)
    }

    fn record_use<'a>(&'a mut self, provider_id: &'a str) -> StoreFuture<'a, ()> {
        let id = provider_id.to_owned();
        self.call(async move |session| session.record_use(&id).await)
    }

    fn record_login<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, ()> {
        let uid = uid.to_owned();
        self.call(async move |session| session.record_login(&uid).await)
    }

    fn record_event<'a>(
        &'a mut self,
        event: &'a AuditEvent<'a>,
        client: &'a Client,
    ) -> StoreFuture<'a, ()> {
        let [user_id, provider_type] = [event.user_id, event.provider_type].map(str::to_owned);
        let (event_type, status) = (event.event_type, event.status);
        let client = client.clone();
        self.call(async move |session| {
            let event = AuditEvent {
                user_id: &user_id,
                event_type,
                provider_type: &provider_type,
                status,
            };
            session.record_event(&event, &client).await
        })
    }
}
