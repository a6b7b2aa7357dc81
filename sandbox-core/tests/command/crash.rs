//! The command killed between any two steps, and at any time: whoever comes next finds everything whole.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use unstall_sandbox_core::service::FaultPoint;

use crate::scene::{Scene, find};

/// SIGABRT.
const ABORTED: i32 = 6;
/// SIGKILL.
const KILLED: i32 = 9;
/// How often the command is killed at random; more by `UNSTALL_SANDBOX_KILLS`.
const KILLS: usize = 50;

/// The conversation that each crash is about.
const CONVERSATION: &str = "a";

/// What is done before the crash, and the command that crashes there.
fn crash(scene: &Scene, point: FaultPoint) -> Option<&'static str> {
    let url = scene.url();
    let acquire = [
        "acquire",
        "octo/hello",
        "--url",
        url.as_str(),
        "--conversation",
    ];
    let acquire = |more: &[&'static str]| -> Vec<String> {
        acquire
            .iter()
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect()
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut edited = None;
    let arguments: Vec<String> = match point {
        FaultPoint::CacheIntent
        | FaultPoint::CacheCloned
        | FaultPoint::WorkspaceIntent
        | FaultPoint::TreeMade => acquire(&["a"]),
        FaultPoint::PreparedIntent | FaultPoint::PreparedMade => acquire(&["a", "--prepare"]),
        FaultPoint::TreeClaimed => {
            scene.done(&[
                "acquire",
                "octo/hello",
                "--url",
                &url,
                "--conversation",
                "b",
                "--prepare",
            ]);
            acquire(&["a"])
        }
        FaultPoint::CacheEvicting | FaultPoint::CacheRemoved => {
            let id = scene.acquire("a");
            scene.done(&["evict", &id]);
            words(&["evict", "--unused-for-s", "0"])
        }
        FaultPoint::RuntimeStopping => return None,
        _ => {
            let id = scene.acquire("a");
            scene.done(&["exec", &id, "--", "sh", "-c", "echo mine > edit"]);
            let arguments = match point {
                FaultPoint::WorkspaceEvicting
                | FaultPoint::EditsSaved
                | FaultPoint::TreeRemoved => words(&["evict", &id]),
                FaultPoint::EditsLaid | FaultPoint::EditsLaidReady => {
                    scene.done(&["evict", &id]);
                    acquire(&[CONVERSATION])
                }
                FaultPoint::Committed => words(&["commit", &id, "-m", "mine"]),
                _ => words(&["exec", &id, "--", "sh", "-c", "echo more > more"]),
            };
            edited = Some("mine\n");
            arguments
        }
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = scene.command(&arguments);
    let output = command
        .env("UNSTALL_SANDBOX_FAULT", point.as_str())
        .output();
    let output = output.expect("it starts");
    let signal = output.status.signal();
    assert_eq!(signal, Some(ABORTED), "{point} wasn't reached: {output:?}");
    edited
}

#[test]
fn killed_at_each_fault_point_it_leaves_nothing_that_the_next_does_not_mend() {
    let mut reached = 0;
    for point in FaultPoint::ALL {
        let scene = Scene::new();
        let edited = crash(&scene, point);
        if point == FaultPoint::RuntimeStopping {
            continue; // the command ends its runtimes and never stops one; the service's tests do
        }
        reached += 1;
        scene.assert_whole(point.as_str());
        let kept = || scene.kept(&scene.workspaces(), CONVERSATION, "edit");
        if edited.is_some() {
            assert_eq!(kept().as_deref(), edited, "{point}: the edit is lost");
        }
        let id = scene.acquire(CONVERSATION);
        let done = scene.done(&["exec", &id, "--", "cat", "read.me"]);
        assert_eq!(done["run"]["stdout"], "one\n", "{point}");
        // Whoever comes back has it, whether it was evicted or not.
        assert_eq!(kept().as_deref(), edited, "{point}: the edit isn't there");
        assert!(scene.stores().is_empty(), "{point}: it is saved twice");
        scene.assert_whole(point.as_str());
    }
    assert_eq!(reached, FaultPoint::ALL.len() - 1);
}

#[test]
fn an_edit_that_was_undone_after_such_a_crash_does_not_come_back() {
    let scene = Scene::new();
    assert!(crash(&scene, FaultPoint::EditsLaidReady).is_some());
    assert_eq!(
        scene.stores().len(),
        1,
        "it crashed before that was dropped"
    );
    let notes = find(&scene.root(), &|name| name == "made-of");
    assert_eq!(notes.len(), 1, "the tree says of what it was made");
    let id = scene.acquire(CONVERSATION);
    assert!(
        scene.stores().is_empty(),
        "so it is dropped at the next start"
    );
    scene.done(&["exec", &id, "--", "rm", "edit"]);
    let gone = scene.done(&["evict", &id]);
    assert!(
        gone["eviction"]["decisions"][0]["note"].is_null(),
        "nothing was to be saved: {gone}"
    );
    scene.acquire(CONVERSATION);
    let kept = scene.kept(&scene.workspaces(), CONVERSATION, "edit");
    assert_eq!(kept, None);
}

/// Numbers that look random, and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn killed_at_random_it_leaves_nothing_that_the_next_does_not_mend() {
    let kills = std::env::var("UNSTALL_SANDBOX_KILLS").ok();
    let kills = kills.map_or(KILLS, |count| count.parse().expect("a number of kills"));
    let scene = Scene::new();
    let mut dice = Dice(8);
    // What was written and acknowledged: files by conversation.
    let mut written: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let took = typical_length(&scene);
    let mut hits = 0;
    for round in 0..kills {
        let conversation = ["a", "b", "c"][usize::try_from(dice.below(3)).expect("small")];
        let id = scene.acquire(conversation);
        let file = format!("file{round}");
        let line = format!("echo {file} > {file}");
        let write = ["exec", id.as_str(), "--", "sh", "-c", line.as_str()];
        scene.done(&write);
        written
            .entry(conversation.to_owned())
            .or_default()
            .push(file);
        let url = scene.url();
        let next = format!("n{round}");
        let victim = match dice.below(6) {
            0 => vec![
                "acquire",
                "octo/hello",
                "--url",
                &url,
                "--conversation",
                &next,
                "--prepare",
            ],
            1 => vec!["commit", &id, "-m", "more"],
            2 => vec!["evict", &id],
            3 => vec!["evict", "--unused-for-s", "0"],
            4 => {
                // It is killed while it makes a tree of what was saved.
                scene.done(&["evict", &id]);
                vec![
                    "acquire",
                    "octo/hello",
                    "--url",
                    &url,
                    "--conversation",
                    conversation,
                ]
            }
            _ => vec![
                "exec",
                &id,
                "--",
                "sh",
                "-c",
                "echo x > x; sleep 0.02; echo y > y",
            ],
        };
        let mut child = scene.start(&victim);
        let span_us = u64::try_from(took.as_micros()).expect("short").max(1);
        std::thread::sleep(Duration::from_micros(dice.below(span_us)));
        // It may have ended already.
        drop(child.kill());
        let status = child.wait().expect("it ends");
        hits += usize::from(status.signal() == Some(KILLED));
        let context = format!("round {round}, {victim:?}");
        scene.assert_whole(&context);
        // Those that are there each time, and at times what was saved of others, too.
        let listed = scene.workspaces();
        for (conversation, files) in &written {
            let branch = format!("agent/edits-{conversation}");
            let is_listed = listed.iter().any(|row| row["branch"] == branch.as_str());
            if !is_listed && round % 10 != 9 {
                continue;
            }
            for file in files {
                let kept = scene.kept(&listed, conversation, file);
                let expected = Some(format!("{file}\n"));
                assert_eq!(
                    kept, expected,
                    "{context}: {file} of {conversation} is lost"
                );
            }
        }
    }
    assert!(
        hits * 4 >= kills,
        "{hits} of {kills} were killed before their end"
    );
}

/// How long an ordinary command takes here.
fn typical_length(scene: &Scene) -> Duration {
    let id = scene.acquire("a");
    let began = Instant::now();
    scene.done(&["exec", &id, "--", "sh", "-c", "true"]);
    began.elapsed()
}
