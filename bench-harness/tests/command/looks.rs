//! A session with looks ends at the first that settles it, and its record says so.

use crate::program::{Call, call, tiny_service, unstall, write_scenario};
use unstall_results::store;

#[test]
fn a_clear_answer_ends_the_session_at_its_first_look() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "try", "/x");
    let service = tiny_service();
    let command = |ms: u32| format!("{} --delay-ms {ms}", service.display());
    let output = unstall(folder.path())
        .args([
            "ab",
            "try.toml",
            "--before",
            &command(1),
            "--after",
            &command(40),
        ])
        .args([
            "--looks",
            "7,24",
            "-c",
            "2",
            "--requests",
            "40",
            "--warmup",
            "0",
        ])
        .args(["--out", "r.json", "--json"])
        .output()
        .expect("starts");
    let measured = Call::of(output);
    let record = store::read(&folder.path().join("r.json")).expect("a record");
    assert_eq!(
        (record.load.pairs, &record.load.looks[..]),
        (24, &[7, 24][..])
    );
    assert!(!record.interrupted);
    // Forty times as slow: a regression, or a machine too busy to measure on. Both settle it.
    assert!(matches!(measured.code, Some(1 | 3)), "{measured:#?}");
    let pairs = record.blocks.iter().map(|block| block.pair).max();
    assert_eq!(pairs, Some(6), "seven pairs, counted from 0");
    let document = measured.document();
    let compared = &document["comparisons"][0];
    assert_eq!(compared["looks"]["number"], 1);
    assert_eq!(compared["alpha"], 0.02);
    // What was stored is judged at the same look.
    let again = call(folder.path(), ["compare", "r.json"]);
    assert_eq!(again.code, measured.code);
    assert!(again.stdout.contains("look 1 of 2"), "{again:#?}");
}
