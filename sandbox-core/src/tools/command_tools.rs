//! The tools that run something: a command, or the tests.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::cut_text::{CHARS_MAX, head_and_tail};
use super::failure::ToolFailure;
use super::inputs::{RunInput, RunTestsInput};
use super::test_framework::{TestFramework, detect};
use crate::domain::{CommandKind, TreePath};
use crate::ports::runtimes::{ExecRequest, ExecResult};
use crate::ports::workbench::Workbench;

/// Seconds that a command may have: what can take longer is no tool's call.
const TIMEOUT_S_MAX: u64 = 3600;

pub(super) async fn run(bench: &dyn Workbench, input: RunInput) -> Result<Value, ToolFailure> {
    if input.command.first().is_none_or(String::is_empty) {
        return Err(ToolFailure::Input("`command` names no program".to_owned()));
    }
    let kind = if bench.capabilities().writable {
        input.kind.into()
    } else {
        CommandKind::Read
    };
    let mut request = request(
        input.command,
        &TreePath::parse(&input.cwd)?,
        input.timeout_s,
    );
    request.stdin = input.stdin.map(String::into_bytes);
    Ok(told(bench.exec(request, kind).await?))
}

pub(super) async fn run_tests(
    bench: &dyn Workbench,
    input: RunTestsInput,
) -> Result<Value, ToolFailure> {
    let folder = TreePath::parse(&input.path)?;
    let mut found = match input.framework {
        Some(framework) => vec![framework],
        None => detect(bench, &folder).await?,
    };
    if found.is_empty() {
        return Err(ToolFailure::NoTests {
            path: folder.to_string(),
            looked_for: TestFramework::LOOKED_FOR,
        });
    }
    let framework = found.remove(0);
    let command = framework.command(&input.arguments);
    let request = request(command.clone(), &folder, input.timeout_s);
    let mut answer = told(bench.exec(request, CommandKind::Test).await?);
    answer["framework"] = json!(framework);
    answer["command"] = json!(command);
    if !found.is_empty() {
        answer["other_frameworks"] = json!(found);
    }
    Ok(answer)
}

fn request(command: Vec<String>, cwd: &TreePath, timeout_s: u64) -> ExecRequest {
    let mut request = ExecRequest::new(command);
    request.cwd = (!cwd.is_root()).then(|| PathBuf::from(cwd.as_path()));
    request.timeout = Duration::from_secs(timeout_s.clamp(1, TIMEOUT_S_MAX));
    request
}

/// A command's end for a model. Of the room for output, each stream has half, and what the other
/// doesn't need.
fn told(result: ExecResult) -> Value {
    let stdout = result.stdout.text();
    let stderr = result.stderr.text();
    let room_beside = |other: &str| {
        let half = CHARS_MAX / 2;
        CHARS_MAX - other.chars().take(half).count()
    };
    let (stdout_max, stderr_max) = (room_beside(&stderr), room_beside(&stdout));
    let (stdout, is_stdout_cut) = head_and_tail(stdout, stdout_max);
    let (stderr, is_stderr_cut) = head_and_tail(stderr, stderr_max);
    json!({
        "success": result.exit_code == 0 && !result.timed_out,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "stdout": stdout,
        "stderr": stderr,
        "is_truncated": result.truncated || is_stdout_cut || is_stderr_cut,
    })
}

#[cfg(test)]
mod tests {
    use crate::ports::runtimes::CapturedOutput;

    use super::*;

    fn result(stdout: usize, stderr: usize) -> Value {
        let output = |chars: usize| CapturedOutput {
            head: "ä".repeat(chars).into_bytes(),
            tail: Vec::new(),
            omitted_bytes: 0,
        };
        told(ExecResult {
            exit_code: 0,
            stdout: output(stdout),
            stderr: output(stderr),
            timed_out: false,
            truncated: false,
        })
    }

    fn chars(answer: &Value, stream: &str) -> usize {
        answer[stream].as_str().expect("a text").chars().count()
    }

    #[test]
    fn both_streams_together_stay_within_the_bound() {
        for (stdout, stderr, is_cut) in [
            (10, 10, false),
            (80_000, 0, false),
            (79_990, 10, false),
            (79_991, 10, true),
            (0, 80_001, true),
            (70_000, 70_000, true),
        ] {
            let answer = result(stdout, stderr);
            assert_eq!(answer["is_truncated"], is_cut, "{stdout} {stderr}");
            let shown = chars(&answer, "stdout") + chars(&answer, "stderr");
            assert!(shown <= CHARS_MAX, "{stdout} {stderr}: {shown}");
        }
        let answer = result(70_000, 100);
        assert_eq!(chars(&answer, "stderr"), 100);
    }
}
