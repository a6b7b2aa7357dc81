//! With which token a code host is asked: the environment's, and only for the host that it is for.

use unstall_sandbox_core::domain::{AuthToken, GitHost, RepoName, RepoUrl};

use super::environment;
use super::failure::Failure;

/// Where a repository is when nobody says: on github.com, or on the host of `GITHUB_BASE_URL`.
pub(crate) fn default_url(repo: &RepoName) -> Result<RepoUrl, Failure> {
    match base_url()? {
        Some(base) => {
            let text = format!("{}/{repo}.git", base.trim_end_matches('/'));
            Ok(RepoUrl::parse(&text)?)
        }
        None => Ok(RepoUrl::github(repo)),
    }
}

/// The token of `GH_TOKEN`, if the URL leads to the host that it is for. Others never see it.
pub(crate) fn token_for(url: &RepoUrl) -> Result<Option<AuthToken>, Failure> {
    let Some(text) = environment::text("GH_TOKEN")? else {
        return Ok(None);
    };
    if !is_for_host(&text_of_host()?, url) {
        return Ok(None);
    }
    Ok(Some(AuthToken::parse(text)?))
}

fn is_for_host(host: &GitHost, url: &RepoUrl) -> bool {
    url.host() == host && !url.as_str().starts_with("ssh:")
}

fn text_of_host() -> Result<GitHost, Failure> {
    let Some(base) = base_url()? else {
        return Ok(GitHost::parse("github.com")?);
    };
    // The host of any repository there.
    let text = format!("{}/owner/repo", base.trim_end_matches('/'));
    Ok(RepoUrl::parse(&text)?.host().clone())
}

fn base_url() -> Result<Option<String>, Failure> {
    environment::text("GITHUB_BASE_URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_its_host_only() {
        let github = GitHost::parse("github.com").expect("a host");
        let is_for = |text| is_for_host(&github, &RepoUrl::parse(text).expect(text));
        assert!(is_for("https://github.com/octo/hello"));
        assert!(!is_for("https://github.com.evil.example/octo/hello"));
        assert!(!is_for("ssh://git@github.com/octo/hello"));
        assert!(!is_for("file:///srv/octo/hello"));
    }
}
