//! Where a record goes, so that nothing is ever lost: no file is replaced unasked, also
//! not one that another run writes meanwhile.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unstall_results::record::RunRecord;
use unstall_results::store;

use crate::arguments::ScenarioArguments;

/// The folder of records that were given no place.
pub(crate) const DEFAULT_FOLDER: &str = "unstall-results";

/// One record's place, checked before anything is measured.
#[derive(Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    /// Whether a file at `path` may be replaced: it is ours, or the user said so.
    replace: bool,
}

/// What the user said about the place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement<'a> {
    /// `--out`
    pub(crate) out: Option<&'a Path>,
    /// Several scenarios: `out` is a folder.
    pub(crate) several: bool,
    /// `--force`
    pub(crate) force: bool,
}

impl<'a> Placement<'a> {
    /// As the options of `run` and `ab` have it.
    pub(crate) fn of(arguments: &'a ScenarioArguments) -> Self {
        Self {
            out: arguments.out.as_deref(),
            several: arguments.scenarios.len() > 1,
            force: arguments.force,
        }
    }
}

impl RecordFile {
    /// Chooses the place and makes sure that it can be written.
    pub(crate) fn choose(
        placement: Placement<'_>,
        scenario: &str,
        id: &str,
    ) -> anyhow::Result<Self> {
        let path = match placement.out {
            None => Path::new(DEFAULT_FOLDER).join(format!("{}-{id}.json", file_name(scenario))),
            Some(folder) if placement.several => {
                folder.join(format!("{}.json", file_name(scenario)))
            }
            Some(file) => file.to_owned(),
        };
        if path.is_dir() {
            bail!(
                "{} is a folder; --out names the record itself, for example {}",
                path.display(),
                path.join(format!("{}.json", file_name(scenario))).display()
            );
        }
        if path.exists() && !placement.force {
            bail!(
                "{} exists; choose another --out, or add --force to replace it",
                path.display()
            );
        }
        let folder = folder_of(&path);
        if placement.out.is_none() || placement.several {
            create_folder(folder)?;
        }
        check_writable(folder)?;
        Ok(Self {
            path,
            replace: placement.force,
        })
    }

    /// Where the record is, or will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Saves: the file holds the old record or the new one at any moment, never half of one.
    ///
    /// Should somebody else have written there since [`RecordFile::choose`], the first save
    /// moves on to a name of its own.
    pub(crate) fn save(&mut self, record: &RunRecord) -> anyhow::Result<()> {
        if !self.replace {
            self.claim(record)?;
            self.replace = true;
            return Ok(());
        }
        store::write(&self.path, record).context("the record could not be saved")
    }

    /// Removes a record that holds nothing.
    pub(crate) fn discard(&self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| {
            format!(
                "{} holds no block, and can't be removed",
                self.path.display()
            )
        })
    }

    /// The first save, which replaces nothing.
    fn claim(&mut self, record: &RunRecord) -> anyhow::Result<()> {
        let own = self
            .path
            .with_file_name(format!("{}-{}.json", stem(&self.path), record.id));
        store::write(&own, record).context("the record could not be saved")?;
        if own == self.path {
            return Ok(());
        }
        match fs::hard_link(&own, &self.path) {
            Ok(()) => fs::remove_file(&own)
                .with_context(|| format!("{} could not be removed", own.display())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.path = own;
                Ok(())
            }
            // A file system without hard links: rename, having looked again.
            Err(_) if !self.path.exists() => fs::rename(&own, &self.path)
                .with_context(|| format!("{} could not be created", self.path.display())),
            Err(_) => {
                self.path = own;
                Ok(())
            }
        }
    }
}

/// Creates a folder, with a message that says what to do if it can't be.
pub(crate) fn create_folder(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| {
        format!(
            "{} could not be created; name a folder that you may write with --out",
            folder.display()
        )
    })
}

/// Fails now rather than after minutes of measurement.
pub(crate) fn check_writable(folder: &Path) -> anyhow::Result<()> {
    let probe = folder.join(format!(".unstall-{}.tmp", std::process::id()));
    fs::write(&probe, b"probe").with_context(|| {
        format!(
            "{} can't be written to; choose another place with --out",
            folder.display()
        )
    })?;
    fs::remove_file(&probe).with_context(|| format!("{} can't be removed", probe.display()))
}

/// Refuses an output that would replace one of the command's own inputs.
pub(crate) fn refuse_to_replace<'p>(
    option: &str,
    out: &Path,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<()> {
    // A path that does not exist yet can't be one of them.
    let Ok(target) = out.canonicalize() else {
        return Ok(());
    };
    for input in inputs {
        if input.canonicalize().is_ok_and(|input| input == target) {
            bail!(
                "{option} {} would replace what is read; name another file",
                out.display()
            );
        }
    }
    Ok(())
}

/// Whether two paths, of which neither file need exist yet, are one file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let exists = path.canonicalize().ok();
        exists.or_else(|| Some(folder_of(path).canonicalize().ok()?.join(path.file_name()?)))
    };
    one == other || place(one).is_some_and(|one| Some(one) == place(other))
}

/// Writes what people or pipelines read; `what` is its name in a message.
///
/// # Errors
/// If it can't be written.
pub(crate) fn write_text(path: &Path, what: &str, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| {
        format!(
            "{what} {} could not be written; choose another place",
            path.display()
        )
    })
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(
        || "record".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// A scenario's name as a file name: whatever a file system might mind becomes `-`.
pub(crate) fn file_name(name: &str) -> String {
    let kept = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let text: String = name.chars().map(kept).take(80).collect();
    if text.trim_matches(['.', '-']).is_empty() {
        "record".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_safe() {
        assert_eq!(file_name("usage-check"), "usage-check");
        assert_eq!(file_name("../../etc/passwd"), "..-..-etc-passwd");
        assert_eq!(file_name(".."), "record");
        assert_eq!(file_name(""), "record");
    }

    #[test]
    fn an_existing_file_is_refused_unless_forced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        fs::write(&path, "precious").expect("writable");
        let place = |force| Placement {
            out: Some(&path),
            several: false,
            force,
        };
        let refused = RecordFile::choose(place(false), "s", "id").expect_err("must refuse");
        assert!(refused.to_string().contains("--force"), "{refused}");
        RecordFile::choose(place(true), "s", "id").expect("forced");
        assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_refused_before_measuring() {
        let place = Placement {
            out: Some(Path::new("/proc/x.json")),
            several: false,
            force: false,
        };
        assert!(RecordFile::choose(place, "s", "id").is_err());
    }
}
