//! `unstall calibrate`: one version against itself, session after session on the way of `ab`, and
//! what that says of this machine.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unstall_bench_harness::engine::Stop;
use unstall_reports::terminal::{Style, certificate};
use unstall_results::calibration::{self, Certificate, certify, is_of_a_kind};
use unstall_results::comparison::Verdict;
use unstall_results::record::RunRecord;
use unstall_results::store;

use super::ab;
use crate::arguments::{AbArguments, CalibrateArguments};
use crate::console::{Console, Outcome};
use crate::document::{Content, FileDocument, FileKind};
use crate::version::Version;
use crate::{identity, interrupt, record_file};

/// The certificate's file name.
const CERTIFICATE: &str = "calibration.json";
/// Where the first session goes: the place of any, before one is measured.
const FIRST_SESSION: &str = "session-001.json";
/// How long sessions take together, where their number isn't given.
const MINUTES_USUAL: f64 = 10.0;
/// And how many there are at least and at most.
const SESSIONS_USUAL: (u32, u32) = (3, 20);
/// Sessions put together from measured pairs: none of 200 alarmed says a rate of 1.8 % at most.
const RESAMPLED: u32 = 200;

pub(crate) fn execute(arguments: CalibrateArguments, console: &Console) -> anyhow::Result<Outcome> {
    let policy = arguments.policy.read()?;
    // A mistake in it is told by the name that it has here.
    Version::parse(
        &arguments.target,
        "--target takes",
        &arguments.access.resolve(console)?,
    )?;
    let wanted = arguments.sessions;
    let mut folder = Folder::open(&arguments.out, console)?;
    let seed = identity::seed(arguments.start.seed);
    let stop = interrupt::listen()?;
    let mut ab = arguments.into_ab();
    // A certificate must be of what this command line asks for, also where no session is missing.
    ab.scenario.out = Some(folder.path.join(FIRST_SESSION));
    ab::check(&ab, &of_a_kind_with(folder.sessions.first()), console)?;
    let mut goal = wanted.or_else(|| folder.fitting());
    folder.announce(goal, console);
    while goal.is_none_or(|goal| folder.count() < goal) && !stop.is_requested() {
        let index = folder.next_index();
        ab.scenario.out = Some(folder.record(index));
        ab.scenario.label = Some(format!("The same version twice, session {index}"));
        ab.start.seed = Some(seed.wrapping_add(u64::from(index)));
        let Some(record) = session(&ab, folder.sessions.first(), console, &stop)? else {
            break;
        };
        folder.sessions.push(record);
        if goal.is_none() {
            goal = folder.fitting();
            folder.announce(goal, console);
        }
    }
    let certificate = certify(&folder.sessions, &policy, RESAMPLED)?;
    let path = folder.keep(&certificate)?;
    Ok(outcome(&certificate, &path, goal, console))
}

/// Whether a planned session is of the same calibration as those that are there.
fn of_a_kind_with(first: Option<&RunRecord>) -> impl Fn(&RunRecord) -> anyhow::Result<()> {
    move |record| match first {
        Some(first) => Ok(is_of_a_kind(first, record, false)?),
        None => Ok(()),
    }
}

/// One whole session; `None` if it was interrupted, which it may be before its first block.
fn session(
    ab: &AbArguments,
    first: Option<&RunRecord>,
    console: &Console,
    stop: &Stop,
) -> anyhow::Result<Option<RunRecord>> {
    let mut judgement = match ab::measure(ab, &of_a_kind_with(first), console, stop) {
        Ok(judgement) => judgement,
        Err(_) if stop.is_requested() => return Ok(None),
        Err(error) => return Err(error),
    };
    console.note(judgement.latest());
    let record = judgement.entries.pop().map(|entry| entry.record);
    match record.filter(|record| !record.interrupted) {
        Some(record) => Ok(Some(record)),
        None if stop.is_requested() => Ok(None),
        None => bail!(
            "the session could not go on: {}",
            judgement.notes.join("; ")
        ),
    }
}

fn outcome(certified: &Certificate, path: &Path, goal: Option<u32>, console: &Console) -> Outcome {
    let style = Style {
        colour: console.colour,
        width: console.width,
    };
    let mut text = certificate::render(certified, style);
    let sessions = certified.sessions.len();
    let missing = goal.is_none_or(|goal| sessions < goal as usize);
    let mut notes = Vec::new();
    if missing {
        notes.push(format!(
            "interrupted after {sessions} whole sessions, which are kept: the same command goes on"
        ));
    }
    for note in &notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text.push_str(&format!(
        "Certificate: {0}\nUse it:      unstall gate ab.json --certificate {0}\n",
        path.display()
    ));
    let verdict = match certified.distrust() {
        Some(_) => Some(Verdict::Invalid),
        None if missing => Some(Verdict::Inconclusive),
        None => None,
    };
    Outcome {
        verdict,
        text,
        content: Content {
            calibration: Some(certified.clone()),
            files: vec![FileDocument::new(FileKind::Certificate, path)],
            notes,
            ..Content::default()
        },
        ..Outcome::default()
    }
}

/// The folder of a calibration, and the whole sessions in it.
struct Folder {
    path: PathBuf,
    sessions: Vec<RunRecord>,
    /// Numbers of the files that hold a whole session.
    taken: Vec<u32>,
}

impl Folder {
    /// Reads what an earlier calibration has left there.
    fn open(path: &Path, console: &Console) -> anyhow::Result<Self> {
        record_file::create_folder(path)?;
        record_file::check_writable(path)?;
        let mut folder = Self {
            path: path.to_owned(),
            sessions: Vec::new(),
            taken: Vec::new(),
        };
        let entries = fs::read_dir(path)
            .with_context(|| format!("the folder {} can't be listed", path.display()))?;
        let mut indices = Vec::new();
        for entry in entries {
            let entry =
                entry.with_context(|| format!("the folder {} can't be listed", path.display()))?;
            indices.extend(entry.file_name().to_str().and_then(index_of));
        }
        indices.sort_unstable();
        for index in indices {
            let record = store::read(&folder.record(index))?;
            if record.interrupted {
                console.note(format!(
                    "{} was interrupted; it is measured again",
                    folder.record(index).display()
                ));
                continue;
            }
            folder.taken.push(index);
            folder.sessions.push(record);
        }
        Ok(folder)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.sessions.len()).unwrap_or(u32::MAX)
    }

    fn record(&self, index: u32) -> PathBuf {
        self.path.join(format!("session-{index:03}.json"))
    }

    /// The first number that no whole session has.
    fn next_index(&mut self) -> u32 {
        let free = (1..).find(|index| !self.taken.contains(index));
        let index = free.unwrap_or(u32::MAX); // never: there are more numbers than sessions
        self.taken.push(index);
        index
    }

    /// How many sessions like these fit into the usual time; `None` while nobody knows how long
    /// one takes.
    fn fitting(&self) -> Option<u32> {
        let minutes = self
            .sessions
            .iter()
            .map(calibration::minutes)
            .reduce(f64::max)?;
        let (least, most) = SESSIONS_USUAL;
        // A session without a length gives as many as there may be.
        Some(((MINUTES_USUAL / minutes) as u32).clamp(least, most))
    }

    /// Says what is going to happen.
    fn announce(&self, goal: Option<u32>, console: &Console) {
        let there = self.count();
        let line = match goal {
            None => "A first session tells how long one takes; then as many as fit into 10 minutes"
                .to_owned(),
            Some(goal) => {
                let left = goal.saturating_sub(there);
                let each = self
                    .sessions
                    .iter()
                    .map(calibration::minutes)
                    .reduce(f64::max);
                let about = each.map(|each| format!(", about {:.0} min", each * f64::from(left)));
                format!(
                    "{there} of {goal} sessions are there, {left} to measure{}",
                    about.unwrap_or_default()
                )
            }
        };
        console.note(line);
    }

    /// Writes the certificate beside the sessions: the old one or the new one, never half of one.
    fn keep(&self, certificate: &Certificate) -> anyhow::Result<PathBuf> {
        let path = self.path.join(CERTIFICATE);
        let failed = || format!("the certificate {} could not be written", path.display());
        let text = certificate.to_json().with_context(failed)?;
        let mut file = tempfile::Builder::new()
            .prefix(".calibration-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .tempfile_in(&self.path)
            .with_context(failed)?;
        file.write_all(text.as_bytes()).with_context(failed)?;
        file.as_file().sync_all().with_context(failed)?;
        file.persist(&path).with_context(failed)?;
        Ok(path)
    }
}

/// The number in `session-007.json`.
fn index_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix("session-")?.strip_suffix(".json")?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sessions_are_sessions() {
        assert_eq!(index_of("session-007.json"), Some(7));
        assert_eq!(index_of("session-1234.json"), Some(1234));
        for other in [
            "calibration.json",
            "session-.json",
            ".session-001.json.x.tmp",
            "session-1",
        ] {
            assert_eq!(index_of(other), None, "{other}");
        }
    }
}
