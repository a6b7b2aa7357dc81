//! Many processes at once below one root, on PostgreSQL and Redis.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::Value;
use unstall_testbed::{Options, Testbed};

use crate::scene::Scene;

#[test]
fn many_processes_work_below_one_root() {
    let testbed = Testbed::start(&Options::default()).expect("private servers start");
    let made = testbed.create_template("sandbox_empty", |_| Ok(()));
    made.expect("an empty database");
    let database = testbed.reset_database("sandbox_empty", "sandbox_command");
    let (database, redis) = (database.expect("a database"), testbed.redis_url());
    let scene = Scene::new();
    let run = |arguments: &[&str]| -> Value {
        let words: Vec<&str> = ["--json"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let mut command = scene.command(&words);
        command
            .env("DATABASE_URL", &database)
            .env("REDIS_URL", &redis);
        let output: Output = command.output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {told}");
        serde_json::from_str(&told).expect("a document")
    };
    let url = scene.url();
    // The first one makes the tables.
    run(&["ls"]);
    let ids: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..6)
            .map(|number| {
                let (run, url) = (&run, &url);
                scope.spawn(move || {
                    let conversation = (number % 3).to_string();
                    let asked = ["acquire", "octo/hello", "--url", url, "--conversation"];
                    let asked: Vec<&str> = asked.into_iter().chain([&*conversation]).collect();
                    let id = run(&asked)["workspace"]["id"].clone();
                    let id = id.as_str().expect("an id").to_owned();
                    let line = format!("echo {number} >> lines");
                    run(&["exec", &id, "--", "sh", "-c", &line]);
                    id
                })
            })
            .collect();
        asked
            .into_iter()
            .map(|asked| asked.join().expect("no panic"))
            .collect()
    });
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), 3, "{ids:?}");
    let listed = run(&["ls"]);
    for row in listed["workspaces"].as_array().expect("a list") {
        let tree = row["path"].as_str().expect("a path");
        let lines = std::fs::read_to_string(format!("{tree}/lines")).expect("it was written");
        assert_eq!(
            lines.lines().count(),
            2,
            "both wrote, one after the other: {row}"
        );
        assert_eq!(
            (&row["state"], &row["is_dirty"]),
            (&"ready".into(), &true.into())
        );
    }
    let doctor = run(&["doctor"]);
    assert!(doctor.to_string().contains("PostgreSQL"), "{doctor}");
}
