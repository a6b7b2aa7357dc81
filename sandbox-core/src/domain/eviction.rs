//! What goes and what stays: decisions over facts, each with its reason in words.
//!
//! The order of going is fixed ([`Tier`]): idle runtimes, clean working trees past their time or under
//! disk pressure, dirty ones only under disk pressure, where the clean ones weren't enough, and after
//! their changes were saved, repository caches last. What is pinned, in use or about to be made never
//! goes.

use std::fmt;

use jiff::Timestamp;
use uuid::Uuid;

use super::{
    CacheId, RepoCacheState, RuntimeId, RuntimeState, WorkspaceId, WorkspaceMode, WorkspaceState,
};

mod facts;

pub use facts::{CacheFacts, RuntimeFacts, WorkspaceFacts};

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// From when on something may go. A time of 0 switches that reason off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A running runtime is stopped after this time without use.
    pub runtime_idle_ms: u64,
    /// A stopped runtime is destroyed after this time more.
    pub runtime_stopped_ms: u64,
    /// A clean working tree goes after this time without use.
    pub workspace_ttl_ms: u64,
    /// A cache on which no workspace stands goes after this time without use.
    pub cache_stale_ms: u64,
    /// Disk pressure takes nothing that was used within this time.
    pub pressure_idle_ms: u64,
    /// What trees and caches may take together. With 0 there is never any pressure.
    pub volume_bytes: u64,
    /// From this share of the volume on, clean trees go before their time, and then dirty ones of tasks.
    pub pressure_percent: u32,
    /// From this share of the volume on, dirty trees of edits go, and then caches.
    pub severe_pressure_percent: u32,
}

/// Idle 30 min (of 15–30), stopped 6 h (of 1–6), trees 14 d (of 7–30), caches 30 d, 100 GB, 80 % for
/// trees and 90 % for what goes last: the ranges in which sandboxes for agents are run.
impl Default for Limits {
    fn default() -> Self {
        Self {
            runtime_idle_ms: 30 * MINUTE_MS,
            runtime_stopped_ms: 6 * HOUR_MS,
            workspace_ttl_ms: 14 * DAY_MS,
            cache_stale_ms: 30 * DAY_MS,
            pressure_idle_ms: 30 * MINUTE_MS,
            volume_bytes: 100_000_000_000,
            pressure_percent: 80,
            severe_pressure_percent: 90,
        }
    }
}

/// How full the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// What trees and caches take together. After a write that found no space: the whole volume.
    pub used_bytes: u64,
}

/// What is to be decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidate {
    /// A runtime.
    Runtime(RuntimeFacts),
    /// A workspace.
    Workspace(WorkspaceFacts),
    /// A repository's cache.
    Cache(CacheFacts),
}

/// On what was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A runtime.
    Runtime(RuntimeId),
    /// A workspace.
    Workspace(WorkspaceId),
    /// A repository's cache.
    Cache(CacheId),
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(id) => write!(out, "runtime {id}"),
            Self::Workspace(id) => write!(out, "workspace {id}"),
            Self::Cache(id) => write!(out, "repository cache {id}"),
        }
    }
}

/// The order in which things are decided on, and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Runtimes: no tree goes with them.
    Runtime,
    /// Clean trees that were only read.
    CleanAnalysis,
    /// Clean trees of tasks.
    CleanTask,
    /// Clean trees of edits.
    CleanEdit,
    /// Dirty trees of tasks.
    DirtyTask,
    /// Dirty trees of edits.
    DirtyEdit,
    /// Trees for reading that are dirty all the same. They never go: nobody knows whose changes these
    /// are.
    DirtyAnalysis,
    /// Repository caches.
    Cache,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing.
    Keep,
    /// Stop the runtime; it can be started again.
    StopRuntime,
    /// Destroy the runtime; its workspace stays.
    DestroyRuntime,
    /// Remove the workspace's tree.
    EvictWorkspace {
        /// Its uncommitted changes, but no ignored files, go to a hidden ref before; if that fails, it
        /// stays.
        save_first: bool,
    },
    /// Remove the repository's cache.
    EvictCache,
}

/// What was decided on one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// On what.
    pub target: Target,
    /// In which tier that is.
    pub tier: Tier,
    /// What is to be done.
    pub action: Action,
    /// Why, in words for a person.
    pub reason: String,
}

/// Decides on each candidate once. What goes comes first, in the order in which it shall go: by tier,
/// and within one the longest unused first. Disk pressure takes no more than brings it below its share.
#[must_use]
pub fn decide(
    candidates: &[Candidate],
    limits: &Limits,
    now: Timestamp,
    disk: Disk,
) -> Vec<Decision> {
    let mut ordered: Vec<&Candidate> = candidates.iter().collect();
    ordered.sort_by_key(|candidate| candidate.turn());
    let mut used_bytes = disk.used_bytes;
    let mut going = Vec::new();
    let mut staying = Vec::new();
    for candidate in ordered {
        let scene = Scene {
            limits,
            now,
            used_bytes,
        };
        let (action, reason) = match candidate {
            Candidate::Runtime(facts) => scene.runtime(facts),
            Candidate::Workspace(facts) => scene.workspace(facts),
            Candidate::Cache(facts) => scene.cache(facts),
        };
        used_bytes = used_bytes.saturating_sub(candidate.freed_bytes(action));
        let decision = Decision {
            target: candidate.target(),
            tier: candidate.tier(),
            action,
            reason,
        };
        if action == Action::Keep {
            staying.push(decision);
        } else {
            going.push(decision);
        }
    }
    going.append(&mut staying);
    going
}

impl Candidate {
    /// In which tier it is.
    #[must_use]
    pub const fn tier(&self) -> Tier {
        match self {
            Self::Runtime(_) => Tier::Runtime,
            Self::Workspace(facts) => match (facts.mode, facts.dirty) {
                (WorkspaceMode::Analysis, false) => Tier::CleanAnalysis,
                (WorkspaceMode::Task, false) => Tier::CleanTask,
                (WorkspaceMode::Edit, false) => Tier::CleanEdit,
                (WorkspaceMode::Task, true) => Tier::DirtyTask,
                (WorkspaceMode::Edit, true) => Tier::DirtyEdit,
                (WorkspaceMode::Analysis, true) => Tier::DirtyAnalysis,
            },
            Self::Cache(_) => Tier::Cache,
        }
    }

    /// Which it is.
    #[must_use]
    pub const fn target(&self) -> Target {
        match self {
            Self::Runtime(facts) => Target::Runtime(facts.id),
            Self::Workspace(facts) => Target::Workspace(facts.id),
            Self::Cache(facts) => Target::Cache(facts.id),
        }
    }

    /// When its turn is. The id decides between equals, so that the order never depends on the input's.
    fn turn(&self) -> (Tier, Timestamp, Uuid) {
        let (last_used_at, id) = match self {
            Self::Runtime(facts) => (facts.last_used_at, facts.id.as_uuid()),
            Self::Workspace(facts) => (facts.last_used_at, facts.id.as_uuid()),
            Self::Cache(facts) => (facts.last_used_at, facts.id.as_uuid()),
        };
        (self.tier(), last_used_at, id)
    }

    fn freed_bytes(&self, action: Action) -> u64 {
        let size_bytes = match (self, action) {
            (Self::Workspace(facts), Action::EvictWorkspace { .. }) => facts.size_bytes,
            (Self::Cache(facts), Action::EvictCache) => facts.size_bytes,
            _ => None,
        };
        size_bytes.unwrap_or(0) // unknown: counted as nothing, so that enough goes
    }
}

/// Under what a candidate is judged: what went before it is off the disk already.
struct Scene<'a> {
    limits: &'a Limits,
    now: Timestamp,
    used_bytes: u64,
}

impl Scene<'_> {
    fn runtime(&self, facts: &RuntimeFacts) -> (Action, String) {
        let idle_ms = self.idle_ms(facts.last_used_at);
        let idle = Span(idle_ms);
        let (limit_ms, action) = match facts.state {
            RuntimeState::Failed => {
                let reason = "it failed; its workspace gets a new one".to_owned();
                return (Action::DestroyRuntime, reason);
            }
            RuntimeState::Running => (self.limits.runtime_idle_ms, Action::StopRuntime),
            RuntimeState::Stopped => match self.limits.runtime_stopped_ms {
                0 => (0, Action::DestroyRuntime),
                more_ms => (
                    self.limits.runtime_idle_ms.saturating_add(more_ms),
                    Action::DestroyRuntime,
                ),
            },
            RuntimeState::Creating | RuntimeState::Destroying | RuntimeState::Destroyed => {
                return keep(format!("it is {}, and nobody's to stop", facts.state));
            }
        };
        if let Some(until) = facts.expires_at.filter(|until| *until > self.now) {
            return keep(format!("what runs in it holds it until {until}"));
        }
        if limit_ms == 0 {
            return keep(format!("it may be {} for any time", facts.state));
        }
        let limit = Span(limit_ms);
        if idle_ms <= limit_ms {
            return keep(format!("unused for {idle}; {limit} are allowed"));
        }
        let reason = format!(
            "{} and unused for {idle}, where {limit} are allowed",
            facts.state
        );
        (action, reason)
    }

    fn workspace(&self, facts: &WorkspaceFacts) -> (Action, String) {
        let is_whole = matches!(
            facts.state,
            WorkspaceState::Ready | WorkspaceState::EvictionBlocked
        );
        if !is_whole {
            return keep(format!("it is {}", facts.state));
        }
        if let Some(until) = facts.pinned_until.filter(|until| *until > self.now) {
            return keep(format!("it is pinned until {until}"));
        }
        if facts.has_running_runtime {
            return keep("a runtime of it runs".to_owned());
        }
        let (severity, percent) = match Candidate::Workspace(*facts).tier() {
            Tier::DirtyTask => ("pressure", self.limits.pressure_percent),
            Tier::DirtyEdit => ("severe pressure", self.limits.severe_pressure_percent),
            Tier::DirtyAnalysis => {
                return keep(
                    "it is for reading and has changes all the same: look at them".to_owned(),
                );
            }
            _ => return self.clean_workspace(facts),
        };
        let idle_ms = self.idle_ms(facts.last_used_at);
        let idle = Span(idle_ms);
        if idle_ms <= self.limits.pressure_idle_ms {
            return keep(format!(
                "it has uncommitted changes and was used {idle} ago"
            ));
        }
        let fill = self.fill();
        if !self.is_full(percent) {
            return keep(format!(
                "it has uncommitted changes, and {fill} are below the {percent} % of {severity}"
            ));
        }
        let reason = format!(
            "unused for {idle}, and {fill} are {severity} ({percent} %): its changes are saved first, ignored files aren't"
        );
        (Action::EvictWorkspace { save_first: true }, reason)
    }

    fn clean_workspace(&self, facts: &WorkspaceFacts) -> (Action, String) {
        let idle_ms = self.idle_ms(facts.last_used_at);
        let (idle, limit) = (Span(idle_ms), Span(self.limits.workspace_ttl_ms));
        let goes = Action::EvictWorkspace { save_first: false };
        if self.limits.workspace_ttl_ms > 0 && idle_ms > self.limits.workspace_ttl_ms {
            let reason = format!("clean and unused for {idle}, where {limit} are allowed");
            return (goes, reason);
        }
        let percent = self.limits.pressure_percent;
        if idle_ms > self.limits.pressure_idle_ms && self.is_full(percent) {
            let fill = self.fill();
            let reason =
                format!("clean and unused for {idle}, and {fill} are pressure ({percent} %)");
            return (goes, reason);
        }
        if self.limits.workspace_ttl_ms == 0 {
            return keep("it is clean, and may be unused for any time".to_owned());
        }
        keep(format!(
            "it is clean and unused for {idle}; {limit} are allowed"
        ))
    }

    fn cache(&self, facts: &CacheFacts) -> (Action, String) {
        if facts.state != RepoCacheState::Ready {
            return keep(format!("it is {}", facts.state));
        }
        match facts.uses {
            0 => {}
            1 => return keep("1 tree stands on it".to_owned()),
            uses => return keep(format!("{uses} trees stand on it")),
        }
        let idle_ms = self.idle_ms(facts.last_used_at);
        let (idle, limit) = (Span(idle_ms), Span(self.limits.cache_stale_ms));
        if self.limits.cache_stale_ms > 0 && idle_ms > self.limits.cache_stale_ms {
            let reason = format!("no tree stands on it, and it is unused for {idle}, not {limit}");
            return (Action::EvictCache, reason);
        }
        let percent = self.limits.severe_pressure_percent;
        let fill = self.fill();
        if idle_ms <= self.limits.pressure_idle_ms {
            return keep(format!("no tree stands on it, but it was used {idle} ago"));
        }
        if !self.is_full(percent) {
            return keep(format!(
                "no tree stands on it, but it is unused for {idle} only, and {fill} are below {percent} %"
            ));
        }
        let reason = format!("no tree stands on it, and {fill} are above {percent} %");
        (Action::EvictCache, reason)
    }

    /// Time without use; a last use that lies in the future, by somebody else's clock, is one just now.
    fn idle_ms(&self, last_used_at: Timestamp) -> u64 {
        let idle_ms = self.now.as_millisecond() - last_used_at.as_millisecond();
        u64::try_from(idle_ms).unwrap_or(0)
    }

    fn is_full(&self, percent: u32) -> bool {
        let volume_bytes = u128::from(self.limits.volume_bytes);
        volume_bytes > 0 && u128::from(self.used_bytes) * 100 >= volume_bytes * u128::from(percent)
    }

    /// How full the disk is, in words.
    fn fill(&self) -> String {
        let volume_bytes = u128::from(self.limits.volume_bytes);
        match (u128::from(self.used_bytes) * 100).checked_div(volume_bytes) {
            Some(percent) => format!("{percent} % of the volume"),
            None => format!("{} bytes of a volume without limit", self.used_bytes),
        }
    }
}

fn keep(reason: String) -> (Action, String) {
    (Action::Keep, reason)
}

/// A length of time in the unit of which there are at least two.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min")];
        let unit = units.iter().find(|(unit_ms, _)| self.0 >= 2 * *unit_ms);
        let (unit_ms, name) = unit.copied().unwrap_or((SECOND_MS, "s"));
        write!(out, "{} {name}", self.0 / unit_ms)
    }
}

#[cfg(test)]
mod tests;
