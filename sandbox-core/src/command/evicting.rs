//! `evict`: lets go what should go, or a workspace that is named.

use jiff::Timestamp;
use unstall_sandbox_core::domain::eviction::{Limits, Target};

use super::Outcome;
use super::arguments::{Evict, Place};
use super::document::{Content, EvictionDocument};
use super::failure::Failure;
use super::ground::Ground;
use super::workshop::{Need, Workshop, workspace_id};

/// Evicts, or says what would be evicted.
pub(super) async fn evict(
    place: &Place,
    task: &Evict,
    ground: &Ground,
) -> Result<Outcome, Failure> {
    let limits = limits_of(task);
    let workshop = Workshop::open_with(place, Need::Changing, limits, ground).await?;
    let service = &workshop.service;
    let eviction = match &task.workspace {
        Some(text) => {
            let id = workspace_id(text)?;
            let saved = service.destroy_workspace(id).await?;
            let target = Target::Workspace(id).to_string();
            EvictionDocument::of_one(target, saved.map(|saved| saved.to_string()))
        }
        None => EvictionDocument::of(&service.evict(Timestamp::now(), task.dry_run).await?),
    };
    let mut text = eviction.lines();
    if text.is_empty() {
        text.push_str("there is nothing to decide on\n");
    }
    Ok(Outcome {
        text,
        content: Content {
            eviction: Some(eviction),
            ..Content::default()
        },
        ..Outcome::default()
    })
}

/// A time of 0 would switch a reason off, and nothing is unused for less than a millisecond.
fn limits_of(task: &Evict) -> Limits {
    let usual = Limits::default();
    let Some(unused_for_s) = task.unused_for_s else {
        return usual;
    };
    let time_ms = (unused_for_s * 1000).max(1);
    Limits {
        runtime_idle_ms: time_ms,
        runtime_stopped_ms: time_ms,
        workspace_ttl_ms: time_ms,
        cache_stale_ms: time_ms,
        ..usual
    }
}
