//! The sandbox core: a repository's working tree for an agent or a service, kept until it comes back.
//!
//! [`domain`] says what there is and which rules hold, without any I/O. [`ports`] are the doors to the
//! world, as traits. [`stores`] keep the records behind [`ports::store::SandboxStore`], and [`locks`]
//! keep workers apart behind [`ports::locks`]; [`git`] has caches and working trees, behind
//! [`ports::caches`] and [`ports::workspaces`]. The domain knows nobody; ports know the domain; what is
//! behind a port knows both, and not what is behind another.

pub mod blocking_pool;
pub mod domain;
pub mod git;
pub mod locks;
pub mod ports;
pub mod stores;
