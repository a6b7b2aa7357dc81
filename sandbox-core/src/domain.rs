//! What the sandbox core talks about: ids, names, records with their states, and the rules on them.
//!
//! Nothing here does I/O or knows an adapter; whatever needs the time is given it.

mod auth_token;
mod base_ref;
mod branch_name;
mod cache_key;
mod command_kind;
mod commit_id;
mod digest;
mod disk_space;
mod error;
pub mod eviction;
mod fencing;
mod ids;
mod invalid;
mod local_path;
mod mode;
mod moment;
mod prepared_tree;
mod repo_cache;
mod repo_name;
mod repo_url;
mod request;
mod runtime;
mod stored_word;
pub(crate) mod tree_path;
mod url_scheme;
mod workspace;
mod workspace_key;

pub use auth_token::AuthToken;
pub use base_ref::BaseRef;
pub use branch_name::BranchName;
pub use cache_key::{AuthScopeHash, CacheKey};
pub use command_kind::CommandKind;
pub use commit_id::CommitId;
pub use disk_space::DiskSpace;
pub use error::{
    Cause, ConflictCause, Countable, LockLoss, PlatformError, SandboxError, Subject, WorkspaceError,
};
pub use fencing::FencingToken;
pub use ids::{
    BackendKind, BackendRuntimeId, CacheId, ConversationId, ImageName, PreparedTreeId, ProjectId,
    ProviderKind, RuntimeId, TaskId, UserId, WorkerId, WorkspaceId,
};
pub use invalid::Invalid;
pub use local_path::{LocalPath, OWN_FOLDER};
pub use mode::{Capabilities, WorkspaceMode};
pub use moment::to_the_microsecond;
pub use prepared_tree::{PreparedTree, PreparedTreeState};
pub use repo_cache::{RepoCache, RepoCacheState};
pub use repo_name::RepoName;
pub use repo_url::{GitHost, RepoUrl};
pub use request::WorkspaceRequest;
pub use runtime::{Runtime, RuntimeState};
pub use tree_path::TreePath;
pub use url_scheme::{SchemeRefused, UrlScheme, UrlSchemes};
pub use workspace::{Workspace, WorkspaceState};
pub use workspace_key::{KeyParts, Purpose, WorkspaceKey};
