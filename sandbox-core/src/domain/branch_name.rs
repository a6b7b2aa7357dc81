//! Names of branches: git's rules written out, and how we name our own.

use std::fmt;

use super::commit_id::is_object_id;
use super::digest::digest_hex;
use super::{ConversationId, Invalid, TaskId};

const KIND: &str = "branch name";

/// Bytes of a whole name: what a file system takes as one file name, since some tools flatten it.
const BYTES_MAX: usize = 255;
/// Bytes between slashes: a file name, less the `.lock` that git appends while it writes.
const PART_BYTES_MAX: usize = 250;
/// Bytes of an id that goes into a branch's name as it is.
const PLAIN_ID_BYTES_MAX: usize = 100;
/// Characters of another id that stay readable.
const SLUG_CHARS_MAX: usize = 60;
/// Digits of the fingerprint that tells ids apart whose readable part is the same.
const SLUG_DIGITS: usize = 12;

/// A branch, without `refs/heads/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchName(String);

impl BranchName {
    /// Takes a name that git takes for a branch.
    ///
    /// # Errors
    /// When `git check-ref-format --branch` would refuse it; also what git allows and commands then
    /// take for something else: names in `refs/`, and object ids.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        check_ref_format(KIND, text)?;
        if text.starts_with("refs/") {
            return Err(Invalid::new(
                KIND,
                text,
                "give the branch's name alone, without refs/heads/",
            ));
        }
        if is_object_id(text) {
            return Err(Invalid::new(
                KIND,
                text,
                "git would take it for a commit's id; name the branch otherwise",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The branch of a conversation's edits: `agent/edits-{conversation}`.
    #[must_use]
    pub fn for_edits(conversation: &ConversationId) -> Self {
        Self(format!("agent/edits-{}", part_of(conversation.as_str())))
    }

    /// The branch of a task: `agent/task-{task}`.
    #[must_use]
    pub fn for_task(task: &TaskId) -> Self {
        Self(format!("agent/task-{}", part_of(task.as_str())))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// An id as the end of a branch's name. What git wouldn't take there becomes dashes, and then a
/// fingerprint keeps the names of different ids apart. Slashes are such, too: `a` and `a/b` can't both
/// be branches.
fn part_of(id: &str) -> String {
    let is_plain_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_plain = id.len() <= PLAIN_ID_BYTES_MAX
        && id.chars().all(is_plain_char)
        && !id.contains("..")
        && !id.ends_with('.')
        && !id.ends_with(".lock");
    if is_plain {
        return id.to_owned();
    }
    let readable = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let slug: String = id.chars().map(readable).take(SLUG_CHARS_MAX).collect();
    format!("{slug}-{}", &digest_hex(&[id])[..SLUG_DIGITS])
}

/// The rules of `git check-ref-format --allow-onelevel`, in its manual's order, and in addition those
/// of names that commands take for an option or for a pseudo-ref.
pub(super) fn check_ref_format(kind: &'static str, text: &str) -> Result<(), Invalid> {
    let refuse = |reason| Err(Invalid::new(kind, text, reason));
    if text.is_empty() || text.len() > BYTES_MAX {
        return refuse("it must have 1 to 255 bytes");
    }
    for part in text.split('/') {
        if part.is_empty() {
            return refuse("it must not begin or end with a slash, or have two in a row");
        }
        if part.starts_with('.') || part.ends_with(".lock") {
            return refuse("no part between slashes may begin with . or end with .lock");
        }
        if part.len() > PART_BYTES_MAX {
            return refuse("each part between slashes must have 250 bytes at most");
        }
    }
    if text.contains("..") || text.contains("@{") {
        return refuse("it must not hold .. or @{");
    }
    let is_special = |c: char| matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    // Stricter than git by the control characters beyond ASCII, which no terminal shows.
    if text.chars().any(|c| c.is_control() || is_special(c)) {
        return refuse("it must not hold white space, control characters or any of ~^:?*[\\");
    }
    if text.ends_with('.') || text == "@" {
        return refuse("it must not end with . or be @");
    }
    if text.starts_with('-') {
        return refuse("it must not begin with a dash, which commands take for an option");
    }
    if text == "HEAD" || (text.ends_with("_HEAD") && !text.contains('/')) {
        return refuse("it names no branch by itself; resolve it to a branch or commit first");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_and_strange_branches_are_taken() {
        for text in [
            "main",
            "feature/x",
            "feat-a",
            "a.b",
            "a@b",
            "{a}",
            "größe",
            "a/b/c",
            "v1.0-rc.1",
            "a'b\"c",
            "a-",
            "a/-b",
            "#1",
            "x/FETCH_HEAD",
        ] {
            assert_eq!(BranchName::parse(text).expect(text).as_str(), text);
        }
    }

    #[test]
    fn what_git_refuses_is_refused() {
        for text in [
            "",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a..b",
            "a@{b",
            "a b",
            "a~b",
            "a^b",
            "a:b",
            "a?b",
            "a*b",
            "a[b",
            "a\\b",
            "a\nb",
            "a\0b",
            "a\x7fb",
            "a.",
            "@",
            "-a",
            "HEAD",
            "FETCH_HEAD",
            "refs/heads/main",
            "refs/sandbox/evicted/1",
        ] {
            assert!(BranchName::parse(text).is_err(), "{text:?}");
        }
        assert!(BranchName::parse(&"a".repeat(40)).is_err());
        assert!(BranchName::parse(&"x".repeat(251)).is_err());
    }

    #[test]
    fn our_branches_are_named_by_what_they_are_for() {
        let conversation = ConversationId::parse("0193-ab").expect("an id");
        assert_eq!(
            BranchName::for_edits(&conversation).as_str(),
            "agent/edits-0193-ab"
        );
        let task = TaskId::parse("t_1.2").expect("an id");
        assert_eq!(BranchName::for_task(&task).as_str(), "agent/task-t_1.2");
    }

    #[test]
    fn ids_that_git_would_refuse_keep_branches_of_their_own() {
        let branch = |id: &str| BranchName::for_task(&TaskId::parse(id).expect(id));
        let hostile = ["a/b", "a b", "a:b", "a", "a..b", "a.lock", "a."];
        for (index, id) in hostile.iter().enumerate() {
            for other in &hostile[..index] {
                assert_ne!(branch(id), branch(other), "{id} and {other}");
            }
            assert_eq!(branch(id).as_str().matches('/').count(), 1);
        }
    }

    proptest! {
        #[test]
        fn every_id_makes_a_branch_that_git_takes(id in "\\PC{1,60}") {
            if let Ok(task) = TaskId::parse(&id) {
                let branch = BranchName::for_task(&task);
                prop_assert_eq!(BranchName::parse(branch.as_str()), Ok(branch.clone()));
            }
        }
    }
}
