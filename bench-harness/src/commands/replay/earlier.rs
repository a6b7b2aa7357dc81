//! What an earlier run has left of a measurement: all of it, a part with which this one goes on,
//! or something else, which must not be mixed with it.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, bail};
use unstall_results::record::{Load, RunRecord};
use unstall_results::store;

/// The file by which two replays keep out of each other's way.
const LOCK: &str = ".replay.lock";

/// What is at the place of a record.
#[derive(Debug)]
pub(crate) enum Earlier {
    /// Nothing.
    Nothing,
    /// The same measurement, complete.
    Whole(Box<RunRecord>),
    /// The same measurement, interrupted, or with a part that is invalid.
    Part(Box<RunRecord>),
    /// Another one; why this is no part of it.
    Other(String),
}

/// Keeps other replays out of a folder until the file is closed.
///
/// # Errors
/// If there is one.
pub(crate) fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let file =
        File::create(&path).with_context(|| format!("{} can't be written", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another replay is writing to {}; give each an --out of its own",
            folder.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} can't be locked", path.display()))
        }
    }
}

/// The seed of what is there, if it can be read: whoever goes on must draw as it did.
pub(crate) fn seed(path: &Path) -> Option<u64> {
    // What can't be read is told by [`look`].
    store::read(path).ok().map(|record| record.load.seed)
}

/// Looks at what is at a record's place; `planned` is its head.
pub(crate) fn look(path: &Path, planned: &RunRecord) -> Earlier {
    if !fs::exists(path).unwrap_or(true) {
        return Earlier::Nothing;
    }
    let record = match store::read(path) {
        Ok(record) => Box::new(record),
        Err(error) => return Earlier::Other(format!("it can't be read: {error}")),
    };
    let differences = differences(&record, planned);
    if !differences.is_empty() {
        return Earlier::Other(differences.join("; "));
    }
    if record.interrupted || is_spoilt(&record) {
        Earlier::Part(record)
    } else {
        Earlier::Whole(record)
    }
}

/// Whether a pair or triple came to nothing by a fault of ours: kept as it is, the record would be
/// invalid each time that the same command is given again. A search goes on over such blocks.
fn is_spoilt(record: &RunRecord) -> bool {
    let begun: BTreeSet<u32> = record.blocks.iter().map(|block| block.pair).collect();
    record.load.capacity.is_none() && record.complete_pairs() != begun
}

/// What keeps two heads from being the same measurement, in words.
fn differences(found: &RunRecord, planned: &RunRecord) -> Vec<String> {
    let mut differences = Vec::new();
    let mut differs = |what: &str, same: bool| {
        if !same {
            differences.push(format!("{what} is another one"));
        }
    };
    let scenario = |of: &RunRecord| (of.scenario.name.clone(), of.scenario.sha256.clone());
    differs("the scenario", scenario(found) == scenario(planned));
    differs("the load", same_load(&found.load, &planned.load));
    differs("a version", found.arms == planned.arms);
    differs("the step", found.step == planned.step);
    differs("the machine", found.machine.class == planned.machine.class);
    differs("unstall's version", found.harness == planned.harness);
    differences
}

/// Whether the same was asked for: not what was found out only then, as the measured round trip, a
/// route that doesn't answer a probe, and the rates of a search.
fn same_load(found: &Load, planned: &Load) -> bool {
    let asked = |of: &Load| Load {
        levels: match of.capacity {
            Some(_) => Vec::new(),
            None => of.levels.clone(),
        },
        store_round_trip_us_measured: None,
        probe: None,
        ..of.clone()
    };
    asked(found) == asked(planned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unstall_results::synthetic::{EndpointSpec, record};

    fn saved(change: impl Fn(&mut RunRecord)) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1-a.json");
        let mut earlier = record(1, 6, 400, &[EndpointSpec::new("GET a", 10.0)]);
        change(&mut earlier);
        store::write(&path, &earlier).expect("written");
        (folder, path)
    }

    fn planned() -> RunRecord {
        let mut head = record(1, 6, 400, &[EndpointSpec::new("GET a", 10.0)]);
        head.blocks.clear();
        head.load.store_round_trip_us_measured = Some(333);
        head
    }

    #[test]
    fn what_is_whole_counts_and_what_was_interrupted_goes_on() {
        let (_folder, path) = saved(|_| {});
        assert!(matches!(look(&path, &planned()), Earlier::Whole(_)));
        let (_folder, path) = saved(|record| {
            record.interrupted = true;
            record.blocks.truncate(5);
        });
        assert!(matches!(look(&path, &planned()), Earlier::Part(_)));
        let (_folder, path) = saved(|record| record.blocks[3].validity.ok = false);
        assert!(matches!(look(&path, &planned()), Earlier::Part(_)));
        let nowhere = path.with_file_name("2-a.json");
        assert!(matches!(look(&nowhere, &planned()), Earlier::Nothing));
    }

    #[test]
    fn another_measurement_is_told_apart() {
        let other = |change: fn(&mut RunRecord)| {
            let (_folder, path) = saved(change);
            match look(&path, &planned()) {
                Earlier::Other(why) => why,
                found => panic!("{found:?}"),
            }
        };
        assert_eq!(other(|of| of.load.seed = 2), "the load is another one");
        let changed = |of: &mut RunRecord| {
            of.scenario.sha256 = "1".repeat(64);
            of.harness.git = Some("abc".to_owned());
        };
        let told = "the scenario is another one; unstall's version is another one";
        assert_eq!(other(changed), told);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1-a.json");
        fs::write(&path, "{}").expect("writable");
        assert!(matches!(look(&path, &planned()), Earlier::Other(_)));
    }

    #[test]
    fn two_replays_keep_out_of_each_others_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let held = lock(folder.path()).expect("the first");
        let error = lock(folder.path()).expect_err("the second").to_string();
        assert!(error.contains("--out of its own"), "{error}");
        drop(held);
        lock(folder.path()).expect("the first is gone");
    }
}
