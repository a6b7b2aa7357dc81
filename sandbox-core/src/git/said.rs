//! What git said on standard error: read for what it means, and made fit to be shown.

use std::process::ExitStatus;

use crate::domain::RepoUrl;
use crate::ports::caches::GitError;

/// Characters of it that are shown.
const SHOWN_CHARS_MAX: usize = 600;

/// Git says it in other ways, too, which mean something else as often: then the disk is asked.
const FULL: [&str; 3] = [
    "No space left on device",
    "Disk quota exceeded",
    "Out of diskspace",
];
const REFUSED: [&str; 6] = [
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "returned error: 401",
    "returned error: 403",
    "Permission denied (publickey",
];
const ABSENT: [&str; 4] = [
    "not found",
    "Repository not found",
    "does not appear to be a git repository",
    "returned error: 404",
];
const AWAY: [&str; 8] = [
    "unable to access",
    "Could not read from remote repository",
    "Could not resolve host",
    "Connection refused",
    "Connection timed out",
    "early EOF",
    "the remote end hung up",
    "RPC failed",
];

/// What a failure of git means. Only calls that have a URL talk to a code host.
pub(super) fn error_of(
    doing: &'static str,
    status: ExitStatus,
    stderr: &[u8],
    url: Option<&RepoUrl>,
    secret: Option<&str>,
) -> GitError {
    let said = shown(stderr, secret);
    let names = |words: &[&str]| {
        let text = String::from_utf8_lossy(stderr);
        words.iter().any(|word| text.contains(word))
    };
    if names(&FULL) {
        return GitError::DiskFull { doing };
    }
    if let Some(url) = url {
        let url = url.clone();
        if names(&REFUSED) {
            let host = url.host().clone();
            return GitError::AuthFailed { host, url };
        }
        if names(&ABSENT) {
            return GitError::RepositoryNotFound { url };
        }
        if names(&AWAY) {
            return GitError::Unreachable { url, said };
        }
    }
    GitError::Failed {
        doing,
        code: status.code(),
        said,
    }
}

/// Did git find that somebody else had moved a reference, or was about to?
pub(super) fn is_of_another_writer(error: &GitError) -> bool {
    matches!(error, GitError::Failed { said, .. } if said.contains("cannot lock ref"))
}

/// The text on one line, shortened, without the secret and without what a URL has before its `@`.
pub(super) fn shown(stderr: &[u8], secret: Option<&str>) -> String {
    let mut text = String::from_utf8_lossy(stderr).into_owned();
    if let Some(secret) = secret {
        text = text.replace(secret, "(hidden)");
    }
    let words: Vec<String> = text.split_whitespace().map(without_userinfo).collect();
    let line = words.join(" ");
    if line.is_empty() {
        return "nothing".to_owned();
    }
    let mut start: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    if start.len() < line.len() {
        start.push('…');
    }
    start
}

fn without_userinfo(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let authority_len = rest.find('/').unwrap_or(rest.len());
    match rest[..authority_len].rfind('@') {
        Some(at) => format!("{scheme}://(hidden){}", &rest[at..]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn of(stderr: &str) -> GitError {
        let url = RepoUrl::parse("https://example.org/octo/hello").expect("a URL");
        let status = ExitStatus::from_raw(128 << 8);
        error_of(
            "fetching",
            status,
            stderr.as_bytes(),
            Some(&url),
            Some("s3cret"),
        )
    }

    #[test]
    fn what_git_says_is_understood() {
        let cases = [
            (
                "fatal: could not read Username for 'https://x': terminal prompts disabled",
                "refused",
            ),
            (
                "fatal: repository 'https://x/' not found",
                "there is no repository",
            ),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                "can't be reached",
            ),
            (
                "error: unable to write file: No space left on device",
                "disk is full",
            ),
            (
                "fatal: sha1 file 'x' write error. Out of diskspace",
                "disk is full",
            ),
            ("fatal: something else", "exit code Some(128)"),
        ];
        for (stderr, word) in cases {
            let text = of(stderr).to_string();
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn secrets_are_hidden_and_long_texts_are_cut() {
        let text =
            of("fatal: bad\nthing at https://user:s3cret@example.org/x with s3cret").to_string();
        assert!(
            !text.contains("s3cret") && !text.contains("user:"),
            "{text}"
        );
        assert!(text.contains("https://(hidden)@example.org/x"), "{text}");
        let long = of(&"é".repeat(5000)).to_string();
        assert!(long.chars().count() < 800 && long.contains('…'));
    }
}
