//! Places where a test kills the process, to see what a crash there leaves behind.

use std::fmt;

/// A place in a use case between two steps that can't be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultPoint {
    /// A cache's row is there, and nothing on disk.
    CacheIntent,
    /// A cache is on disk, and its row doesn't say so.
    CacheCloned,
    /// A cache's row says that it goes, and it is there.
    CacheEvicting,
    /// A cache is gone, and its row is there.
    CacheRemoved,
    /// A workspace's row is there, and nothing on disk.
    WorkspaceIntent,
    /// A tree is on disk, and its row doesn't say so.
    TreeMade,
    /// A prepared tree was claimed, and lies where it was.
    TreeClaimed,
    /// A workspace's row says that it goes, and it is there.
    WorkspaceEvicting,
    /// A tree's changes were saved, and it is there.
    EditsSaved,
    /// A tree was made of what was saved of an earlier one, and its row doesn't say so.
    EditsLaid,
    /// A tree was made of what was saved of an earlier one, its row says so, and what was saved is still
    /// there.
    EditsLaidReady,
    /// A tree is gone, and its row is there.
    TreeRemoved,
    /// A prepared tree's row is there, and nothing on disk.
    PreparedIntent,
    /// A prepared tree is on disk, and its row doesn't say so.
    PreparedMade,
    /// A runtime's row is there, and no runtime.
    RuntimeIntent,
    /// A runtime runs, and its row doesn't say so.
    RuntimeMade,
    /// A runtime's row says that it is stopped, and it runs.
    RuntimeStopping,
    /// A runtime's row says that it goes, and it runs.
    RuntimeDestroying,
    /// A runtime is gone, and its row is there.
    RuntimeDestroyed,
    /// A workspace is said to be dirty, and the command that may write hasn't begun.
    CommandAnnounced,
    /// A command has written, and nobody was told.
    CommandDone,
    /// A commit was made, and nobody was told.
    Committed,
}

impl FaultPoint {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::CacheIntent,
        Self::CacheCloned,
        Self::CacheEvicting,
        Self::CacheRemoved,
        Self::WorkspaceIntent,
        Self::TreeMade,
        Self::TreeClaimed,
        Self::WorkspaceEvicting,
        Self::EditsSaved,
        Self::EditsLaid,
        Self::EditsLaidReady,
        Self::TreeRemoved,
        Self::PreparedIntent,
        Self::PreparedMade,
        Self::RuntimeIntent,
        Self::RuntimeMade,
        Self::RuntimeStopping,
        Self::RuntimeDestroying,
        Self::RuntimeDestroyed,
        Self::CommandAnnounced,
        Self::CommandDone,
        Self::Committed,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CacheIntent => "cache-intent",
            Self::CacheCloned => "cache-cloned",
            Self::CacheEvicting => "cache-evicting",
            Self::CacheRemoved => "cache-removed",
            Self::WorkspaceIntent => "workspace-intent",
            Self::TreeMade => "tree-made",
            Self::TreeClaimed => "tree-claimed",
            Self::WorkspaceEvicting => "workspace-evicting",
            Self::EditsSaved => "edits-saved",
            Self::EditsLaid => "edits-laid",
            Self::EditsLaidReady => "edits-laid-ready",
            Self::TreeRemoved => "tree-removed",
            Self::PreparedIntent => "prepared-intent",
            Self::PreparedMade => "prepared-made",
            Self::RuntimeIntent => "runtime-intent",
            Self::RuntimeMade => "runtime-made",
            Self::RuntimeStopping => "runtime-stopping",
            Self::RuntimeDestroying => "runtime-destroying",
            Self::RuntimeDestroyed => "runtime-destroyed",
            Self::CommandAnnounced => "command-announced",
            Self::CommandDone => "command-done",
            Self::Committed => "committed",
        }
    }
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Where this process ends. Without a place it never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults(Option<FaultPoint>);

/// A name that is no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault point {name:?}; name one of them, such as tree-made, or none")]
pub struct UnknownFault {
    /// The name.
    name: String,
}

impl Faults {
    /// Nothing happens anywhere.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// The process is aborted at the place of that name.
    ///
    /// # Errors
    /// When there is no such place.
    pub fn at(name: &str) -> Result<Self, UnknownFault> {
        let point = FaultPoint::ALL
            .into_iter()
            .find(|point| point.as_str() == name);
        match point {
            Some(point) => Ok(Self(Some(point))),
            None => Err(UnknownFault {
                name: name.to_owned(),
            }),
        }
    }

    /// Passes a place, or doesn't.
    pub(super) fn pass(self, point: FaultPoint) {
        if self.0 == Some(point) {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_name_of_its_own() {
        for point in FaultPoint::ALL {
            assert_eq!(Faults::at(point.as_str()), Ok(Faults(Some(point))));
        }
        assert!(Faults::at("nowhere").is_err());
    }
}
