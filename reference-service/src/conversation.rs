//! A new conversation: what is asked for, what is written, and what comes of it.

use uuid::Uuid;

/// A conversation that passed validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewConversation {
    /// Its id: a UUID of version 7, so that ids sort by time.
    pub id: String,
    /// Its owner.
    pub user_id: String,
    /// Its title.
    pub title: String,
    /// `active`, `archived` or `deleted`.
    pub status: &'static str,
    /// Projects it is about; not empty.
    pub project_ids: Vec<String>,
    /// Agents that answer in it.
    pub agent_ids: Vec<String>,
}

/// A fresh id for a conversation or message.
#[must_use]
pub fn fresh_id() -> String {
    Uuid::now_v7().to_string()
}

/// What came of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// Written.
    Yes,
    /// Nothing was written: these projects don't exist.
    ProjectsMissing(Vec<String>),
}

/// One row of `sql/select_projects.sql`: id, repository.
pub type ProjectRow = (String, String);

/// The projects that were asked for and not found.
#[must_use]
pub fn missing_projects(asked: &[String], found: &[ProjectRow]) -> Vec<String> {
    asked
        .iter()
        .filter(|id| !found.iter().any(|(found, _)| found == *id))
        .cloned()
        .collect()
}

/// The message that opens a conversation.
#[must_use]
pub fn opening_message(asked: &[String], found: &[ProjectRow]) -> String {
    // In the order asked for: the database gives rows in any order.
    let repositories: Vec<&str> = asked
        .iter()
        .filter_map(|id| found.iter().find(|(found, _)| found == id))
        .map(|(_, repo_name)| repo_name.as_str())
        .collect();
    format!("Ask anything about {}.", repositories.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_matched_by_id_whatever_the_order() {
        let asked = ["p-2".to_owned(), "p-9".to_owned(), "p-1".to_owned()];
        let found = [
            ("p-1".to_owned(), "octo/one".to_owned()),
            ("p-2".to_owned(), "octo/two".to_owned()),
        ];
        assert_eq!(missing_projects(&asked, &found), ["p-9"]);
        assert_eq!(
            opening_message(&asked, &found),
            "Ask anything about octo/two, octo/one."
        );
    }
}
