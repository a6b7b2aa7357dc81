//! The door to code hosts beyond git itself: what only their own interface can do.

use super::Answer;
use super::workbench::OpenedPullRequest;
use crate::domain::{AuthToken, BranchName, PlatformError, RepoUrl};

/// A pull request to be made.
#[derive(Debug, Clone, Copy)]
pub struct PullRequestDraft<'a> {
    /// In which repository.
    pub url: &'a RepoUrl,
    /// Of which branch, which is pushed.
    pub branch: &'a BranchName,
    /// Into which branch.
    pub into: &'a BranchName,
    /// Its title.
    pub title: &'a str,
    /// What it says.
    pub body: &'a str,
    /// With which access.
    pub token: Option<&'a AuthToken>,
}

/// A code host.
pub trait GitPlatformProvider: Send + Sync {
    /// Makes a pull request. One that is open for the branch already is answered as it is.
    ///
    /// # Errors
    /// `PullRequestFailed` with what the host said, `NotConfigured` when this isn't a host that it knows.
    fn create_pull_request<'a>(
        &'a self,
        draft: PullRequestDraft<'a>,
    ) -> Answer<'a, OpenedPullRequest, PlatformError>;
}
