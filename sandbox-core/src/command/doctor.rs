//! `doctor`: tries what commands need, and says of each how it is.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{WorkspaceId, WorkspaceState};
use unstall_sandbox_core::ports::locks::{LockClass, LockName};
use unstall_sandbox_core::ports::runtimes::{Isolation, RuntimeProvider};
use unstall_sandbox_core::runtime::{Bubblewrap, BubblewrapSettings, SupervisorProgram};
use unstall_sandbox_core::service::{DiskRoom, RESERVE_BYTES, ServiceError};

use super::Outcome;
use super::arguments::Place;
use super::document::{Content, FindingDocument};
use super::failure::Failure;
use super::ground::Ground;
use super::workshop::{Need, Workshop};

/// A lock that nobody else wants is to be had in less.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Looks at everything.
pub(super) async fn look(place: &Place, ground: &Ground) -> Result<Outcome, Failure> {
    let mut findings = Vec::new();
    match Workshop::open(place, Need::Looking, ground).await {
        Ok(workshop) => {
            let found = format!("below {}", workshop.root.display());
            findings.push(well("git and root", found));
            look_at_service(&workshop, &mut findings).await;
        }
        Err(failure) => findings.push(finding("git, store and locks", Err(failure.to_string()))),
    }
    findings.push(finding("runtime", look_at_runtime(ground.pool()).await));
    let waits = ground.pool().queue_waits();
    let found = format!(
        "{} pieces of work, of which 99 % waited {} µs at most for a thread, the longest {} µs",
        waits.begun, waits.p99_us, waits.max_us
    );
    findings.push(well("blocking pool", found));
    let is_bad = findings.iter().any(|finding| !finding.is_well);
    let text = findings.iter().map(|finding| {
        let word = if finding.is_well { "well" } else { "BAD " };
        format!("{word}  {}: {}\n", finding.what, finding.found)
    });
    Ok(Outcome {
        text: text.collect(),
        content: Content {
            findings: Some(findings),
            ..Content::default()
        },
        is_bad,
        ..Outcome::default()
    })
}

async fn look_at_service(workshop: &Workshop, findings: &mut Vec<FindingDocument>) {
    let service = &workshop.service;
    let records = match service.all_workspaces().await {
        Ok(rows) => {
            let in_state = |state| rows.iter().filter(|row| row.state == state).count();
            let missing = in_state(WorkspaceState::Missing);
            let blocked = in_state(WorkspaceState::EvictionBlocked);
            let found = format!(
                "{}: {} workspaces, of which {} are ready, {missing} missing on disk, {blocked} kept because their changes can't be saved",
                workshop.store_kind,
                rows.len(),
                in_state(WorkspaceState::Ready),
            );
            if missing + blocked > 0 {
                Err(found)
            } else {
                Ok(found)
            }
        }
        Err(error) => Err(error.to_string()),
    };
    findings.push(finding("store", records));
    let lock = look_at_locks(workshop).await;
    findings.push(finding("locks", lock.map_err(|error| error.to_string())));
    let disk = service.evict(Timestamp::now(), true).await.map(|report| {
        let going = report.decisions.len();
        format!(
            "{} of {} bytes count as used; {going} things were looked at",
            report.disk.used_bytes, report.volume_bytes
        )
    });
    findings.push(finding("disk", disk.map_err(|error| error.to_string())));
    let room = match service.disk_room().await {
        Ok(room) => room_found(room),
        Err(error) => Err(error.to_string()),
    };
    findings.push(finding("free space", room));
}

/// Is there room to work in, and is there some kept back for the moment in which there is none?
fn room_found(room: DiskRoom) -> Result<String, String> {
    let DiskRoom { space, kept_bytes } = room;
    let found = format!(
        "{} bytes are free, and {kept_bytes} of {RESERVE_BYTES} are kept back for a full disk",
        space.available_bytes
    );
    if space.is_full() {
        Err(format!(
            "the disk counts as full: {found}; make room, or let go what nobody needs (unstall-sandbox evict)"
        ))
    } else if kept_bytes < RESERVE_BYTES {
        Err(format!(
            "{found}; make room, and the next command keeps the rest back"
        ))
    } else {
        Ok(found)
    }
}

async fn look_at_locks(workshop: &Workshop) -> Result<String, ServiceError> {
    let locks = &workshop.service.adapters().locks;
    let name = LockName::workspace_command(WorkspaceId::generate());
    let began = Instant::now();
    let lease = locks.acquire(&name, LockClass::Write, LOCK_WAIT).await?;
    lease.release().await?;
    let took_us = began.elapsed().as_micros();
    Ok(format!(
        "a free lock was taken and given back in {took_us} µs"
    ))
}

async fn look_at_runtime(pool: &BlockingPool) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let settings = BubblewrapSettings::new(SupervisorProgram::at(program));
    let probed = Bubblewrap::probe(settings, pool.clone()).await;
    let provider = probed.map_err(|error| {
        format!("{error}; install bubblewrap, and allow user namespaces (sysctl kernel.unprivileged_userns_clone)")
    })?;
    let Isolation {
        namespaces,
        system_call_filter,
        landlock,
        cgroup,
        cpu,
        file_size,
        read_only_mounts,
    } = provider.capabilities().isolation;
    let word = |is_on| if is_on { "yes" } else { "no" };
    Ok(format!(
        "bubblewrap: namespaces {}, system calls filtered {}, landlock {}, limits of all processes together {}, of processor time {}, of file sizes {}, read-only mounts {}",
        word(namespaces),
        word(system_call_filter),
        word(landlock),
        word(cgroup),
        word(cpu),
        word(file_size),
        word(read_only_mounts)
    ))
}

fn well(what: &'static str, found: String) -> FindingDocument {
    finding(what, Ok(found))
}

fn finding(what: &'static str, found: Result<String, String>) -> FindingDocument {
    let is_well = found.is_ok();
    FindingDocument {
        what,
        is_well,
        found: found.unwrap_or_else(|found| found),
    }
}
