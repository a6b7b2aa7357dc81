//! Mistakes on the command line and servers that are missing: status, and what to do.

use std::net::TcpListener;
use std::process::Output;

use super::service::{fresh_database, run, shared_testbed};

const NOWHERE: &str = "postgres://app@127.0.0.1:1/app";
const NO_REDIS: &str = "redis://127.0.0.1:1";

fn serve(options: &[&str], database_url: &str, redis_url: &str) -> Output {
    let mut arguments = vec![
        "--port",
        "0",
        "--database-url",
        database_url,
        "--redis-url",
        redis_url,
    ];
    arguments.extend(options);
    run(&arguments)
}

/// Ended with this status, and said these words.
fn assert_ended(output: &Output, status: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in:\n{said}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_options_are_status_2_and_name_the_fix() {
    let wrong = |options: &[&str], words: &[&str]| {
        assert_ended(&serve(options, NOWHERE, NO_REDIS), 2, words)
    };
    wrong(&["--steps", "start,1"], &["name it alone"]);
    wrong(
        &["--steps", "start", "--mode", "threads"],
        &["cannot be used with"],
    );
    wrong(&["--steps", "0,2x"], &["no step `2x`", "did you mean `2"]);
    wrong(&["--steps", ""], &["no step given"]);
    wrong(
        &["--steps", "0", "--mode", "async"],
        &["cannot be used with"],
    );
    wrong(&["--workers", "0"], &["1..=256"]);
    wrong(&["--stream-idle-max", "0"], &["0 is not in 1.."]);
    let wrong_worker = |options: &[&str], words: &[&str]| {
        let mut arguments = vec!["worker", "--database-url", NOWHERE, "--redis-url", NO_REDIS];
        arguments.extend(options);
        assert_ended(&run(&arguments), 2, words);
    };
    wrong_worker(&["--rate", "0"], &["must be from 0.001 to 1000"]);
    wrong_worker(&["--rate", "fast"], &["not a number"]);
    wrong_worker(&["--jitter", "1.5"], &["must be from 0 to 1"]);
    wrong_worker(&["--chunks", "0"], &["--chunks"]);
    assert_ended(&run(&["worker"]), 2, &["--database-url", "--redis-url"]);
    wrong(
        &["--notify-url", "https://127.0.0.1/hook"],
        &["not the address of a service", "it looks like"],
    );
    wrong(
        &["--hub-url", "https://hub.test"],
        &["not the address of a service", "it looks like"],
    );
    wrong(&["--hub-timeout", "0"], &["0 is not in 1.."]);
    wrong(&["--admin-key", ""], &["one visible ASCII character"]);
    assert_ended(&run(&[]), 2, &["--port", "--database-url", "--redis-url"]);
    assert_ended(&run(&["seed"]), 2, &["--database-url"]);
    assert_ended(&run(&["migrate"]), 2, &["--database-url"]);
}

#[test]
fn servers_that_are_not_there_are_named() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    let redis_url = testbed.redis_url();
    for steps in ["start", "0", "0,1,2a,3"] {
        let options = ["--steps", steps];
        assert_ended(
            &serve(&options, NOWHERE, &redis_url),
            1,
            &["PostgreSQL can't be reached", "check that it runs"],
        );
        assert_ended(
            &serve(&options, &database_url, NO_REDIS),
            1,
            &["Redis can't be reached", "check that it runs"],
        );
        assert_ended(
            &serve(&options, "nonsense", &redis_url),
            1,
            &["database URL", "it looks like"],
        );
        assert_ended(
            &serve(&options, &database_url, "nonsense"),
            1,
            &["Redis URL", "it looks like"],
        );
        let unmigrated = testbed.database_url("postgres");
        assert_ended(
            &serve(&options, &unmigrated, &redis_url),
            1,
            &["unstall-reference migrate"],
        );
    }
    for (database_url, redis_url, server) in [
        (NOWHERE, &*redis_url, "PostgreSQL can't be reached"),
        (&*database_url, NO_REDIS, "Redis can't be reached"),
    ] {
        let arguments = [
            "worker",
            "--database-url",
            database_url,
            "--redis-url",
            redis_url,
        ];
        assert_ended(&run(&arguments), 1, &[server, "check that it runs"]);
    }
    assert_ended(
        &run(&["migrate", "--database-url", NOWHERE]),
        1,
        &["check that it runs"],
    );
    assert_ended(
        &run(&["seed", "--redis-url", NO_REDIS]),
        1,
        &["Redis can't be reached"],
    );
    let unmigrated = testbed.database_url("postgres");
    assert_ended(
        &run(&["seed", "--database-url", &unmigrated]),
        1,
        &["unstall-reference migrate"],
    );
}

#[test]
fn a_taken_port_is_named() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let output = run(&[
        "--port",
        &port,
        "--database-url",
        &database_url,
        "--redis-url",
        &testbed.redis_url(),
    ]);
    assert_ended(
        &output,
        1,
        &[&format!("127.0.0.1:{port}"), "choose another --port"],
    );
}

#[test]
fn migrating_and_seeding_twice_change_nothing() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    for arguments in [
        ["migrate", "--database-url", &database_url],
        ["seed", "--database-url", &database_url],
        ["seed", "--database-url", &database_url],
    ] {
        assert_ended(&run(&arguments), 0, &[]);
    }
}

#[test]
fn help_says_what_the_steps_move() {
    let help = String::from_utf8(run(&["--help"]).stdout).expect("text");
    // Lines are wrapped to the terminal's width.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "2a",
        "2c",
        "2d",
        "worker",
        "6: the reading of streams",
        "--notify-url",
        "--identity-url",
        "--tracker-url",
        "--mail-url",
        "--analytics-url",
        "--admin-key",
        "Examples:",
        "seed",
        "migrate",
    ] {
        assert!(help.contains(words), "no {words:?} in:\n{help}");
    }
}
