//! How a branch gets to the origin: that branch alone, never by force.

use super::LocalGit;
use super::credentials::TokenSocket;
use super::layout::TreePlace;
use super::program::{Call, Remote};
use super::said;
use super::status::at;
use crate::domain::{AuthToken, BranchName, RepoUrl};
use crate::ports::caches::GitError;
use crate::ports::workspaces::Pushed;

impl LocalGit {
    pub(super) async fn push_from(
        &self,
        place: &TreePlace,
        url: &RepoUrl,
        token: Option<&AuthToken>,
    ) -> Result<Pushed, GitError> {
        let (git_dir, tree) = (place.git_dir(), place.tree());
        let at = at(&git_dir, &tree);
        let ask = Call::new("asking for the branch", at);
        let ask = ask.args(["symbolic-ref", "--quiet", "--short", "HEAD"]);
        let Some(name) = self.git.asks(ask).await? else {
            return Err(GitError::OnNoBranch { path: tree });
        };
        let branch = BranchName::parse(String::from_utf8_lossy(&name).trim())?;
        let commit = self.head_of(at).await?;
        let socket = match token {
            Some(token) => {
                let folder = self.socket_folder();
                Some(TokenSocket::open(self.git.pool(), folder, url, token).await?)
            }
            None => None,
        };
        // The commit and not the branch: what is pushed is what is answered.
        let refspec = format!("{commit}:refs/heads/{branch}");
        let push = Call::new("pushing", at)
            .args([
                "push",
                "--quiet",
                "--porcelain",
                "--no-verify",
                "--no-recurse-submodules",
                "--",
            ])
            .args([url.as_str(), &refspec])
            .remote(Remote {
                url,
                credentials: socket.as_ref(),
            });
        let (ended, error) = self.git.end_of(push).await?;
        if let Some(error) = error {
            return Err(match rejection_in(&ended.stdout) {
                Some(said) => GitError::PushRejected { branch, said },
                None => error,
            });
        }
        // Pushed it is either way. Without this the tree counts as dirty until the next fetch.
        let handed = self.hand_over(place, &commit, &place.cache, None).await;
        if let Err(error) = handed {
            tracing::warn!(%error, "a pushed commit was not handed over to the cache");
        }
        Ok(Pushed { branch, commit })
    }
}

/// `!<tab>from:to<tab>[rejected] (fetch first)`, in what `push --porcelain` answers.
fn rejection_in(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().find_map(|line| line.strip_prefix("!\t"))?;
    let (_, reason) = line.split_once('\t')?;
    Some(said::shown(reason.as_bytes(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_read_from_gits_answer() {
        let answer = "To file:///o\n!\tabc:refs/heads/x\t[rejected] (fetch first)\nDone\n";
        assert_eq!(
            rejection_in(answer.as_bytes()),
            Some("[rejected] (fetch first)".to_owned())
        );
        assert_eq!(rejection_in(b"To file:///o\n"), None);
    }
}
