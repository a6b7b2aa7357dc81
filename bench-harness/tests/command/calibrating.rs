//! `unstall calibrate` and what its certificate does: sessions are kept and go on, another design is
//! refused, and judging says what the machine can't see.

use std::path::Path;

use serde_json::Value;
use unstall_testbed::ExactDelay;

use crate::program::{Call, call, unstall, write_scenario};

/// A few small sessions of a service against itself.
fn calibrate(folder: &Path, url: &str, more: &[&str]) -> Call {
    let mut command = unstall(folder);
    command
        .args([
            "calibrate",
            "one.toml",
            "--target",
            url,
            "--out",
            "cal",
            "--json",
        ])
        .args(["-c", "4", "--warmup", "1", "--seed", "1"])
        .args(more);
    Call::of(command.output().expect("unstall starts"))
}

fn ids(document: &Value) -> Vec<String> {
    let sessions = document["calibration"]["sessions"].as_array();
    let ids = sessions.expect("sessions").iter();
    ids.map(|session| session["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn sessions_are_kept_go_on_and_make_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = ExactDelay::start().expect("a service");
    write_scenario(folder.path(), "one", "/delay/2");
    let small = ["--pairs", "5", "--requests", "40"];
    let two = [&small[..], &["--sessions", "2"]].concat();
    let first = calibrate(folder.path(), &service.url(), &two);
    first
        .assert_code(0)
        .assert_stderr(&["0 of 2 sessions are there, 2 to measure"]);
    let first = first.document();
    assert_eq!(ids(&first).len(), 2);
    assert_eq!(first["calibration"]["design"]["pairs"], 5);
    assert_eq!(first["files"][0]["kind"], "certificate");
    let kept = std::fs::read(folder.path().join("cal/session-001.json")).expect("a record");

    // One more; those that are there stay as they are.
    let three = [&small[..], &["--sessions", "3"]].concat();
    let more = calibrate(folder.path(), &service.url(), &three);
    more.assert_code(0);
    let more = more.document();
    assert_eq!(ids(&more)[..2], ids(&first)[..]);
    assert_eq!(ids(&more).len(), 3);
    let still = std::fs::read(folder.path().join("cal/session-001.json")).expect("a record");
    assert_eq!(still, kept);
    let written = std::fs::read_to_string(folder.path().join("cal/calibration.json"));
    let written: Value = serde_json::from_str(&written.expect("a certificate")).expect("JSON");
    assert_eq!(written, more["calibration"]);

    // What one session lacks is measured again, under its own name.
    std::fs::remove_file(folder.path().join("cal/session-002.json")).expect("removed");
    let again = calibrate(folder.path(), &service.url(), &three);
    again.assert_code(0);
    assert!(folder.path().join("cal/session-002.json").is_file());
    assert!(!folder.path().join("cal/session-004.json").exists());

    // A folder holds one design.
    let other = ["--pairs", "6", "--requests", "40", "--sessions", "4"];
    calibrate(folder.path(), &service.url(), &other)
        .assert_code(2)
        .assert_stderr(&["pairs 5 there, 6 here", "a folder of their own"]);
    // Also where no session is missing, and the certificate stays what it was.
    let written = std::fs::read(folder.path().join("cal/calibration.json")).expect("a file");
    let none_missing = ["--pairs", "6", "--requests", "40", "--sessions", "2"];
    calibrate(folder.path(), &service.url(), &none_missing)
        .assert_code(2)
        .assert_stderr(&["pairs 5 there, 6 here"]);
    let elsewhere = [&small[..], &["--sessions", "2"]].concat();
    calibrate(folder.path(), "http://127.0.0.1:9", &elsewhere)
        .assert_code(2)
        .assert_stderr(&["target ", "a folder of their own"]);
    std::fs::write(
        folder.path().join("void.toml"),
        "[[rule]]\nendpoint = \"GET /nothing\"\nlimit = 30\n",
    )
    .expect("a policy");
    let void = [&small[..], &["--sessions", "2", "--policy", "void.toml"]].concat();
    calibrate(folder.path(), &service.url(), &void)
        .assert_code(2)
        .assert_stderr(&["void.toml:2:12", "matches no endpoint"]);
    let still = std::fs::read(folder.path().join("cal/calibration.json")).expect("a file");
    assert_eq!(still, written);
    judging(folder.path());
}

/// With the certificate of the calibration above.
fn judging(folder: &Path) {
    let certificate = ["--certificate", "cal/calibration.json"];
    let gate = call(
        folder,
        [
            "gate",
            "cal/session-001.json",
            certificate[0],
            certificate[1],
            "--json",
        ],
    );
    let document = gate.document();
    assert!(matches!(gate.code, Some(0 | 4)), "{gate:#?}");
    let notes = document["notes"].to_string();
    assert!(
        notes.contains("sessions of the same version twice"),
        "{notes}"
    );

    let text = std::fs::read_to_string(folder.join("cal/calibration.json")).expect("a file");
    // A limit of 3.5 % is below what 5 small blocks can show.
    let policy = "[metrics.response_p50]\nlimit = 3.5\nfloor = 0\n";
    std::fs::write(folder.join("tight.toml"), policy).expect("a policy");
    let tight = call(
        folder,
        [
            "gate",
            "cal/session-001.json",
            "--policy",
            "tight.toml",
            certificate[0],
            certificate[1],
            "--json",
        ],
    );
    let spots = tight.document()["comparisons"][0]["blind_spots"].to_string();
    assert!(spots.contains("the limit is 3.5 %"), "{spots}");

    // Nobody counted the false alarms of this rule.
    assert!(spots.contains("of another policy"), "{spots}");
    let notes = tight.document()["notes"].to_string();
    assert!(
        notes.contains("of another policy") && !notes.contains("a rate of"),
        "{notes}"
    );

    let elsewhere = text.replace("\"class\": \"", "\"class\": \"other-");
    std::fs::write(folder.join("elsewhere.json"), elsewhere).expect("a file");
    for command in ["gate", "report"] {
        call(
            folder,
            [
                command,
                "cal/session-001.json",
                "--certificate",
                "elsewhere.json",
            ],
        )
        .assert_code(2)
        .assert_stderr(&["machine class other-", "leave --certificate out"]);
    }
    call(
        folder,
        ["gate", "cal/session-001.json", "--certificate", "one.toml"],
    )
    .assert_code(2)
    .assert_stderr(&["one.toml:1:2", "unstall calibrate"]);

    let alarming = alarming(&text);
    std::fs::write(folder.join("alarming.json"), alarming).expect("a file");
    call(
        folder,
        [
            "gate",
            "cal/session-001.json",
            "--certificate",
            "alarming.json",
        ],
    )
    .assert_code(3);
}

/// The same certificate, of a machine on which four of six sessions alarmed.
fn alarming(text: &str) -> String {
    let mut certificate: Value = serde_json::from_str(text).expect("JSON");
    let alarms = &mut certificate["false_alarms"];
    alarms["count"] = 4.into();
    alarms["of"] = 6.into();
    alarms["low"] = 0.22.into();
    certificate.to_string()
}

#[test]
fn ab_refuses_a_certificate_of_another_design_before_it_measures() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = ExactDelay::start().expect("a service");
    write_scenario(folder.path(), "one", "/delay/2");
    let small = ["--pairs", "5", "--requests", "40", "--sessions", "1"];
    calibrate(folder.path(), &service.url(), &small).assert_code(0);
    service.reset_truth();
    let ab = |requests: &str| {
        let url = service.url();
        let mut command = unstall(folder.path());
        command
            .args(["ab", "one.toml", "--before", &url, "--after", &url])
            .args([
                "--pairs",
                "5",
                "-c",
                "4",
                "--warmup",
                "1",
                "--requests",
                requests,
            ])
            .args(["--certificate", "cal/calibration.json", "--json"]);
        Call::of(command.output().expect("unstall starts"))
    };
    ab("41")
        .assert_code(2)
        .assert_stderr(&["requests per endpoint and block 40 there, 41 here"]);
    let sent = service.truth("/delay/2").receive_to_send_ns.len();
    assert_eq!(sent, 0, "refused before the first request");
    let fits = ab("40");
    assert!(matches!(fits.code, Some(0 | 4)), "{fits:#?}");
    assert!(
        fits.document()["notes"]
            .to_string()
            .contains("calibration.json")
    );
}
