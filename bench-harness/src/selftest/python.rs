//! The canaries in Python: finds an interpreter that has the monitor, and starts the script there.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::column::Loop;

/// The script, which travels inside of this program.
const SCRIPT: &str = include_str!("canaries.py");

/// An interpreter with the package, and the script on disk for as long as this lives.
#[derive(Debug)]
pub(super) struct PythonCanaries {
    program: String,
    script: PathBuf,
    /// Removed with it.
    _folder: tempfile::TempDir,
    has_uvloop: Result<(), String>,
}

impl PythonCanaries {
    /// Looks whether `program` can run them; the reason if not.
    pub(super) fn find(program: &str) -> Result<Self, String> {
        try_import(program, "unstall").map_err(|reason| {
            format!(
                "{reason}; install the package, or name an interpreter that has it: \
                 --python PROGRAM"
            )
        })?;
        let has_uvloop = try_import(program, "uvloop");
        let written = || -> io::Result<(tempfile::TempDir, PathBuf)> {
            let folder = tempfile::tempdir()?;
            let script = folder.path().join("canaries.py");
            fs::write(&script, SCRIPT)?;
            Ok((folder, script))
        };
        let (folder, script) =
            written().map_err(|error| format!("the canaries' script can't be written: {error}"))?;
        Ok(Self {
            program: program.to_owned(),
            script,
            _folder: folder,
            has_uvloop,
        })
    }

    /// The command that serves them on that loop, or why it can't.
    pub(super) fn command(&self, event_loop: Loop) -> Result<Command, String> {
        if event_loop == Loop::Uvloop {
            self.has_uvloop.clone()?;
        }
        let mut command = Command::new(&self.program);
        command.arg("-B").arg(&self.script).arg(event_loop.name());
        Ok(command)
    }
}

fn try_import(program: &str, package: &str) -> Result<(), String> {
    let output = Command::new(program)
        .args(["-c", &format!("import {package}")])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{program}` can't be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it says nothing").to_owned();
    Err(format!("`{program}` can't import {package}: {last}"))
}
