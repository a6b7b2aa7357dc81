//! Sessions put together: what is kept, what is refused, and what it says of looking twice.

use std::collections::BTreeSet;

use unstall_results::compare::compare;
use unstall_results::comparison::Verdict;
use unstall_results::merge::{MergeError, MergeOptions, meaning, merge, order};
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_results::synthetic::{EndpointSpec, record, run_record};

fn session(seed: u64, pairs: u32, day: u32) -> RunRecord {
    let mut session = record(seed, pairs, 50, &[EndpointSpec::new("GET a", 10.0)]);
    session.created_utc = format!("2026-01-{day:02}T00:00:00Z");
    session
}

fn options(planned: bool) -> MergeOptions {
    MergeOptions {
        id: "merged".to_owned(),
        harness_version: "0.1.0".to_owned(),
        label: None,
        planned,
    }
}

fn merged(sessions: &[&RunRecord], planned: bool) -> Result<RunRecord, MergeError> {
    let named = sessions.iter().enumerate();
    let named = named.map(|(index, of)| (format!("{index}.json"), (*of).clone()));
    merge(named.collect(), &options(planned))
}

#[test]
fn sessions_become_one_record_with_more_pairs() {
    let (first, second) = (session(1, 6, 1), session(2, 8, 2));
    // The order of the files says nothing.
    let both = merged(&[&second, &first], false).unwrap();
    both.validate().unwrap();
    assert_eq!((both.blocks.len(), both.load.pairs), (28, 14));
    assert_eq!(both.created_utc, first.created_utc);
    let comparison = compare(&both, &Policy::default()).unwrap();
    assert_eq!(comparison.pairs, 14);
    // Arms keep their places.
    let (before, after) = order(&both);
    assert_eq!(before + after, 14);
    assert!(before.abs_diff(after) <= 2, "{before} {after}");
    for (block, original) in both
        .blocks
        .iter()
        .zip(first.blocks.iter().chain(&second.blocks))
    {
        assert_eq!(
            (&block.arm, block.position, &block.endpoints),
            (&original.arm, original.position, &original.endpoints)
        );
    }
    // One session follows the other on the clock.
    assert!(both.blocks.is_sorted_by_key(|block| block.started_mono_ns));
    let end = |record: &RunRecord| {
        let ends = record
            .blocks
            .iter()
            .map(|of| of.started_mono_ns + of.wall_ns);
        ends.max().unwrap()
    };
    let begin = |record: &RunRecord| {
        record
            .blocks
            .iter()
            .map(|of| of.started_mono_ns)
            .min()
            .unwrap()
    };
    let length = |record: &RunRecord| end(record) - begin(record);
    assert_eq!(length(&both), length(&first) + length(&second));
}

#[test]
fn sessions_that_were_judged_alone_are_looks() {
    let (first, second) = (session(1, 6, 1), session(2, 8, 2));
    let both = merged(&[&first, &second], false).unwrap();
    assert_eq!(both.load.looks, [6, 14]);
    let planned = merged(&[&first, &second], true).unwrap();
    assert_eq!(planned.load.looks, [0u32; 0]);
    // A session with looks of its own was looked at more often.
    let mut looked = session(3, 9, 3);
    looked.load.looks = vec![5, 9, 20];
    let three = merged(&[&both, &looked], false).unwrap();
    assert_eq!(three.load.looks, [6, 14, 19, 23]);
    assert_eq!(three.merged.as_ref().unwrap().sessions.len(), 3);
    assert!(matches!(
        merged(&[&first, &looked], true),
        Err(MergeError::Unfit { .. })
    ));
    let sentences: Vec<String> = [&both, &planned, &three]
        .into_iter()
        .filter_map(meaning)
        .collect();
    insta::assert_snapshot!(sentences.join("\n"));
    let comparison = compare(&both, &Policy::default()).unwrap();
    let warnings = comparison.validity.warnings.join("\n");
    assert!(warnings.contains("look 2 of 2"), "{warnings}");
}

#[test]
fn what_differs_is_listed_at_once() {
    let first = session(1, 6, 1);
    let mut other = session(2, 6, 2);
    other.machine.class = "aarch64/4c/8g/linux-6.1".to_owned();
    other.load.requests_per_endpoint = 51;
    other.load.warmup_per_user = 6;
    other.arms.get_mut("after").unwrap().git = Some("fedcba9".to_owned());
    other.machine.governor = Some("powersave".to_owned());
    let error = merged(&[&first, &other], false).unwrap_err();
    insta::assert_snapshot!(error.to_string());
    // A soft key is told, and kept.
    let mut soft = session(3, 6, 3);
    soft.machine.kernel = "6.18.1".to_owned();
    let both = merged(&[&first, &soft], false).unwrap();
    let told = both.merged.unwrap().differences;
    assert_eq!(told, ["kernel: 6.18.0 in 0.json, 6.18.1 in 1.json"]);
    // Nor is it kept back that two builds could not be told apart.
    let unnamed = |mut session: RunRecord| {
        session.arms.get_mut("before").unwrap().git = None;
        session
    };
    let both = merged(&[&unnamed(first), &unnamed(session(2, 6, 2))], false).unwrap();
    let told = both.merged.unwrap().differences;
    assert_eq!(
        told,
        ["commit of before: not known of any session, and taken for the same"]
    );
}

#[test]
fn nothing_counts_twice() {
    let (first, second) = (session(1, 6, 1), session(2, 6, 2));
    assert!(matches!(merged(&[&first], false), Err(MergeError::One)));
    assert!(matches!(
        merged(&[&first, &first], false),
        Err(MergeError::Twice { .. })
    ));
    let both = merged(&[&first, &second], false).unwrap();
    let again = merged(&[&both, &second], false).unwrap_err();
    assert!(again.to_string().contains("synthetic-2"), "{again}");
}

#[test]
fn of_a_stopped_session_whole_pairs_are_kept() {
    let first = session(1, 6, 1);
    let mut stopped = session(2, 6, 2);
    stopped.interrupted = true;
    // One pair has one block only; the last block of the one before it was cut off.
    stopped.blocks.truncate(9);
    stopped.blocks.swap(7, 8);
    let last = stopped.blocks.last_mut().unwrap();
    last.completed -= 1;
    let (name, pair) = ("GET a", last.pair);
    let samples = last.endpoints.get_mut(name).unwrap();
    samples.completed -= 1;
    let mut shorter = unstall_results::histogram::LatencyHistogram::new();
    for _ in 0..samples.completed {
        shorter.record_us(10_000);
    }
    samples.response = shorter;
    stopped.validate().unwrap();
    // How long it would be was not settled beforehand.
    let refused = merged(&[&first, &stopped], true).unwrap_err();
    assert!(refused.to_string().contains("leave --planned out"));
    let both = merged(&[&first, &stopped], false).unwrap();
    both.validate().unwrap();
    let told = &both.merged.as_ref().unwrap().sessions[1];
    assert_eq!((told.pairs, told.pairs_left_out), (3, 2), "pair {pair}");
    assert!(!both.interrupted);
    let pairs: BTreeSet<u32> = both.blocks.iter().map(|block| block.pair).collect();
    assert_eq!(pairs, (0..9).collect());
    assert_eq!(compare(&both, &Policy::default()).unwrap().pairs, 9);
}

#[test]
fn sessions_of_one_version_are_put_together_too() {
    let endpoints = [EndpointSpec::new("GET a", 10.0)];
    let (first, second) = (
        run_record(1, 100, &endpoints),
        run_record(2, 100, &endpoints),
    );
    let both = merged(&[&first, &second], false).unwrap();
    both.validate().unwrap();
    assert_eq!((both.blocks.len(), both.load.pairs), (2, 0));
    assert!(both.load.looks.is_empty());
    assert!(matches!(
        merged(&[&first, &session(3, 6, 3)], false),
        Err(MergeError::Different { .. })
    ));
}

#[test]
fn a_search_is_no_session() {
    let spec = unstall_results::synthetic::CapacitySpec {
        before: 100.0,
        after: Some(150.0),
        highest: 400.0,
    };
    let search = unstall_results::synthetic::capacity_record(1, spec);
    let error = merged(&[&search, &search], false).unwrap_err();
    assert!(
        error.to_string().contains("0.json: it is a search"),
        "{error}"
    );
}

#[test]
fn a_pair_that_stayed_invalid_is_merged_and_read_again() {
    let (mut first, second) = (session(1, 10, 1), session(2, 10, 2));
    first.blocks[7].validity.ok = false;
    first.blocks[7].validity.reasons = vec!["the generator was late".to_owned()];
    let both = merged(&[&first, &second], false).unwrap();
    assert_eq!((both.load.pairs, &both.load.looks[..]), (20, &[10, 20][..]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.json");
    store::write(&path, &both).unwrap();
    let read = store::read(&path).unwrap();
    let comparison = compare(&read, &Policy::default()).unwrap();
    assert_eq!(comparison.verdict, Verdict::Invalid);
    assert!(comparison.reasons[0].contains("the generator was late"));
    // Of sessions that were stopped in their first pair there is nothing to put together.
    let begun = |of: &RunRecord| {
        let mut begun = of.clone();
        begun.blocks.truncate(1);
        begun.interrupted = true;
        begun
    };
    let nothing = merged(&[&begun(&first), &begun(&second)], false).unwrap_err();
    assert!(matches!(nothing, MergeError::Unsound(_)), "{nothing}");
}
