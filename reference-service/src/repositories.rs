//! A user's repositories: those of their projects, and those that the code host shows them.

use serde::Serialize;

use crate::hub::answers::{Installation, Organisation, Repository as Hosted};

/// Where a project's repository is, if the code host doesn't tell.
const PUBLIC_HOST: &str = "https://github.com";

/// What PostgreSQL knows of a user's repositories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The id of each repository's first project, and the repository's full name.
    pub projects: Vec<(String, String)>,
    /// The user's account at the code host, if one is linked.
    pub account: Option<HubAccount>,
}

/// An account at the code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubAccount {
    /// Its id there.
    pub provider_uid: String,
    /// Its name there.
    pub login: Option<String>,
}

/// A project, as far as the code host's routes need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its repository's full name.
    pub repo_name: String,
    /// The branch that it is about.
    pub branch_name: String,
}

/// A repository as it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repository {
    /// Whose numbering it is of says where it comes from.
    pub id: RepositoryId,
    /// Its name.
    pub name: String,
    /// Its owner's name and its own.
    pub full_name: String,
    /// Whether only some may see it.
    pub private: bool,
    /// Its page.
    pub url: String,
    /// Its owner's name.
    pub owner: String,
}

/// The code host's number, or a project's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RepositoryId {
    /// Told by the code host.
    Hosted(u64),
    /// Only known from a project.
    Project(String),
}

/// The installations that a user may see: their organisations', and their own.
///
/// The user's name at the code host is the stored one, by which the original matches, too. It is
/// what a sign-up said (`providerUsername`) and nobody has checked: who signs up with somebody
/// else's name is shown that person's private repositories. A service with real ones has to ask the
/// code host whose account it is.
#[must_use]
pub fn visible_installations(
    installations: Vec<Installation>,
    organisations: &[Organisation],
    login: Option<&str>,
) -> Vec<u64> {
    let is_visible = |installation: &Installation| {
        let owner = &installation.account;
        organisations.contains(owner) || login == Some(&owner.login)
    };
    let visible = installations.into_iter().filter(is_visible);
    visible.map(|installation| installation.id).collect()
}

/// The code host's repositories, then those that only projects know.
#[must_use]
pub fn combined(hosted: Vec<Hosted>, projects: Vec<(String, String)>) -> Vec<Repository> {
    let mut all: Vec<Repository> = Vec::with_capacity(hosted.len() + projects.len());
    let mut names = std::collections::HashSet::new();
    let hosted = hosted.into_iter().map(of_hub);
    let projects = projects
        .into_iter()
        .map(|(id, full_name)| of_project(id, full_name));
    for repository in hosted.chain(projects) {
        if names.insert(repository.full_name.clone()) {
            all.push(repository);
        }
    }
    all
}

fn of_hub(hosted: Hosted) -> Repository {
    Repository {
        id: RepositoryId::Hosted(hosted.id),
        name: hosted.name,
        full_name: hosted.full_name,
        private: hosted.private,
        url: hosted.html_url,
        owner: hosted.owner.login,
    }
}

fn of_project(id: String, full_name: String) -> Repository {
    let (owner, name) = full_name.split_once('/').unwrap_or(("", &full_name));
    Repository {
        id: RepositoryId::Project(id),
        name: name.to_owned(),
        url: format!("{PUBLIC_HOST}/{full_name}"),
        owner: owner.to_owned(),
        private: false,
        full_name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn organisation(login: &str) -> Organisation {
        Organisation {
            login: login.to_owned(),
        }
    }

    fn hosted(id: u64, owner: &str, name: &str) -> Hosted {
        Hosted {
            id,
            name: name.to_owned(),
            full_name: format!("{owner}/{name}"),
            private: true,
            html_url: format!("https://hub.test/{owner}/{name}"),
            owner: organisation(owner),
        }
    }

    #[test]
    fn a_user_sees_their_organisations_installations_and_their_own() {
        let installations: Vec<Installation> = ["a", "b", "me", "c"]
            .into_iter()
            .zip(1..)
            .map(|(login, id)| Installation {
                id,
                account: organisation(login),
            })
            .collect();
        let organisations = [organisation("c"), organisation("a"), organisation("none")];
        let seen = |login| visible_installations(installations.clone(), &organisations, login);
        assert_eq!(seen(Some("me")), [1, 3, 4]);
        assert_eq!(seen(None), [1, 4]);
    }

    #[test]
    fn each_repository_comes_once_and_the_code_host_knows_it_best() {
        let projects = [("p-1", "o/one"), ("p-2", "o/two"), ("p-3", "odd")]
            .map(|(id, name)| (id.to_owned(), name.to_owned()));
        let all = combined(
            vec![
                hosted(7, "o", "two"),
                hosted(8, "o", "three"),
                hosted(7, "o", "two"),
            ],
            projects.to_vec(),
        );
        let names: Vec<&str> = all.iter().map(|one| one.full_name.as_str()).collect();
        assert_eq!(names, ["o/two", "o/three", "o/one", "odd"]);
        assert_eq!(all[0].id, RepositoryId::Hosted(7));
        let text = serde_json::to_string(&all[2]).expect("JSON");
        assert_eq!(
            text,
            r#"{"id":"p-1","name":"one","full_name":"o/one","private":false,"url":"https://github.com/o/one","owner":"o"}"#
        );
        assert_eq!((&*all[3].owner, &*all[3].name), ("", "odd"));
    }
}
