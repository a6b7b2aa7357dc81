//! The doors to the world: traits that adapters implement, and the one way in which they answer.

use std::future::Future;
use std::pin::Pin;

use crate::domain::SandboxError;

pub mod caches;
pub mod files;
pub mod locks;
pub mod platforms;
pub mod runtimes;
pub mod store;
pub mod workbench;
pub mod workspaces;

/// What a port's call answers: boxed, so that a port can be an object (`Arc<dyn SandboxStore>`).
///
/// The box is one allocation beside a round trip to a store.
pub type Answer<'a, T, E = SandboxError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;
