//! The sandbox core: a repository's working tree for an agent or a service, kept until it comes back.
//!
//! [`domain`] says what there is and which rules hold, without any I/O. [`ports`] are the doors to the
//! world, as traits. [`stores`] keep the records behind [`ports::store::SandboxStore`], and [`locks`]
//! keep workers apart behind [`ports::locks`]. [`files`] are those of a local tree behind
//! [`ports::files`], and [`tools`] what an agent is given of a workspace, through [`ports::workbench`].
//! In a [`runtime`], behind [`ports::runtimes`], commands run apart from the machine. Whatever blocks does so in the [`blocking_pool`]. The domain knows nobody; ports know the domain; stores
//! and locks know both, and not each other.

pub mod blocking_pool;
pub mod domain;
pub mod files;
pub mod locks;
pub mod ports;
pub mod runtime;
pub mod stores;
pub mod tools;
