//! What a record keeps of a version that it measured: what ran, how it was reached, or where its
//! numbers were taken from.

use serde::{Deserialize, Serialize};

use super::Imported;

/// What one arm ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// The command that started it, if it was started here.
    pub command: Option<String>,
    /// The URL, if it was running already.
    pub url: Option<String>,
    /// Commit of the service, where it is known.
    pub git: Option<String>,
    /// How it was reached, where that isn't the usual way: directly, every certificate verified,
    /// TLS sessions resumed by the user who had them. Since 1.3.
    #[serde(default)]
    pub access: Option<ArmAccess>,
    /// Where its numbers come from, if another tool measured it. Since 1.4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
}

/// How an arm was reached, where its URL doesn't tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmAccess {
    /// No certificate was verified: anybody may have answered.
    pub insecure: bool,
    /// Every TLS handshake was a full one.
    pub full_handshakes: bool,
    /// The proxy between, without its credentials.
    pub proxy: Option<String>,
}
