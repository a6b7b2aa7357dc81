//! Stands where the watcher would, in builds without it: without the feature `watch`, and elsewhere
//! than on x86-64 Linux. There is no value of [`Watch`], so nothing of this ever runs.

use std::sync::Arc;

use crate::cause::Cause;
use crate::monitor::MonitorState;
use crate::watched::WatchedCause;

/// No watcher.
#[derive(Debug)]
pub(crate) enum Watch {}

impl Watch {
    pub(crate) fn poll_began(&self) {
        match *self {}
    }

    pub(crate) fn poll_ended(&self, _began_ns: u64, _hold_ns: u64) -> Option<Cause> {
        match *self {}
    }

    pub(crate) fn causes(&self) -> Vec<WatchedCause> {
        match *self {}
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        match *self {}
    }
}

/// Nothing to start.
pub(crate) fn start(_state: &Arc<MonitorState>) {}
