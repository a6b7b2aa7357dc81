//! Stands where watching and tracing from outside would, elsewhere than on x86-64 Linux: every way
//! in refuses and says why. There is no value of [`Watch`] and [`tracer::Tracer`], so nothing
//! behind those ways ever runs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use crate::watched::WatchSummary;

#[path = "outside/trace_event.rs"]
mod trace_event;

/// Why a process can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Nobody can be, here.
    #[error(
        "processes can be watched from x86-64 Linux only, where their registers and stacks can be \
         read: run this program there, beside the service"
    )]
    Unsupported,
}

impl WatchError {
    /// Never known, here.
    #[must_use]
    pub fn is_no_loop(&self) -> bool {
        false
    }
}

/// How to watch.
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// Names of peers, before all that is found out: `127.0.0.1:6379` → `redis`.
    pub peers: Vec<(SocketAddr, String)>,
    /// How long to wait for a first event loop.
    pub loop_within: Duration,
    /// See sleeps by looking only, even where the kernel would tell each of them.
    pub by_looks: bool,
}

/// No watch.
#[derive(Debug)]
pub struct Watch(Infallible);

impl Watch {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn attach(_pid: u32, _options: &WatchOptions) -> Result<Self, WatchError> {
        Err(WatchError::Unsupported)
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn attach_unless(
        _pid: u32,
        _options: &WatchOptions,
        _is_over: impl Fn() -> bool,
    ) -> Result<Self, WatchError> {
        Err(WatchError::Unsupported)
    }

    /// Forgets what was seen so far.
    pub fn restart(&mut self) {
        match self.0 {}
    }

    /// Watches until `is_over` says so.
    pub fn run(
        &mut self,
        _is_over: impl Fn() -> bool,
        _view_every: Duration,
        _on_view: impl FnMut(&WatchSummary),
    ) -> WatchSummary {
        match self.0 {}
    }

    /// What was seen so far.
    pub fn summary(&mut self) -> WatchSummary {
        match self.0 {}
    }
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn listeners(_address: SocketAddr) -> Result<Vec<u32>, WatchError> {
    Err(WatchError::Unsupported)
}

/// Proofs from outside, which are refused here.
pub mod tracer {
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use std::time::Duration;

    use crate::certificate::Certificate;

    pub use super::trace_event::{
        EventSink, OUTSIDE_REQUESTS, TraceEnd, TraceEvent, TracedThreads, WHOLE_LOOP, monotonic_ns,
    };

    /// Why a process can't be traced.
    #[derive(Debug, thiserror::Error)]
    pub enum TraceError {
        /// Nobody can be, here.
        #[error(
            "processes can be traced from x86-64 Linux only, where their calls and stacks can be \
             read: run this program there, beside the service; without that nothing is proven"
        )]
        Unsupported,
    }

    /// How to trace.
    #[derive(Debug, Clone, Default)]
    pub struct TraceOptions {
        /// Which threads.
        pub threads: TracedThreads,
        /// Shared by traces of one process.
        pub memory: TraceMemory,
        /// Names of peers, by their address.
        pub names: Vec<(SocketAddr, String)>,
    }

    /// What a trace has learnt: nothing.
    #[derive(Debug, Clone, Default)]
    pub struct TraceMemory;

    /// No trace.
    #[derive(Debug)]
    pub struct Tracer(Infallible);

    impl Tracer {
        /// Refuses.
        ///
        /// # Errors
        /// Always.
        pub fn attach(
            _pid: u32,
            _options: TraceOptions,
            _sink: EventSink,
        ) -> Result<Self, TraceError> {
            Err(TraceError::Unsupported)
        }

        /// Refuses.
        ///
        /// # Errors
        /// Always.
        pub fn attach_unless(
            _pid: u32,
            _options: TraceOptions,
            _sink: EventSink,
            _is_over: impl Fn() -> bool,
        ) -> Result<Self, TraceError> {
            Err(TraceError::Unsupported)
        }

        /// What was found so far.
        #[must_use]
        pub fn certificate(&self) -> Certificate {
            match self.0 {}
        }

        /// Why the trace has ended, if it has by then.
        #[must_use]
        pub fn wait_for_end(&self, _timeout: Duration) -> Option<TraceEnd> {
            match self.0 {}
        }

        /// What was found.
        #[must_use]
        pub fn finish(self) -> Certificate {
            match self.0 {}
        }
    }

    /// Whatever they run, they can't be traced here.
    #[must_use]
    pub fn runs_python(_pids: &[u32]) -> bool {
        false
    }

    /// None of them can be traced here.
    #[must_use]
    pub fn python_loops(_pids: &[u32]) -> Vec<u32> {
        Vec::new()
    }
}
