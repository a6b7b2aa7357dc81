//! `exec`: runs a command in a workspace.

use std::time::Duration;

use unstall_sandbox_core::domain::CommandKind;
use unstall_sandbox_core::ports::runtimes::{ExecRequest, ExecResult};
use unstall_sandbox_core::service::CommandOrder;

use super::Outcome;
use super::arguments::{Exec, Kind, Place};
use super::document::{Content, RunDocument};
use super::failure::Failure;
use super::ground::Ground;
use super::workshop::{Need, Workshop, workspace_id};

/// Runs the command.
pub(super) async fn exec(place: &Place, task: &Exec, ground: &Ground) -> Result<Outcome, Failure> {
    let id = workspace_id(&task.workspace)?;
    let workshop = Workshop::open(place, Need::Running, ground).await?;
    let mut request = ExecRequest::new(task.command.iter().cloned());
    request.timeout = Duration::from_secs(task.timeout_s);
    let kind = task.kind.map(|kind| match kind {
        Kind::Read => CommandKind::Read,
        Kind::Write => CommandKind::Write,
        Kind::Install => CommandKind::Install,
        Kind::Test => CommandKind::Test,
    });
    let order = CommandOrder { request, kind };
    Ok(told(&workshop.service.exec(id, order).await?))
}

fn told(result: &ExecResult) -> Outcome {
    let run = RunDocument {
        exit_code: result.exit_code,
        stdout: result.stdout.text(),
        stderr: result.stderr.text(),
        timed_out: result.timed_out,
        is_truncated: result.truncated,
    };
    let mut complaint = run.stderr.clone();
    if run.timed_out {
        complaint.push_str("(killed for its time)\n");
    } else if run.exit_code != 0 {
        complaint.push_str(&format!("(exit code {})\n", run.exit_code));
    }
    Outcome {
        text: run.stdout.clone(),
        complaint,
        is_bad: run.exit_code != 0,
        content: Content {
            run: Some(run),
            ..Content::default()
        },
    }
}
