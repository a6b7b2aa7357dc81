//! Ids, each a type of its own, so that one can't be taken for another.

use std::fmt;

use uuid::Uuid;

use super::Invalid;

/// Bytes of an id that comes from elsewhere: three of them fit into one entry of PostgreSQL's index,
/// which holds about 2 700 bytes.
const TEXT_BYTES_MAX: usize = 200;

/// An id that we make: a UUID of version 7, which sorts by the time it was made.
macro_rules! own_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// A new one. Ids sort by the millisecond in which they were made.
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// One that was made earlier.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// As stores keep it.
            #[must_use]
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, out)
            }
        }
    };
}

/// An id or name that somebody else makes, opaque to us.
macro_rules! given_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        ///
        /// At most 200 bytes, no control characters, no white space at its ends.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Takes a text as it is.
            ///
            /// # Errors
            /// When it is empty, longer than 200 bytes, has a control character (line breaks and
            /// NUL are such) or white space at an end.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                check_text($kind, text)?;
                Ok(Self(text.to_owned()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

own_id! {
    /// Names a [`RepoCache`](super::RepoCache).
    CacheId
}
own_id! {
    /// Names a [`Workspace`](super::Workspace).
    WorkspaceId
}
own_id! {
    /// Names a [`Runtime`](super::Runtime).
    RuntimeId
}
own_id! {
    /// Names a [`PreparedTree`](super::PreparedTree).
    PreparedTreeId
}
given_id! {
    /// For whom a workspace is.
    UserId, "user id"
}
given_id! {
    /// For which project a workspace is.
    ProjectId, "project id"
}
given_id! {
    /// The conversation whose edits a workspace holds.
    ConversationId, "conversation id"
}
given_id! {
    /// The task whose work a workspace holds.
    TaskId, "task id"
}
given_id! {
    /// One process that uses the core; it holds the leases of what it claimed.
    WorkerId, "worker id"
}
given_id! {
    /// What kind of code host a repository is on: `github`.
    ProviderKind, "kind of code host"
}
given_id! {
    /// What kind of backend runs a runtime: `bubblewrap`.
    BackendKind, "kind of backend"
}
given_id! {
    /// By what name its backend knows a runtime.
    BackendRuntimeId, "backend's runtime id"
}
given_id! {
    /// The image from which a runtime is made.
    ImageName, "image name"
}

fn check_text(kind: &'static str, text: &str) -> Result<(), Invalid> {
    let refuse = |reason| Err(Invalid::new(kind, text, reason));
    if text.is_empty() {
        return refuse("it must not be empty");
    }
    if text.len() > TEXT_BYTES_MAX {
        return refuse("it must have 200 bytes at most");
    }
    if text.chars().any(char::is_control) {
        return refuse("it must have no control characters such as line breaks");
    }
    if text.trim() != text {
        return refuse("it must not begin or end with white space");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ids_sort_by_when_they_were_made() {
        let ids: Vec<WorkspaceId> = (0..100).map(|_| WorkspaceId::generate()).collect();
        assert!(ids.is_sorted());
        assert_eq!(WorkspaceId::from_uuid(ids[0].as_uuid()), ids[0]);
        assert_eq!(ids[0].to_string(), ids[0].as_uuid().to_string());
    }

    #[test]
    fn given_ids_are_taken_as_they_are() {
        for text in [
            "u",
            "auth0|12",
            "o'brien\"; --",
            "Jürgen 🙂",
            &"a".repeat(200),
        ] {
            let id = UserId::parse(text).expect(text);
            assert_eq!(id.as_str(), text);
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn hostile_ids_are_refused_with_their_kind() {
        for text in ["", " a", "a ", "a\nb", "a\0b", "a\u{85}b", &"a".repeat(201)] {
            let refused = TaskId::parse(text).expect_err(text);
            assert_eq!(refused.kind(), "task id");
        }
    }
}
