//! What Redis holds about workspaces: keys and values.

use serde::Deserialize;

use crate::stores::StoreError;

/// A registered workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TunnelRecord {
    /// Its owner.
    pub user_id: String,
    /// Its repository.
    pub repo_url: Option<String>,
}

impl TunnelRecord {
    /// Reads the value of a key.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] if it isn't a record in JSON.
    pub fn parse(key: &str, text: &str) -> Result<Self, StoreError> {
        serde_json::from_str(text).map_err(|source| StoreError::Malformed {
            key: key.to_owned(),
            source,
        })
    }
}

/// Whether a text is a workspace's id: 16 lower-case hex digits.
#[must_use]
pub fn is_workspace_id(text: &str) -> bool {
    text.len() == 16
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Where a workspace's record is.
#[must_use]
pub fn record_key(workspace_id: &str) -> String {
    format!("workspace_tunnel:{workspace_id}")
}

/// Where the id of a workspace's socket is, while it is connected.
#[must_use]
pub fn socket_key(workspace_id: &str) -> String {
    format!("workspace:socket:{workspace_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_ids_are_sixteen_lower_hex_digits() {
        assert!(is_workspace_id("00000000000000a1"));
        for bad in [
            "",
            "00000000000000A1",
            "00000000000000a",
            "00000000000000a11",
            "00000000000000g1",
            "é000000000000a1",
        ] {
            assert!(!is_workspace_id(bad), "{bad}");
        }
    }

    #[test]
    fn a_malformed_value_names_its_key() {
        let error = TunnelRecord::parse("workspace_tunnel:x", "{").expect_err("not JSON");
        assert!(
            error.to_string().contains("`workspace_tunnel:x`"),
            "{error}"
        );
    }
}
