//! The runtimes of a process that runs no commands: none. Those of local backends live in the process
//! that made them, so a command that only lists or commits needs no `bwrap` to know that it has none.

use std::sync::Arc;

use unstall_sandbox_core::domain::{BackendKind, BackendRuntimeId, SandboxError};
use unstall_sandbox_core::ports::Answer;
use unstall_sandbox_core::ports::runtimes::{
    Labels, LiveRuntime, RuntimeCapabilities, RuntimeProvider, RuntimeSpec,
};

/// No runtimes, of the kind that others make.
#[derive(Debug)]
pub(crate) struct IdleRuntimes {
    kind: BackendKind,
}

impl IdleRuntimes {
    /// Of that kind.
    pub(crate) const fn of(kind: BackendKind) -> Self {
        Self { kind }
    }
}

impl RuntimeProvider for IdleRuntimes {
    fn kind(&self) -> &BackendKind {
        &self.kind
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities::default()
    }

    fn create<'a>(&'a self, _: &'a RuntimeSpec) -> Answer<'a, Arc<dyn LiveRuntime>> {
        Box::pin(async {
            Err(SandboxError::Unavailable {
                service: "the runtime",
                doing: "making one",
                source: "this command runs nothing in workspaces".into(),
            })
        })
    }

    fn get<'a>(&'a self, _: &'a BackendRuntimeId) -> Answer<'a, Option<Arc<dyn LiveRuntime>>> {
        Box::pin(async { Ok(None) })
    }

    fn list<'a>(&'a self, _: &'a Labels) -> Answer<'a, Vec<Arc<dyn LiveRuntime>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn destroy<'a>(&'a self, _: &'a BackendRuntimeId) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}
