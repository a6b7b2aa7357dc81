//! Accounts, the ways to sign in to them, and what signing up and in does.

pub mod id_token;
pub mod sign_in;
pub mod sign_up;

/// The provider type of a linked GitHub account.
pub const GITHUB: &str = "firebase_github";
/// The provider type of an address with a password.
pub const EMAIL_PASSWORD: &str = "firebase_email_password";

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its id.
    pub uid: String,
    /// Its address, in lower case.
    pub email: String,
    /// How to call its owner.
    pub display_name: Option<String>,
}

/// A way to sign in to an account, as its owner may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its id.
    pub id: String,
    /// The account.
    pub user_id: String,
    /// [`GITHUB`], [`EMAIL_PASSWORD`], or `sso_` and the name of a sign-in service.
    pub provider_type: String,
    /// The account's id at the provider.
    pub provider_uid: String,
    /// What the provider told, as JSON.
    pub provider_data: Option<String>,
    /// Whether it is the one that its owner prefers.
    pub is_primary: bool,
    /// RFC 3339, UTC.
    pub linked_at: String,
    /// RFC 3339, UTC.
    pub last_used_at: Option<String>,
}

/// Which provider a lookup found, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderKey {
    /// Its id.
    pub id: String,
    /// The account.
    pub user_id: String,
}

/// An account to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser {
    /// Its id.
    pub uid: String,
    /// Its address, in lower case.
    pub email: String,
    /// How to call its owner.
    pub display_name: String,
    /// Whether somebody has checked the address.
    pub email_verified: bool,
}

/// A provider to be linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProvider {
    /// The account.
    pub user_id: String,
    /// As [`Provider::provider_type`].
    pub provider_type: String,
    /// The account's id at the provider.
    pub provider_uid: String,
    /// What the provider told, as JSON.
    pub provider_data: String,
    /// Whether it is the one that its owner prefers.
    pub is_primary: bool,
}

/// A provider that waits for its user's consent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingLink {
    /// What the consent has to show.
    pub token: String,
    /// The account.
    pub user_id: String,
    /// As [`Provider::provider_type`].
    pub provider_type: String,
    /// The account's id at the provider.
    pub provider_uid: String,
    /// What the provider told, as JSON.
    pub provider_data: String,
}

/// A line of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditEvent<'a> {
    /// The account.
    pub user_id: &'a str,
    /// What happened.
    pub event_type: &'static str,
    /// By which provider.
    pub provider_type: &'a str,
    /// `success` or `pending`.
    pub status: &'static str,
}

/// Who asked, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Their address.
    pub ip: String,
    /// Their program.
    pub user_agent: Option<String>,
}
