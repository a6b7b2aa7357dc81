//! Baselines in a folder: the right one is found, the newest one stays, and none hides another.

use std::fs;
use std::path::Path;

use unstall_results::baseline::{BaselineError, Baselines, Placed, provenance};
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{EndpointSpec, record, run_record};

fn measured(seed: u64, created: &str) -> RunRecord {
    let mut measured = run_record(seed, 100, &[EndpointSpec::new("GET a", 10.0)]);
    measured.created_utc = created.to_owned();
    measured
}

#[test]
fn the_layout_is_plain() {
    let folder = tempfile::tempdir().unwrap();
    let baselines = Baselines::in_folder(folder.path());
    let record = measured(1, "2026-01-01T00:00:00Z");
    let placed = baselines.set(&record, "feature/x").unwrap();
    let path = folder
        .path()
        .join("feature%2Fx/x86_64%2F2c%2F24g%2Flinux-6.18/synthetic.json");
    assert_eq!(placed, Placed::New { path: path.clone() });
    assert_eq!(unstall_results::store::read(&path).unwrap(), record);
    let found = baselines.list().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (
            found[0].branch.as_str(),
            found[0].class.as_str(),
            found[0].scenario.as_str()
        ),
        ("feature/x", "x86_64/2c/24g/linux-6.18", "synthetic")
    );
}

#[test]
fn the_newest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let baselines = Baselines::in_folder(folder.path());
    let (old, new) = (
        measured(1, "2026-01-01T00:00:00Z"),
        measured(2, "2026-02-01T00:00:00Z"),
    );
    assert!(matches!(
        baselines.set(&old, "main").unwrap(),
        Placed::New { .. }
    ));
    assert!(matches!(
        baselines.set(&new, "main").unwrap(),
        Placed::Replaced { .. }
    ));
    assert!(matches!(
        baselines.set(&old, "main").unwrap(),
        Placed::Kept { .. }
    ));
    assert_eq!(baselines.find("main", &old).unwrap(), new);
    // A damaged one is replaced.
    let path = baselines.list().unwrap()[0].path.clone();
    fs::write(&path, "{").unwrap();
    assert!(baselines.find("main", &old).is_err());
    assert!(baselines.list().unwrap()[0].record.is_err());
    assert!(matches!(
        baselines.set(&old, "main").unwrap(),
        Placed::Mended { damage, .. } if damage.contains("json:1:")
    ));
    // One of a newer format is whole, and not ours to replace.
    let text = fs::read_to_string(&path).unwrap();
    let newer = text.replacen("\"major\": 1", "\"major\": 2", 1);
    assert_ne!(newer, text);
    fs::write(&path, &newer).unwrap();
    let refused = baselines.set(&new, "main").unwrap_err().to_string();
    assert!(refused.contains("update unstall"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
    fs::remove_file(&path).unwrap();
    // A clock that was years ahead freezes nothing, and a second has parts.
    let mut ahead = old.clone();
    ahead.created_utc = "2999-01-01T00:00:00Z".to_owned();
    baselines.set(&ahead, "main").unwrap();
    assert!(matches!(
        baselines.set(&new, "main").unwrap(),
        Placed::Replaced { .. }
    ));
    let mut later = new.clone();
    later.created_utc = new.created_utc.replace('Z', ".5Z");
    baselines.set(&later, "main").unwrap();
    assert!(matches!(
        baselines.set(&new, "main").unwrap(),
        Placed::Kept { .. }
    ));
}

#[test]
fn many_at_once_leave_the_newest_whole() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8u64 {
            let folder = folder.path();
            scope.spawn(move || {
                for turn in 0..4 {
                    let day = 1 + (writer * 7 + turn * 3) % 28;
                    let record = measured(writer, &format!("2026-01-{day:02}T00:00:00Z"));
                    Baselines::in_folder(folder).set(&record, "main").unwrap();
                }
            });
        }
    });
    let days =
        (0..8u64).flat_map(|writer| (0..4).map(move |turn| 1 + (writer * 7 + turn * 3) % 28));
    let newest = format!("2026-01-{:02}T00:00:00Z", days.max().unwrap());
    let found = Baselines::in_folder(folder.path())
        .find("main", &measured(1, "2026-03-01T00:00:00Z"))
        .unwrap();
    assert_eq!(found.created_utc, newest);
    // Nothing half-written is left beside it.
    let mut class = Baselines::in_folder(folder.path())
        .list()
        .unwrap()
        .remove(0)
        .path;
    class.pop();
    let names: Vec<String> = fs::read_dir(class)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let folder = tempfile::tempdir().unwrap();
    let baselines = Baselines::in_folder(folder.path());
    let record = measured(1, "2026-01-01T00:00:00Z");
    let none = |baselines: &Baselines, record| {
        let error = baselines.find("main", record).unwrap_err();
        assert!(matches!(error, BaselineError::None { .. }), "{error}");
        error
            .to_string()
            .replace(&folder.path().display().to_string(), "FOLDER")
    };
    let nothing = none(&baselines, &record);
    baselines.set(&record, "main").unwrap();
    let mut elsewhere = record.clone();
    elsewhere.machine.class = "aarch64/4c/8g/linux-6.1".to_owned();
    let another = none(&baselines, &elsewhere);
    let absent = Baselines::in_folder(Path::new("no-such-folder"));
    assert!(absent.list().unwrap().is_empty());
    insta::assert_snapshot!(format!("{nothing}\n{another}"));
}

#[test]
fn what_can_not_be_a_baseline_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let baselines = Baselines::in_folder(folder.path());
    let mut spoilt = measured(1, "2026-01-01T00:00:00Z");
    spoilt.blocks[0].validity.ok = false;
    let mut stopped = measured(1, "2026-01-01T00:00:00Z");
    stopped.interrupted = true;
    let mut unknown = measured(1, "2026-01-01T00:00:00Z");
    unknown.machine.class = "unknown".to_owned();
    let pair = record(1, 5, 50, &[EndpointSpec::new("GET a", 10.0)]);
    let mut errors = Vec::new();
    for record in [&spoilt, &stopped, &unknown, &pair] {
        errors.push(baselines.set(record, "main").unwrap_err().to_string());
    }
    let long = "x".repeat(300);
    for branch in ["", &long] {
        errors.push(
            baselines
                .set(&measured(1, "2026-01-01T00:00:00Z"), branch)
                .unwrap_err()
                .to_string()
                .replace(&long, "xxx…"),
        );
    }
    insta::assert_snapshot!(errors.join("\n"));
    assert!(baselines.list().unwrap().is_empty());
}

#[test]
fn age_and_machine_are_told() {
    let baseline = measured(1, "2026-01-01T12:00:00Z");
    let said: Vec<String> = [
        "2026-01-01T13:00:00Z",
        "2026-01-03T13:00:00Z",
        "2026-04-01T00:00:00Z",
        "2025-12-01T00:00:00Z",
        "some day",
    ]
    .iter()
    .map(|created| provenance(&baseline, &measured(2, created), "main"))
    .collect();
    insta::assert_snapshot!(said.join("\n"));
}
