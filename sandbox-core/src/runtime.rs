//! Runtimes on this machine, behind the port [`RuntimeProvider`](crate::ports::runtimes::RuntimeProvider).
//!
//! One [`Bubblewrap`] runtime is one `bwrap`, in whose namespaces a small program of ours stays as the
//! first process, [`supervise`]: making namespaces is paid once per runtime. Each command then gets a
//! PID namespace of its own in there. Its first process ends when the command does, or is killed, and
//! with it the kernel ends whatever the command had started, however that hid; no list of processes is
//! walked, so nothing can fork away from it.
//!
//! We and that program talk by packets over a socket (`wire.rs`); a command's output comes through pipes
//! of which it only hands the ends on. Both ends of the conversation are in this folder.
//!
//! The supervisor also sees to it that nothing outlives the lock on a tree's commands: it goes on while the
//! process that ordered a command is stopped, and that process may have lost the lock meanwhile
//! (`fence.rs`, `alarm.rs`).

mod alarm;
mod arguments;
mod bubblewrap;
mod cgroups;
mod command_init;
mod confinement;
mod connection;
mod descriptors;
mod execution;
mod fence;
mod launch;
mod output;
mod packets;
mod subprocess;
mod supervisor;
mod system_files;
mod wire;

pub use bubblewrap::{Bubblewrap, BubblewrapSettings, LandlockUse, SupervisorProgram};
pub use subprocess::Subprocesses;
pub use supervisor::supervise;
