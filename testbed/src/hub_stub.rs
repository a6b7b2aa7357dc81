//! Stands in for a code host: organisations, installations of an app with a token for each, the
//! repositories that a token may see, and what is in a repository, page by page and as slow as
//! stated.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_message::Request;
use crate::stub::{Reply, Stub};

const PER_PAGE_DEFAULT: u32 = 30;
const PER_PAGE_MAX: u32 = 100;
const TOKEN_PREFIX: &str = "installation-";

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hub {
    /// Installations, numbered from 1, each in an organisation of its own.
    pub installations: u32,
    /// Repositories that each of them sees.
    pub repositories: u32,
}

/// A code host on a free loopback port, with the routes
/// - [`HubStub::ORGS`][]: `[{id,login}]`;
/// - [`HubStub::INSTALLATIONS`][]: `[{id,account:{login}}]`;
/// - [`HubStub::TOKEN`][]: 201 `{token,expires_at}`, 404 for an unknown installation;
/// - [`HubStub::REPOSITORIES`][]: `{total_count,repositories:[{id,name,full_name,private,html_url,owner}]}`
///   for the token in `Authorization` (`Bearer …` or `token …`), else 401;
/// - [`HubStub::BRANCHES`][]: `[{name}]`, `main` and then `feature/1`, … ; 404 for an unknown
///   repository;
/// - [`HubStub::TREE`][]: `{sha,tree:[{path,type}],truncated}`, all levels whatever is asked for; 404
///   for an unknown repository or branch.
///
/// Known are the repositories of the installations, `octo/hello`, and `octo/project-1` and so on.
///
/// Lists take `per_page` (30, at most 100) and `page` (from 1). Every answer leaves after the stated
/// latency. A thread per connection.
#[derive(Debug)]
pub struct HubStub {
    stub: Stub,
}

impl HubStub {
    /// The route of organisations.
    pub const ORGS: &str = "GET /user/orgs";
    /// The route of installations.
    pub const INSTALLATIONS: &str = "GET /app/installations";
    /// The route of an installation's token.
    pub const TOKEN: &str = "POST /app/installations/{id}/access_tokens";
    /// The route of an installation's repositories.
    pub const REPOSITORIES: &str = "GET /installation/repositories";

    /// The route of a repository's branches.
    pub const BRANCHES: &str = "GET /repos/{owner}/{name}/branches";
    /// The route of all files of a branch.
    pub const TREE: &str = "GET /repos/{owner}/{name}/git/trees/{branch}";
    /// Branches of each repository.
    pub const BRANCHES_OF_EACH: u32 = 30;

    /// Starts it. `latency` runs from the request's last byte to the answer's first.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start(latency: Duration, hub: Hub) -> io::Result<Self> {
        let stub = Stub::start("hub-stub", latency, move |request| hub.answer(request))?;
        Ok(Self { stub })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.stub.addr()
    }

    /// `http://…` without a path.
    #[must_use]
    pub fn url(&self) -> String {
        self.stub.url()
    }

    /// Requests on a route so far, refused ones included.
    #[must_use]
    pub fn requests(&self, route: &str) -> u64 {
        self.stub.requests(route)
    }
}

impl Hub {
    fn answer(self, request: &Request) -> Reply {
        let words: Vec<&str> = request.path.split('/').skip(1).collect();
        match (request.method.as_str(), &words[..]) {
            ("GET", ["user", "orgs"]) => {
                let all = page(&request.query, self.installations).map(org);
                Reply::new(HubStub::ORGS, "200 OK", all.collect())
            }
            ("GET", ["app", "installations"]) => {
                let all = page(&request.query, self.installations)
                    .map(|n| json!({ "id": n, "account": org(n) }));
                Reply::new(HubStub::INSTALLATIONS, "200 OK", all.collect())
            }
            ("POST", ["app", "installations", id, "access_tokens"]) => self.token(id),
            ("GET", ["installation", "repositories"]) => self.repositories(request),
            ("GET", ["repos", owner, name, "branches"]) => {
                let page = page(&request.query, HubStub::BRANCHES_OF_EACH);
                let branches = page.map(|n| json!({ "name": branch(n) })).collect();
                self.of_repository(HubStub::BRANCHES, owner, name, Some(branches))
            }
            ("GET", ["repos", owner, name, "git", "trees", wanted]) => {
                let wanted = wanted.replace("%2F", "/");
                let is_there = (1..=HubStub::BRANCHES_OF_EACH).any(|n| branch(n) == wanted);
                self.of_repository(HubStub::TREE, owner, name, is_there.then(tree))
            }
            _ => Reply::new("other", "404 Not Found", message("Not Found")),
        }
    }

    /// What is in a repository, if both are there.
    fn of_repository(
        self,
        route: &'static str,
        owner: &str,
        name: &str,
        found: Option<Value>,
    ) -> Reply {
        match found.filter(|_| self.has_repository(owner, name)) {
            Some(body) => Reply::new(route, "200 OK", body),
            None => Reply::new(route, "404 Not Found", message("Not Found")),
        }
    }

    fn has_repository(self, owner: &str, name: &str) -> bool {
        let numbered = |prefix: &str, name: &str| -> Option<u32> {
            // What has no number behind the prefix is nothing that the hub has.
            name.strip_prefix(prefix)?.parse().ok()
        };
        match numbered("org-", owner) {
            Some(n) if (1..=self.installations).contains(&n) => {
                numbered("repository-", name).is_some_and(|n| (1..=self.repositories).contains(&n))
            }
            _ => {
                owner == "octo"
                    && (name == "hello" || numbered("project-", name).is_some_and(|n| n > 0))
            }
        }
    }

    fn token(self, id: &str) -> Reply {
        match self.installation(id) {
            Some(id) => Reply::new(
                HubStub::TOKEN,
                "201 Created",
                json!({ "token": format!("{TOKEN_PREFIX}{id}"), "expires_at": "2100-01-01T00:00:00Z" }),
            ),
            None => Reply::new(HubStub::TOKEN, "404 Not Found", message("Not Found")),
        }
    }

    fn repositories(self, request: &Request) -> Reply {
        let token = request
            .authorization
            .as_deref()
            .and_then(|value| value.split_once(' '))
            .and_then(|(_, token)| token.strip_prefix(TOKEN_PREFIX));
        let Some(id) = token.and_then(|id| self.installation(id)) else {
            let bad = message("Bad credentials");
            return Reply::new(HubStub::REPOSITORIES, "401 Unauthorized", bad);
        };
        let repositories: Vec<Value> = page(&request.query, self.repositories)
            .map(|n| self.repository(id, n))
            .collect();
        let body = json!({ "total_count": self.repositories, "repositories": repositories });
        Reply::new(HubStub::REPOSITORIES, "200 OK", body)
    }

    fn repository(self, installation: u32, n: u32) -> Value {
        let name = format!("repository-{n}");
        let full_name = format!("org-{installation}/{name}");
        json!({
            "id": u64::from(installation - 1) * u64::from(self.repositories) + u64::from(n),
            "name": name,
            "full_name": full_name,
            "private": n.is_multiple_of(2),
            "html_url": format!("https://hub.test/{full_name}"),
            "owner": org(installation),
        })
    }

    fn installation(self, id: &str) -> Option<u32> {
        let id = id.parse().ok()?; // not a number, not an id
        (1..=self.installations).contains(&id).then_some(id)
    }
}

fn org(n: u32) -> Value {
    json!({ "id": n, "login": format!("org-{n}") })
}

/// The `n`th branch, from 1.
fn branch(n: u32) -> String {
    match n {
        1 => "main".to_owned(),
        n => format!("feature/{}", n - 1),
    }
}

/// Some folders with some files each, and one that is deeper than the others.
fn tree() -> Value {
    let mut entries = vec![("README.md".to_owned(), "blob"), ("src".to_owned(), "tree")];
    for module in 1..=8 {
        let folder = format!("src/module-{module}");
        entries.push((folder.clone(), "tree"));
        entries.extend((1..=8).map(|file| (format!("{folder}/file-{file}.rs"), "blob")));
    }
    let deep = ["docs", "a", "b", "c", "d"];
    entries.extend((1..=deep.len()).map(|depth| (deep[..depth].join("/"), "tree")));
    entries.push((format!("{}/page.md", deep.join("/")), "blob"));
    let entries = entries.into_iter();
    let entries = entries.map(|(path, kind)| json!({ "path": path, "type": kind }));
    json!({ "sha": "0", "truncated": false, "tree": entries.collect::<Vec<Value>>() })
}

fn message(text: &str) -> Value {
    json!({ "message": text })
}

/// The numbers of a query's page, out of 1 to `total`. What isn't a number counts as not given.
fn page(query: &str, total: u32) -> Range<u32> {
    let number = |name: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(found, _)| *found == name)
            .and_then(|(_, value)| value.parse::<u32>().ok())
            .filter(|number| *number > 0)
    };
    let size = number("per_page")
        .unwrap_or(PER_PAGE_DEFAULT)
        .min(PER_PAGE_MAX);
    let skipped = (number("page").unwrap_or(1) - 1)
        .saturating_mul(size)
        .min(total);
    let last = skipped.saturating_add(size).min(total);
    skipped + 1..last + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUB: Hub = Hub {
        installations: 2,
        repositories: 45,
    };

    fn ask(method: &str, path: &str, query: &str, authorization: Option<&str>) -> Reply {
        HUB.answer(&Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            authorization: authorization.map(str::to_owned),
            ..Request::default()
        })
    }

    #[test]
    fn pages_cover_everything_once() {
        assert_eq!(page("", 45), 1..31);
        assert_eq!(page("page=2", 45), 31..46);
        assert_eq!(page("per_page=100&page=1", 45), 1..46);
        assert_eq!(page("per_page=999", 450), 1..101);
        assert!(page("page=3", 45).is_empty());
        assert!(page("page=4294967295&per_page=100", u32::MAX - 1).is_empty());
        assert_eq!(page("page=0&per_page=x", 45), 1..31);
    }

    #[test]
    fn a_token_opens_its_own_installations_repositories() {
        let token = ask("POST", "/app/installations/2/access_tokens", "", None);
        assert_eq!((token.status, token.route), ("201 Created", HubStub::TOKEN));
        let path = "/installation/repositories";
        let seen = ask(
            "GET",
            path,
            "per_page=2&page=23",
            Some("Bearer installation-2"),
        );
        assert_eq!(seen.body["total_count"], 45);
        assert_eq!(
            seen.body["repositories"][0]["full_name"],
            "org-2/repository-45"
        );
        assert_eq!(seen.body["repositories"][0]["id"], 90);
        assert_eq!(seen.body["repositories"].as_array().map(Vec::len), Some(1));
        for bad in [None, Some("Bearer installation-3"), Some("installation-1")] {
            assert_eq!(
                ask("GET", path, "", bad).status,
                "401 Unauthorized",
                "{bad:?}"
            );
        }
    }

    #[test]
    fn repositories_have_branches_and_each_branch_files() {
        for repository in ["octo/hello", "octo/project-20", "org-2/repository-45"] {
            let path = format!("/repos/{repository}/branches");
            let branches = ask("GET", &path, "per_page=100&page=1", None).body;
            let names: Vec<&str> = branches.as_array().map_or(Vec::new(), |list| {
                list.iter().filter_map(|one| one["name"].as_str()).collect()
            });
            assert_eq!(
                (names.len(), names[0], names[29]),
                (30, "main", "feature/29")
            );
            for branch in ["main", "feature%2F29"] {
                let path = format!("/repos/{repository}/git/trees/{branch}");
                let tree = ask("GET", &path, "recursive=1", None).body;
                assert_eq!(tree["tree"].as_array().map(Vec::len), Some(80), "{path}");
                assert_eq!(
                    tree["tree"][3],
                    json!({ "path": "src/module-1/file-1.rs", "type": "blob" })
                );
            }
        }
    }

    #[test]
    fn what_is_not_there_is_404() {
        for (method, path) in [
            ("GET", "/repos/octo/nothing/branches"),
            ("GET", "/repos/octo/project-0/branches"),
            ("GET", "/repos/org-3/repository-1/branches"),
            ("GET", "/repos/org-1/repository-46/branches"),
            ("GET", "/repos/octo/hello/git/trees/feature%2F30"),
            ("GET", "/repos/octo/hello"),
            ("POST", "/app/installations/3/access_tokens"),
            ("POST", "/app/installations/x/access_tokens"),
            ("GET", "/app/installations/1/access_tokens"),
            ("GET", "/"),
        ] {
            assert_eq!(
                ask(method, path, "", None).status,
                "404 Not Found",
                "{path}"
            );
        }
        assert_eq!(
            ask("GET", "/user/orgs", "", None).body,
            json!([org(1), org(2)])
        );
        let installations = ask("GET", "/app/installations", "page=1&per_page=1", None);
        assert_eq!(installations.body, json!([{ "id": 1, "account": org(1) }]));
    }
}
