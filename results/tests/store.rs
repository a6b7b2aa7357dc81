//! Records on disk, through the public door: what is written is read, what is
//! damaged is explained, and no crash leaves half a record.

#![expect(clippy::print_stdout, reason = "a skipped helper says so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use unstall_results::compare::compare;
use unstall_results::policy::Policy;
use unstall_results::record::{RunRecord, SCHEMA_MINOR};
use unstall_results::store::{self, StoreError};
use unstall_results::synthetic::{
    EndpointSpec, ProbeSpec, StreamSpec, add_probe, add_stream, record, run_record,
};

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn small(seed: u64) -> RunRecord {
    let mut small = record(seed, 5, 20, &[EndpointSpec::new("GET a", 5.0)]);
    let probe = ProbeSpec {
        held_before: 0.1,
        held_after: 0.0,
        hold_ms: 20.0,
    };
    add_probe(&mut small, probe);
    let stream = StreamSpec {
        items: 3,
        ttft_before_ms: 2.0,
        ttft_after_ms: 1.0,
        gap_ms: 1.0,
        stalled_before: 0.1,
        stalled_after: 0.0,
        coalesced: 0.1,
    };
    add_stream(&mut small, "GET a", stream);
    small
}

#[test]
fn every_malformed_record_names_its_place_and_a_fix() {
    let folder = tests_folder().join("malformed");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 45, "the corpus has {}", paths.len());
    let errors: Vec<String> = paths
        .iter()
        .map(|path| {
            let error = store::read(path).unwrap_err();
            assert!(matches!(error, StoreError::Malformed { .. }), "{error}");
            error
                .to_string()
                .replace(&format!("{}/", folder.display()), "")
        })
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

/// Flips and averages of pairs grow with their number and its square.
#[test]
fn more_pairs_than_anybody_asks_for_are_refused() {
    let mut forged = small(1);
    forged.blocks[3].pair = 999;
    assert_eq!(forged.validate(), Ok(()));
    forged.blocks[3].pair = 1_000;
    assert_eq!(
        forged.validate().unwrap_err().to_string(),
        "blocks[3].pair: 1000, expected at most 999: a comparison has up to 1000 pairs, counted from 0"
    );
    // One version has no pairs, so its blocks may have any number.
    let mut long = run_record(1, 20, &[EndpointSpec::new("GET a", 5.0)]);
    long.blocks[0].pair = 1_000;
    assert_eq!(long.validate(), Ok(()));
}

/// The file was written by version 0.1.0 and must stay readable as long as records
/// have major version 1: never write it anew.
#[test]
fn records_of_major_1_stay_readable() {
    let golden = store::read(&tests_folder().join("golden/record-1.0.json")).unwrap();
    assert_eq!((golden.schema.major, golden.schema.minor), (1, 0));
    assert_eq!(golden.blocks.len(), 11);
    let first = &golden.blocks[0].endpoints["GET usage"];
    assert_eq!(first.response.count(), first.completed);
    assert_eq!(compare(&golden, &Policy::default()).unwrap().pairs, 5);
}

#[test]
fn a_newer_minor_is_read_without_what_only_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("newer.json");
    store::write(&path, &small(1)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let newer = text
        .replace(&format!("\"minor\": {SCHEMA_MINOR}"), "\"minor\": 99")
        .replace("\"pair\": 0,", "\"pair\": 0, \"temperature_c\": [40, 41],");
    fs::write(&path, newer).unwrap();
    let read = store::read(&path).unwrap();
    let warnings = compare(&read, &Policy::default())
        .unwrap()
        .validity
        .warnings;
    assert!(
        warnings.iter().any(|text| text.contains("format 1.99")),
        "{warnings:?}"
    );
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    for record in [
        small(1),
        run_record(2, 30, &[EndpointSpec::new("GET a", 5.0)]),
    ] {
        store::write(&path, &record).unwrap();
        assert_eq!(store::read(&path).unwrap(), record);
    }
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left beside it: {names:?}");
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/a.json");
    let error = store::write(&missing, &small(1)).unwrap_err().to_string();
    assert!(
        error.contains("missing/a.json") && error.contains("--out"),
        "{error}"
    );
    assert!(matches!(
        store::write(folder.path(), &small(1)),
        Err(StoreError::NotAFile { .. })
    ));
    // Replacing a device would be worse than failing.
    assert!(matches!(
        store::write(Path::new("/dev/null"), &small(1)),
        Err(StoreError::NotAFile { .. })
    ));
    assert!(matches!(
        store::read(&folder.path().join("none.json")),
        Err(StoreError::Read { .. })
    ));
}

#[cfg(unix)]
#[test]
fn a_link_keeps_pointing_and_the_umask_decides_who_reads() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (
        folder.path().join("target.json"),
        folder.path().join("link.json"),
    );
    store::write(&target, &small(1)).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    store::write(&link, &small(2)).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(store::read(&target).unwrap(), small(2));
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&target), mode(&plain));
}

/// Runs as a process of its own in the tests below: writes two records in turn for ever.
#[test]
#[ignore = "a helper of other tests: writes until it is killed"]
fn writer() {
    let Some(path) = std::env::var_os("UNSTALL_TEST_RECORD").map(PathBuf::from) else {
        println!("skipped: only for the test that starts it");
        return;
    };
    let records = [small(1), small(2)];
    for turn in 0.. {
        store::write(&path, &records[turn % 2]).unwrap();
    }
}

/// Runs as a process of its own that may not write files beyond 8 KiB.
#[test]
#[ignore = "a helper of another test: needs its limit"]
fn writer_without_space() {
    let Some(path) = std::env::var_os("UNSTALL_TEST_RECORD").map(PathBuf::from) else {
        println!("skipped: only for the test that starts it");
        return;
    };
    let error = store::write(&path, &small(2)).unwrap_err();
    assert!(matches!(error, StoreError::Write { .. }), "{error}");
    assert!(error.to_string().contains("free space"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    store::write(&path, &small(1)).unwrap();
    assert!(fs::metadata(&path).unwrap().len() > 16 * 1024);
    // With the signal ignored, writing beyond the limit fails as on a full disk.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "writer_without_space", "--ignored"])
        .env("UNSTALL_TEST_RECORD", &path)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(store::read(&path).unwrap(), small(1));
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "the temporary file is gone"
    );
}

fn start_writer(path: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--ignored", "--test-threads", "1"])
        .env("UNSTALL_TEST_RECORD", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn two_writers_and_a_kill_leave_a_whole_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.json");
    let (first, second) = (small(1), small(2));
    store::write(&path, &first).unwrap();
    for round in 0..8u64 {
        let mut writers = [start_writer(&path), start_writer(&path)];
        std::thread::sleep(Duration::from_millis(120 + 17 * round));
        for writer in &mut writers {
            assert_eq!(writer.try_wait().unwrap(), None, "a writer ended by itself");
            // SIGKILL, wherever it is.
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
        let read = store::read(&path).unwrap();
        assert!(read == first || read == second);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_text_is_an_error_with_a_line_or_a_valid_record(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut bytes = serde_json::to_vec_pretty(&small(1)).unwrap();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        match store::parse(&bytes, Path::new("damaged.json")) {
            Ok(record) => {
                prop_assert!(record.validate().is_ok());
                // Whatever it holds, it can be judged without a panic.
                prop_assert!(compare(&record, &Policy::default()).is_ok());
            }
            Err(StoreError::Malformed { line, column, .. }) => prop_assert!(line >= 1 && column >= 1),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
