//! Signing up, and what else the same route does: it links GitHub to an account, lets linked
//! GitHub accounts in, and greets accounts that exist.

use super::sign_in::{event, has_github};
use super::{Client, EMAIL_PASSWORD, GITHUB, NewProvider, NewUser};
use crate::email;
use crate::stores::StoreError;
use crate::stores::auth::AuthSession;

/// A sign-up that passed validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignUp {
    /// The account's id.
    pub uid: String,
    /// Its address, in lower case.
    pub email: String,
    /// How to call its owner, if they said so.
    pub display_name: Option<String>,
    /// Whether somebody has checked the address.
    pub email_verified: bool,
    /// The GitHub account, if the sign-up came from there.
    pub github: Option<GitHub>,
    /// What the provider told, as JSON.
    pub provider_data: String,
}

/// A GitHub account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHub {
    /// Its id.
    pub provider_uid: String,
    /// The account to link it to, if it is to be linked.
    pub link_to: Option<String>,
}

/// What came of a sign-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedUp {
    /// There is such an account.
    Exists {
        /// Its id.
        uid: String,
        /// Whether GitHub is not linked to it.
        needs_github_linking: bool,
    },
    /// There was none; now there is.
    Created {
        /// Its id.
        uid: String,
    },
    /// There is no account to link GitHub to.
    NothingToLinkTo,
    /// A GitHub account that nobody has linked.
    UnknownGitHub,
    /// The GitHub account is linked to somebody else's account.
    GitHubOfAnother,
    /// The address is another account's.
    EmailOfAnother,
}

/// Does what a sign-up asks for.
///
/// # Errors
/// [`StoreError`] if the database doesn't answer.
pub async fn sign_up(
    session: &mut dyn AuthSession,
    request: &SignUp,
    client: &Client,
) -> Result<SignedUp, StoreError> {
    match &request.github {
        Some(GitHub {
            provider_uid,
            link_to: Some(uid),
        }) => link(session, request, client, uid, provider_uid).await,
        Some(GitHub {
            provider_uid,
            link_to: None,
        }) => enter(session, provider_uid).await,
        None => by_address(session, request, client).await,
    }
}

/// Links a GitHub account.
async fn link(
    session: &mut dyn AuthSession,
    request: &SignUp,
    client: &Client,
    uid: &str,
    provider_uid: &str,
) -> Result<SignedUp, StoreError> {
    let linked = SignedUp::Exists {
        uid: uid.to_owned(),
        needs_github_linking: false,
    };
    if session.user_by_uid(uid).await?.is_none() {
        return Ok(SignedUp::NothingToLinkTo);
    }
    if session.provider(uid, GITHUB).await?.is_some() {
        return Ok(linked);
    }
    let owner = session.provider_by_uid(GITHUB, provider_uid).await?;
    if owner.is_some() {
        return Ok(SignedUp::GitHubOfAnother);
    }
    let is_first = session.providers_of(uid).await?.is_empty();
    let provider = NewProvider {
        user_id: uid.to_owned(),
        provider_type: GITHUB.to_owned(),
        provider_uid: provider_uid.to_owned(),
        provider_data: request.provider_data.clone(),
        is_primary: is_first,
    };
    if !session.add_provider(&provider, client).await? {
        // Taken since it was looked for; by whom doesn't matter to who comes second.
        return Ok(SignedUp::GitHubOfAnother);
    }
    let event = event(uid, GITHUB, "link_provider", "success");
    session.record_event(&event, client).await?;
    Ok(linked)
}

/// Lets a linked GitHub account in; new accounts aren't made from GitHub.
async fn enter(session: &mut dyn AuthSession, provider_uid: &str) -> Result<SignedUp, StoreError> {
    let Some(provider) = session.provider_by_uid(GITHUB, provider_uid).await? else {
        return Ok(SignedUp::UnknownGitHub);
    };
    session.user_by_uid(&provider.user_id).await?;
    session.record_login(&provider.user_id).await?;
    Ok(SignedUp::Exists {
        uid: provider.user_id,
        needs_github_linking: false,
    })
}

/// An address with a password: three SELECTs for an account that exists.
async fn by_address(
    session: &mut dyn AuthSession,
    request: &SignUp,
    client: &Client,
) -> Result<SignedUp, StoreError> {
    if let Some(user) = session.user_by_uid(&request.uid).await? {
        let needs_github_linking = !has_github(session, &user.uid).await?;
        return Ok(SignedUp::Exists {
            uid: user.uid,
            needs_github_linking,
        });
    }
    if session.user_by_email(&request.email).await?.is_some() {
        return Ok(SignedUp::EmailOfAnother);
    }
    let display_name = request
        .display_name
        .clone()
        .unwrap_or_else(|| email::local_part(&request.email).to_owned());
    let user = NewUser {
        uid: request.uid.clone(),
        email: request.email.clone(),
        display_name,
        email_verified: request.email_verified,
    };
    let provider = NewProvider {
        user_id: user.uid.clone(),
        provider_type: EMAIL_PASSWORD.to_owned(),
        provider_uid: user.uid.clone(),
        provider_data: request.provider_data.clone(),
        is_primary: true,
    };
    if !session.create_user(&user, &provider, client).await? {
        return Ok(SignedUp::EmailOfAnother);
    }
    let event = event(&user.uid, EMAIL_PASSWORD, "signup", "success");
    session.record_event(&event, client).await?;
    Ok(SignedUp::Created { uid: user.uid })
}
