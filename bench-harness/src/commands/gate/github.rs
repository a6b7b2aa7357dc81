//! What a step of a GitHub workflow reads: annotations in its log, Markdown beside the job, outputs for
//! later steps.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use unstall_reports::markdown::{self, Limit, Placement};
use unstall_reports::{Report, annotations};
use unstall_results::comparison::Verdict;

use crate::console::{Outcome, visible};
use crate::identity;

/// Where GitHub shows Markdown beside a job.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
/// What later steps read.
const OUTPUT: &str = "GITHUB_OUTPUT";
/// The root of the checkout.
const WORKSPACE: &str = "GITHUB_WORKSPACE";

/// Adds annotations to what is printed, and appends to the files that the workflow names.
///
/// # Errors
/// When one of these can't be written.
pub(crate) fn tell(
    report: &Report<'_>,
    marker: Option<&str>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let root = variable(WORKSPACE).unwrap_or_else(|| PathBuf::from("."));
    let annotations = annotations::render(report, &|file| in_checkout(&root, file));
    outcome.text = format!("{}{annotations}", without_commands(&outcome.text));
    if let Some(path) = variable(STEP_SUMMARY) {
        let limit = Limit::StepSummary {
            bytes_taken: fs::metadata(&path).map_or(0, |file| file.len()),
        };
        let text = markdown::render(report, Placement { limit, marker });
        append(STEP_SUMMARY, &path, &text)?;
    }
    if let Some(path) = variable(OUTPUT) {
        append(OUTPUT, &path, &outputs(report, outcome.verdict))?;
    }
    Ok(())
}

fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// The runner takes commands from any line of a log, and names in our tables are others': so it is told
/// to take none until it meets a word that nobody could have known.
fn without_commands(text: &str) -> String {
    let word = identity::new_id();
    format!("::stop-commands::{word}\n{text}::{word}::\n")
}

/// One line each, since a name can hold anything but a line break by now.
fn outputs(report: &Report<'_>, verdict: Option<Verdict>) -> String {
    let headline = report
        .answer()
        .map_or_else(String::new, |said| said.headline);
    format!(
        "verdict={}\nheadline={}\n",
        verdict.map_or("none", name),
        visible(&headline)
    )
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Regression => "regression",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Invalid => "invalid",
    }
}

/// A file's place below the root of the checkout, as the watch spells it or below the folder in which
/// this command runs; `None` if it is elsewhere.
fn in_checkout(root: &Path, file: &str) -> Option<String> {
    let root = root.canonicalize().ok()?;
    let here = std::env::current_dir().ok()?;
    // Joining an absolute path leaves it as it is.
    let candidates = [root.join(file), here.join(file)];
    candidates.iter().find_map(|path| {
        let path = path.canonicalize().ok()?;
        let below = path.strip_prefix(&root).ok()?;
        path.is_file().then(|| below.to_str().map(str::to_owned))?
    })
}

fn append(variable: &str, path: &Path, text: &str) -> anyhow::Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| {
            format!(
                "{variable} names {}, which can't be written",
                path.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_from_the_root_of_the_checkout_and_only_from_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("checkout");
        fs::create_dir_all(root.join("app")).expect("writable");
        fs::write(root.join("app/stores.py"), "").expect("writable");
        fs::write(folder.path().join("outside.py"), "").expect("writable");
        let found = |file: &str| in_checkout(&root, file);
        let stores = Some("app/stores.py".to_owned());
        assert_eq!(found("app/stores.py"), stores);
        assert_eq!(found("./app/../app/stores.py"), stores);
        let absolute = root.join("app/stores.py");
        assert_eq!(found(absolute.to_str().expect("UTF-8")), stores);
        for none in ["app", "app/none.py", "../outside.py", "/etc/hostname", ""] {
            assert_eq!(found(none), None, "{none}");
        }
        assert_eq!(in_checkout(&root.join("none"), "app/stores.py"), None);
    }

    #[test]
    fn nothing_in_a_table_is_a_command() {
        let text = without_commands("::error::x\n");
        let lines: Vec<&str> = text.lines().collect();
        let word = lines[0].strip_prefix("::stop-commands::").expect("a word");
        assert_eq!(lines[1..], ["::error::x", &format!("::{word}::")]);
        assert_ne!(without_commands(""), without_commands(""));
    }
}
