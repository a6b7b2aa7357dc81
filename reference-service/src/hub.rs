//! The code host, such as GitHub: what the service asks of its API, and what comes of it.
//!
//! Whoever makes the calls (`stores::hub::HubClient`) only carries them over. What is asked, in
//! which order and how much of an answer is believed is said here once, for every state of the
//! migration.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;

use self::answers::{Branch, Installation, Organisation, Repository, RepositoryPage, Token, Tree};
use self::call::{Answer, Call};
use self::error::{Failure, HubError};
use crate::stores::hub::HubClient;

pub mod answers;
pub mod call;
pub mod error;

/// Entries of a list's page: the most that a hub gives.
pub const PER_PAGE: usize = 100;
/// Pages of a list that are asked for. A hub that goes on for longer is broken.
pub const PAGES_MAX: u32 = 100;
/// Bytes of an answer, or of all of a list's, that are read.
pub const BYTES_MAX: usize = 8 << 20;

/// How the service asks the code host.
#[derive(Clone)]
pub struct Hub {
    /// Makes the calls that step 4 moves: organisations, tokens, branches and trees.
    pub moved: Arc<dyn HubClient>,
    /// Makes those that were awaited before the migration: installations, and what each sees.
    pub awaited: Arc<dyn HubClient>,
}

impl Hub {
    /// The organisations of a user, by name. A call for each full page, and one.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn organisations(&self, github_uid: &str) -> Result<Vec<Organisation>, HubError> {
        let call = Call::get("/user/orgs").sent_by_user(github_uid);
        list(&*self.moved, &call, |page: Vec<Organisation>| page).await
    }

    /// Where the service is installed.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn installations(&self) -> Result<Vec<Installation>, HubError> {
        let call = Call::get("/app/installations").sent_by_app();
        list(&*self.awaited, &call, |page: Vec<Installation>| page).await
    }

    /// The repositories of some installations, in their order. Each costs a token first: the N + 1
    /// of this service. Before step 4 one installation follows the other; after it, some are asked
    /// about at a time.
    ///
    /// # Errors
    /// [`HubError`], of the first call that fails; what is on its way then is given up.
    pub async fn repositories(&self, installations: &[u64]) -> Result<Vec<Repository>, HubError> {
        let ids = installations.to_vec();
        let lists: Vec<Vec<Repository>> = stream::iter(ids)
            .map(|id| self.repositories_of(id))
            .buffered(self.moved.calls_at_once())
            .try_collect()
            .await?;
        Ok(lists.into_iter().flatten().collect())
    }

    async fn repositories_of(&self, installation: u64) -> Result<Vec<Repository>, HubError> {
        let call = Call::for_token(installation);
        let answer = self.moved.send(&call).await?.success(&call)?;
        let token: Token = parsed(&call, &answer)?;
        let call = Call::get("/installation/repositories").with_token(&token);
        let entries = |page: RepositoryPage| page.repositories;
        list(&*self.awaited, &call, entries).await
    }

    /// A repository's branches, by name; `None` if there is no such repository.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn branches(&self, repository: &str) -> Result<Option<Vec<String>>, HubError> {
        if !call::is_repository_name(repository) {
            return Ok(None);
        }
        let call = Call::get(&format!("/repos/{repository}/branches"));
        let branches = list(&*self.moved, &call, |page: Vec<Branch>| page).await;
        let branches = if_there(branches)?;
        Ok(branches.map(|list| list.into_iter().map(|branch| branch.name).collect()))
    }

    /// All files and folders of a branch, in one call; `None` if there is no such repository or
    /// branch.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn tree(&self, repository: &str, branch: &str) -> Result<Option<Tree>, HubError> {
        if !call::is_repository_name(repository) {
            return Ok(None);
        }
        let call = Call::for_tree(repository, branch);
        let answer = self.moved.send(&call).await?.success(&call);
        if_there(answer)?
            .map(|answer| parsed(&call, &answer))
            .transpose()
    }
}

/// What is listed, page by page until one isn't full.
async fn list<Page: DeserializeOwned, Entry>(
    client: &dyn HubClient,
    call: &Call,
    entries: impl Fn(Page) -> Vec<Entry>,
) -> Result<Vec<Entry>, HubError> {
    let mut found = Vec::new();
    let mut call = call.clone();
    for page in 1..=PAGES_MAX {
        call.page = Some(page);
        let answer = client.send(&call).await?.success(&call)?;
        call.bytes_max = call.bytes_max.saturating_sub(answer.body.len());
        let page = entries(parsed(&call, &answer)?);
        let is_last = page.len() < PER_PAGE;
        found.extend(page);
        if is_last {
            return Ok(found);
        }
    }
    Err(call.failed(Failure::Endless))
}

fn parsed<T: DeserializeOwned>(call: &Call, answer: &Answer) -> Result<T, HubError> {
    serde_json::from_slice(&answer.body).map_err(|error| call.failed(Failure::Malformed(error)))
}

/// A 404 is an answer of its own.
fn if_there<T>(answer: Result<T, HubError>) -> Result<Option<T>, HubError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(HubError {
            failure: Failure::Status(404),
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}
