//! Baselines: one record per branch, machine class and scenario, in a folder whose layout is plain
//! enough for a cache or a repository.
//!
//! `FOLDER/<branch>/<machine class>/<scenario>.json`, each name with what a file system might mind
//! written as `%` and two hexadecimal digits. A baseline is a record of one version, so a
//! comparison with it is between sessions: advice, unless a policy says otherwise.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::age::{DAYS_OLD, days_between};
use crate::level::UNKNOWN;
use crate::record::RunRecord;
use crate::store::{self, StoreError};
use crate::wording;

/// Longest name of a file that Linux' file systems take.
const NAME_BYTES_MAX: usize = 255;
const SUFFIX: &str = ".json";

/// A folder of baselines.
#[derive(Debug, Clone)]
pub struct Baselines {
    folder: PathBuf,
}

/// A baseline on disk.
#[derive(Debug)]
pub struct Baseline {
    /// Its branch.
    pub branch: String,
    /// Its machine class.
    pub class: String,
    /// Its scenario.
    pub scenario: String,
    /// Its file.
    pub path: PathBuf,
    /// What it holds.
    pub record: Result<RunRecord, StoreError>,
}

/// What became of a record that was to be a baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// There was none.
    New {
        /// Its file.
        path: PathBuf,
    },
    /// It took an older one's place.
    Replaced {
        /// Its file.
        path: PathBuf,
        /// When the older one was measured.
        older_utc: String,
    },
    /// It took the place of a file that nobody could read.
    Mended {
        /// Its file.
        path: PathBuf,
        /// What was wrong with that one.
        damage: String,
    },
    /// One that was measured later is there, and stays.
    Kept {
        /// Its file.
        path: PathBuf,
        /// When that one was measured.
        newer_utc: String,
    },
}

/// Why a baseline can't be set or found. Messages say what to do.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// A record that is none.
    #[error("the record {label:?} can't be a baseline: {why}")]
    Unfit {
        /// Its label.
        label: String,
        /// What it is, and what to do.
        why: &'static str,
    },
    /// A name that no file can have.
    #[error("{what} {name:?} can't name a file: {why}; choose another")]
    Name {
        /// What it names.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is none for this branch, machine class and scenario.
    #[error(
        "{} holds no baseline of branch {branch:?} for machine class {class} and scenario \
         {scenario:?}; there {there}. Set one: unstall results baseline set RECORD {} --branch {branch}",
        folder.display(),
        folder.display()
    )]
    None {
        /// The folder.
        folder: PathBuf,
        /// The branch.
        branch: String,
        /// The machine class.
        class: String,
        /// The scenario.
        scenario: String,
        /// What else there is.
        there: String,
    },
    /// The folder or a file in it could not be used.
    #[error("{path}: could not {action}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What failed.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The record could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Baselines {
    /// Those of a folder, which need not exist yet.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Makes a record the baseline of a branch, for its machine class and scenario. Of two at the
    /// same time, the one that was measured later is there in the end.
    ///
    /// # Errors
    /// A record of two versions or without a usable block, a folder that can't be written, or a
    /// baseline in a format that is newer than this version's.
    pub fn set(&self, record: &RunRecord, branch: &str) -> Result<Placed, BaselineError> {
        refuse_unfit(record)?;
        let path = self.path(branch, record)?;
        let folder = path.parent().unwrap_or(&self.folder);
        let failed = |path: &Path, action| {
            let path = path.to_owned();
            move |source| BaselineError::Io {
                path,
                action,
                source,
            }
        };
        fs::create_dir_all(folder).map_err(failed(folder, "create the folder"))?;
        // Held until the end of this function: looking and replacing are one step.
        let lock_path = folder.join(".lock");
        let lock = File::options().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path, "create the lock"))?;
        lock.lock().map_err(failed(&lock_path, "take the lock"))?;
        let placed = match path.exists().then(|| store::read(&path)) {
            None => Placed::New { path },
            Some(Ok(present)) if is_later(&present, record, Timestamp::now()) => {
                return Ok(Placed::Kept {
                    path,
                    newer_utc: present.created_utc,
                });
            }
            Some(Ok(present)) => Placed::Replaced {
                path,
                older_utc: present.created_utc,
            },
            // A damaged one is no reason to keep it; one that isn't ours to judge is.
            Some(Err(error @ StoreError::Malformed { .. })) if !error.is_of_another_format() => {
                let damage = error.to_string();
                Placed::Mended { path, damage }
            }
            Some(Err(error)) => return Err(error.into()),
        };
        store::write(placed.path(), record)?;
        Ok(placed)
    }

    /// The baseline that a record is to be compared with: that of the branch, for the record's own
    /// machine class and scenario.
    ///
    /// # Errors
    /// [`BaselineError::None`] with what there is instead, or a baseline that can't be read.
    pub fn find(&self, branch: &str, record: &RunRecord) -> Result<RunRecord, BaselineError> {
        let path = self.path(branch, record)?;
        if path.exists() {
            return Ok(store::read(&path)?);
        }
        Err(BaselineError::None {
            folder: self.folder.clone(),
            branch: branch.to_owned(),
            class: record.machine.class.clone(),
            scenario: record.scenario.name.clone(),
            there: self.there()?,
        })
    }

    /// All of them, by branch, class and scenario; a damaged one hides no other.
    ///
    /// # Errors
    /// A folder that can't be read. One that isn't there has none.
    pub fn list(&self) -> Result<Vec<Baseline>, BaselineError> {
        let mut found = Vec::new();
        for branch in names(&self.folder)? {
            let of_branch = self.folder.join(&branch);
            for class in names(&of_branch)? {
                let of_class = of_branch.join(&class);
                for file in names(&of_class)? {
                    let Some(scenario) = file.strip_suffix(SUFFIX) else {
                        continue;
                    };
                    let path = of_class.join(&file);
                    found.push(Baseline {
                        branch: unescaped(&branch),
                        class: unescaped(&class),
                        scenario: unescaped(scenario),
                        record: store::read(&path),
                        path,
                    });
                }
            }
        }
        Ok(found)
    }

    fn path(&self, branch: &str, record: &RunRecord) -> Result<PathBuf, BaselineError> {
        let scenario = escaped("the scenario", &record.scenario.name, SUFFIX)?;
        Ok(self
            .folder
            .join(escaped("the branch", branch, "")?)
            .join(escaped("the machine class", &record.machine.class, "")?)
            .join(scenario))
    }

    /// What there is, in a phrase.
    fn there(&self) -> Result<String, BaselineError> {
        const SHOWN: usize = 5;
        let found = self.list()?;
        let shown: Vec<String> = found
            .iter()
            .take(SHOWN)
            .map(|of| format!("{:?} of {:?} on {}", of.scenario, of.branch, of.class))
            .collect();
        Ok(match found.len() {
            0 => "is none".to_owned(),
            more if more > SHOWN => format!("are {} and {} more", shown.join(", "), more - SHOWN),
            _ => format!("are {}", shown.join(", ")),
        })
    }
}

impl Placed {
    /// The baseline's file.
    pub fn path(&self) -> &Path {
        match self {
            Self::New { path }
            | Self::Replaced { path, .. }
            | Self::Mended { path, .. }
            | Self::Kept { path, .. } => path,
        }
    }
}

/// Whether what is there was measured later. A clock that was wrong by years must not keep it
/// for years: what is still to come was not measured.
fn is_later(present: &RunRecord, record: &RunRecord, now: Timestamp) -> bool {
    let time = |record: &RunRecord| record.created_utc.parse::<Timestamp>();
    match (time(present), time(record)) {
        (Ok(present), Ok(record)) => present > record && present <= now,
        // Who wrote no date is no reason to keep it.
        _ => false,
    }
}

/// How old a baseline was when the record beside it was measured, and where it comes from: for
/// whoever reads the comparison.
pub fn provenance(baseline: &RunRecord, record: &RunRecord, branch: &str) -> String {
    let arm = baseline.arms.values().next();
    let commit = arm.and_then(|arm| arm.git.as_deref()).unwrap_or(UNKNOWN);
    let days = days_between(&baseline.created_utc, &record.created_utc);
    let age = match days {
        None => "its age is not known".to_owned(),
        Some(0) => "on the same day".to_owned(),
        Some(days @ 1..) => format!("{} before", wording::plural(days.unsigned_abs(), "day")),
        Some(_) => "after what it is compared with".to_owned(),
    };
    let old = days.is_some_and(|days| days >= DAYS_OLD);
    format!(
        "Baseline of branch {branch}: measured {}, {age}, on {} ({}), service commit {commit}.{}",
        baseline.created_utc,
        baseline.machine.class,
        baseline.machine.cpu,
        if old {
            " It is old: machine and service have drifted since; set a new one."
        } else {
            ""
        }
    )
}

fn refuse_unfit(record: &RunRecord) -> Result<(), BaselineError> {
    let why = if record.arms.len() != 1 {
        "it holds two versions and is judged by itself; take a record of `unstall run`"
    } else if record.load.capacity.is_some() {
        "it is a search for capacity; take a record of `unstall run`"
    } else if !record.blocks.iter().any(|block| block.validity.ok) {
        "it has no block that may be used; measure again"
    } else if record.interrupted {
        "it was stopped before its plan was done; measure again"
    } else if record.machine.class == UNKNOWN {
        "the machine that measured isn't known; import it with --here where it was measured"
    } else {
        return Ok(());
    };
    Err(BaselineError::Unfit {
        label: record.label.clone(),
        why,
    })
}

/// Names in a folder, in order; those that begin with a dot are left out. One that is no folder or
/// isn't there has none.
fn names(folder: &Path) -> Result<Vec<String>, BaselineError> {
    let failed = |source| BaselineError::Io {
        path: folder.to_owned(),
        action: "list the folder",
        source,
    };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with('.') {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// A name as a file's: reversible, and never `.`, `..` or hidden.
fn escaped(what: &'static str, name: &str, suffix: &str) -> Result<String, BaselineError> {
    let wrong = |why| BaselineError::Name {
        what,
        name: name.to_owned(),
        why,
    };
    if name.is_empty() {
        return Err(wrong("it is empty"));
    }
    let mut text = String::new();
    for (place, byte) in name.bytes().enumerate() {
        let is_plain =
            byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || (byte == b'.' && place > 0);
        if is_plain {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text.push_str(suffix);
    if text.len() > NAME_BYTES_MAX {
        return Err(wrong("it is too long"));
    }
    Ok(text)
}

/// The name behind a file's; what nobody escaped stays as it is.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_plain_where_they_can_be() {
        let name = |text| escaped("the branch", text, "").unwrap();
        assert_eq!(name("main"), "main");
        assert_eq!(name("feature/x"), "feature%2Fx");
        assert_eq!(
            name("x86_64/2c/24g/linux-6.18"),
            "x86_64%2F2c%2F24g%2Flinux-6.18"
        );
        assert_eq!(name(".."), "%2E.");
        assert!(escaped("the branch", "", "").is_err());
        assert!(escaped("the branch", &"ä".repeat(50), "").is_err());
    }

    proptest! {
        #[test]
        fn names_come_back(name in "\\PC{1,20}") {
            let file = escaped("the branch", &name, "").unwrap();
            prop_assert!(!file.contains('/') && !file.starts_with('.'));
            prop_assert_eq!(unescaped(&file), name);
        }
    }
}
