//! Whether a row that was found may be written, in the order that the port promises.

use jiff::Timestamp;

use super::stored_values::stored_moment;
use crate::domain::{
    ConflictCause, FencingToken, PreparedTree, PreparedTreeState, RepoCache, Runtime, SandboxError,
    Subject, Workspace,
};
use crate::ports::store::Precondition;

/// What decides whether a live row may be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    version: u64,
    token: FencingToken,
    last_used_at: Timestamp,
}

impl From<&RepoCache> for Standing {
    fn from(cache: &RepoCache) -> Self {
        Self {
            version: cache.version,
            token: cache.token,
            last_used_at: cache.last_used_at,
        }
    }
}

impl From<&Workspace> for Standing {
    fn from(workspace: &Workspace) -> Self {
        Self {
            version: workspace.version,
            token: workspace.token,
            last_used_at: workspace.last_used_at,
        }
    }
}

impl From<&Runtime> for Standing {
    fn from(runtime: &Runtime) -> Self {
        Self {
            version: runtime.version,
            token: runtime.token,
            last_used_at: runtime.last_used_at,
        }
    }
}

/// May a live row be written?
pub(super) fn check_write(
    subject: Subject,
    found: Standing,
    when: &Precondition,
) -> Result<(), SandboxError> {
    if found.token > when.token {
        let cause = ConflictCause::StaleToken {
            given: when.token.get(),
            newest: found.token.get(),
        };
        return Err(SandboxError::conflict(subject, cause));
    }
    if found.version != when.version {
        return Err(version_conflict(subject, when.version, found.version));
    }
    match when.unused_since {
        Some(since) if stored_moment(found.last_used_at) > stored_moment(since) => {
            let at = found.last_used_at;
            Err(SandboxError::conflict(
                subject,
                ConflictCause::UsedSince { at },
            ))
        }
        _ => Ok(()),
    }
}

/// May somebody say something of a workspace under the lock on its commands, of which a newer holder may
/// have announced to write? Whoever doesn't hold that lock may.
pub(super) fn check_commands_token(
    subject: Subject,
    newest: FencingToken,
    given: Option<FencingToken>,
) -> Result<(), SandboxError> {
    match given {
        Some(given) if given < newest => {
            let cause = ConflictCause::StaleToken {
                given: given.get(),
                newest: newest.get(),
            };
            Err(SandboxError::conflict(subject, cause))
        }
        _ => Ok(()),
    }
}

/// May a live row without a token be written?
pub(super) fn check_version(
    subject: Subject,
    expected: u64,
    found: u64,
) -> Result<(), SandboxError> {
    if found == expected {
        Ok(())
    } else {
        Err(version_conflict(subject, expected, found))
    }
}

/// May a live tree become a live workspace's?
pub(super) fn check_adoption(
    tree: &PreparedTree,
    tree_version: u64,
    workspace: &Workspace,
    when: &Precondition,
) -> Result<(), SandboxError> {
    let subject = Subject::PreparedTree(tree.id);
    check_version(subject.clone(), tree_version, tree.version)?;
    if tree.state != PreparedTreeState::Claimed {
        let cause = ConflictCause::State {
            is: tree.state.as_str(),
            wanted: PreparedTreeState::Adopted.as_str(),
        };
        return Err(SandboxError::conflict(subject, cause));
    }
    check_write(Subject::Workspace(workspace.id), workspace.into(), when)
}

fn version_conflict(subject: Subject, expected: u64, found: u64) -> SandboxError {
    SandboxError::conflict(subject, ConflictCause::Version { expected, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RuntimeId;

    fn cause_of(when: Precondition) -> Option<ConflictCause> {
        let found = Standing {
            version: 4,
            token: FencingToken::new(7),
            last_used_at: Timestamp::from_second(100).expect("a moment"),
        };
        let subject = Subject::Runtime(RuntimeId::generate());
        match check_write(subject, found, &when) {
            Ok(()) => None,
            Err(SandboxError::Conflict { cause, .. }) => Some(cause),
            Err(other) => panic!("no conflict: {other}"),
        }
    }

    #[test]
    fn tokens_come_before_versions_and_versions_before_use() {
        let since = |second| Timestamp::from_second(second).ok();
        let when = |version, token, unused_since| Precondition {
            version,
            token: FencingToken::new(token),
            unused_since,
        };
        assert!(matches!(
            cause_of(when(3, 6, since(99))),
            Some(ConflictCause::StaleToken {
                given: 6,
                newest: 7
            })
        ));
        assert!(matches!(
            cause_of(when(3, 7, since(99))),
            Some(ConflictCause::Version {
                expected: 3,
                found: 4
            })
        ));
        assert!(matches!(
            cause_of(when(4, 8, since(99))),
            Some(ConflictCause::UsedSince { .. })
        ));
        assert_eq!(cause_of(when(4, 7, since(100))), None);
        assert_eq!(cause_of(when(4, 7, None)), None);
    }
}
