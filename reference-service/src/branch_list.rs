//! A repository's branches as the cache keeps them: key and value.

use crate::stores::StoreError;

/// Where a repository's branches are cached.
#[must_use]
pub fn key(repository: &str) -> String {
    format!("repo_branches:{repository}")
}

/// Reads a value.
///
/// # Errors
/// [`StoreError::Malformed`] if it isn't a list of strings in JSON.
pub fn parse(key: &str, text: &str) -> Result<Vec<String>, StoreError> {
    serde_json::from_str(text).map_err(|source| StoreError::Malformed {
        key: key.to_owned(),
        source,
    })
}

/// Writes one.
#[must_use]
pub fn value(branches: &[String]) -> String {
    serde_json::json!(branches).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let branches = ["main", "feature/\"é\""].map(str::to_owned);
        let read = parse("k", &value(&branches)).expect("a list");
        assert_eq!(read, branches);
    }

    #[test]
    fn a_malformed_value_names_its_key() {
        let error = parse("repo_branches:x", r#"{"a":1}"#).expect_err("no list");
        assert!(error.to_string().contains("`repo_branches:x`"), "{error}");
    }
}
