//! Signing in through a sign-in service.
//!
//! The statements are the original's, those included that it makes twice or three times to learn
//! the same thing: nine SELECTs and three commits for a sign-in that succeeds. Their number is
//! what blocks the loop before step 2d, so none is saved here.

use uuid::Uuid;

use super::id_token::Identity;
use super::{AuditEvent, Client, GITHUB, NewProvider, NewUser, PendingLink, User};
use crate::email;
use crate::stores::StoreError;
use crate::stores::auth::AuthSession;

/// A sign-in whose token was good.
#[derive(Debug, Clone)]
pub struct SignIn {
    /// What the token vouches for.
    pub identity: Identity,
    /// What the provider told, as JSON.
    pub provider_data: String,
    /// How to call a user who has no account yet.
    pub display_name: String,
    /// Who asked.
    pub client: Client,
}

/// What came of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedIn {
    /// The account is theirs.
    Success {
        /// The account.
        user: User,
        /// Whether they must link GitHub before they can go on.
        needs_github_linking: bool,
    },
    /// There is an account with that address, and it was never signed in to this way.
    NeedsLinking {
        /// The account.
        user: User,
        /// What their consent has to show.
        linking_token: String,
        /// The ways in which it is signed in to.
        existing_providers: Vec<String>,
    },
    /// There was no account; now there is.
    NewUser(User),
    /// There is no account, and the address is a private one.
    PersonalAddress,
    /// There is no account with that address, but one that has this provider or this uid.
    BelongsToAnother,
}

/// Signs in, or makes an account.
///
/// # Errors
/// [`StoreError`] if the database doesn't answer.
pub async fn sign_in(
    session: &mut dyn AuthSession,
    request: &SignIn,
) -> Result<SignedIn, StoreError> {
    let address = &request.identity.email;
    // The route asks whether the address is a known one; then its service asks again.
    let is_known = session.user_by_email(address).await?.is_some();
    if !is_known && email::is_personal(address) {
        return Ok(SignedIn::PersonalAddress);
    }
    if let Some(user) = session.user_by_email(address).await? {
        return existing(session, request, user).await;
    }
    if let Some(user) = create(session, request).await? {
        return Ok(SignedIn::NewUser(user));
    }
    // Somebody else was faster, most likely the same user in another tab.
    match session.user_by_email(address).await? {
        Some(user) => existing(session, request, user).await,
        None => Ok(SignedIn::BelongsToAnother),
    }
}

async fn existing(
    session: &mut dyn AuthSession,
    request: &SignIn,
    user: User,
) -> Result<SignedIn, StoreError> {
    let provider_type = request.identity.provider_type.as_str();
    session.providers_of(&user.uid).await?;
    if session.provider(&user.uid, provider_type).await?.is_none() {
        return ask_for_consent(session, request, user).await;
    }
    session.user_by_uid(&user.uid).await?;
    session.providers_of(&user.uid).await?;
    if !has_github(session, &user.uid).await? {
        session.record_login(&user.uid).await?;
        let event = event(&user.uid, provider_type, "login_blocked_github", "pending");
        session.record_event(&event, &request.client).await?;
        return Ok(SignedIn::Success {
            user,
            needs_github_linking: true,
        });
    }
    if let Some(provider) = session.provider(&user.uid, provider_type).await? {
        session.record_use(&provider.id).await?;
    }
    session.record_login(&user.uid).await?;
    let event = event(&user.uid, provider_type, "login", "success");
    session.record_event(&event, &request.client).await?;
    Ok(SignedIn::Success {
        user,
        needs_github_linking: false,
    })
}

async fn ask_for_consent(
    session: &mut dyn AuthSession,
    request: &SignIn,
    user: User,
) -> Result<SignedIn, StoreError> {
    let providers = session.providers_of(&user.uid).await?;
    let link = PendingLink {
        token: Uuid::new_v4().to_string(),
        user_id: user.uid.clone(),
        provider_type: request.identity.provider_type.clone(),
        provider_uid: request.identity.provider_uid.clone(),
        provider_data: request.provider_data.clone(),
    };
    session.add_pending_link(&link, &request.client).await?;
    let event = event(&user.uid, &link.provider_type, "needs_linking", "pending");
    session.record_event(&event, &request.client).await?;
    Ok(SignedIn::NeedsLinking {
        user,
        linking_token: link.token,
        existing_providers: providers
            .into_iter()
            .map(|provider| provider.provider_type)
            .collect(),
    })
}

/// `None` if the uid, the address or the provider is somebody's by now.
async fn create(
    session: &mut dyn AuthSession,
    request: &SignIn,
) -> Result<Option<User>, StoreError> {
    let identity = &request.identity;
    let user = NewUser {
        uid: identity.provider_uid.clone(),
        email: identity.email.clone(),
        display_name: request.display_name.clone(),
        email_verified: true,
    };
    let provider = NewProvider {
        user_id: user.uid.clone(),
        provider_type: identity.provider_type.clone(),
        provider_uid: identity.provider_uid.clone(),
        provider_data: request.provider_data.clone(),
        is_primary: true,
    };
    if !session
        .create_user(&user, &provider, &request.client)
        .await?
    {
        return Ok(None);
    }
    let event = event(&user.uid, &provider.provider_type, "signup", "success");
    session.record_event(&event, &request.client).await?;
    Ok(Some(User {
        uid: user.uid,
        email: user.email,
        display_name: Some(user.display_name),
    }))
}

/// Asks for the account first, as the original does.
pub(super) async fn has_github(
    session: &mut dyn AuthSession,
    uid: &str,
) -> Result<bool, StoreError> {
    Ok(session.user_by_uid(uid).await?.is_some() && session.provider(uid, GITHUB).await?.is_some())
}

pub(super) fn event<'a>(
    user_id: &'a str,
    provider_type: &'a str,
    event_type: &'static str,
    status: &'static str,
) -> AuditEvent<'a> {
    AuditEvent {
        user_id,
        event_type,
        provider_type,
        status,
    }
}
