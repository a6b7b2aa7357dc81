//! `unstall prove` on services whose certificates are known: what is proven, what isn't, and
//! what goes wrong. The reference service's real certificates are in `tests/proof.rs`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use unstall_loop_monitor::certificate::{CERTIFICATE_PATH, Certificate};
use unstall_loop_monitor::wire::{REFUSAL_PREFIX, SNAPSHOT_PATH};

use crate::program::{Call, tiny_service, unstall, write_scenario};

/// What a fake service says where it is asked for something of the monitor's: status and body.
type Says = (u16, String);

/// A service that answers `{}` with 200, but 500 below `/broken`; `certificate` gives what it
/// says at the certificate's path, from the number of requests so far and of looks before.
fn fake(certificate: impl Fn(u64, u64) -> Says + Send + Sync + 'static) -> String {
    fake_with(certificate, |_| (404, String::new()))
}

/// The same with a snapshot, from the number of requests so far.
fn fake_with(
    certificate: impl Fn(u64, u64) -> Says + Send + Sync + 'static,
    snapshot: impl Fn(u64) -> Says + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (requests, looks) = (AtomicU64::new(0), AtomicU64::new(0));
    let answer = Arc::new(move |path: &str| match path {
        CERTIFICATE_PATH => certificate(requests.load(Relaxed), looks.fetch_add(1, Relaxed)),
        SNAPSHOT_PATH => snapshot(requests.load(Relaxed)),
        path => {
            requests.fetch_add(1, Relaxed);
            let status = if path.starts_with("/broken") {
                500
            } else {
                200
            };
            (status, "{}".to_owned())
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            // A client that hangs up ends its thread; there is nothing to tell anybody.
            std::thread::spawn(move || drop(serve(&stream, answer.as_ref())));
        }
    });
    format!("http://{address}")
}

fn serve(stream: &TcpStream, answer: &dyn Fn(&str) -> Says) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream;
    let mut path = None;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if path.is_none() {
            path = line.split(' ').nth(1).map(ToOwned::to_owned);
        }
        if line.is_empty() {
            let (status, body) = answer(&path.take().unwrap_or_default());
            let length = body.len();
            write!(
                writer,
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
        }
    }
    Ok(())
}

/// A certificate of these routes, with so many requests where a route leaves them open.
fn certificate(start_id: &str, requests: u64, mut routes: Value) -> Value {
    for route in routes.as_object_mut().expect("routes").values_mut() {
        if route["requests"].is_null() {
            route["requests"] = requests.into();
        }
    }
    json!({
        "schema": { "name": "unstall.certificate", "major": 1, "minor": 0 },
        "start_id": start_id,
        "commit": "abc123",
        "method": { "kind": "syscall-user-dispatch" },
        "routes": routes,
        "not_covered": ["calls of the vDSO"],
    })
}

/// A route that was watched and made no call that can block.
fn clean() -> Value {
    json!({ "requests": null, "polls": 40, "calls": 200 })
}

/// A route that no request reached.
fn idle() -> Value {
    json!({ "requests": 0, "polls": 0, "calls": 0 })
}

fn finding() -> Value {
    json!({
        "count": 20,
        "cause": {
            "class": "io",
            "syscall": "recvfrom",
            "target": { "what": "127.0.0.1:6379", "name": "redis (REDIS_URL)" },
            "frames": [
                { "function": "recv", "is_own": false },
                { "function": "store::get", "file": "src/store.rs", "line": 42, "is_own": true },
                { "function": "routes::item", "file": "src/routes.rs", "line": 7, "is_own": true },
            ],
        },
    })
}

fn seen(certificate: &Value) -> Says {
    (200, certificate.to_string())
}

/// `unstall prove` in a folder that has the scenario `try`, one GET of `/items/7`.
fn prove(folder: &Path, target: &str, extra: &[&str]) -> Call {
    write_scenario(folder, "try", "/items/7");
    Call::of(output(folder, &["try.toml", "--target", target], extra))
}

fn output(folder: &Path, arguments: &[&str], extra: &[&str]) -> Output {
    unstall(folder)
        .arg("prove")
        .args(arguments)
        .args(extra)
        .output()
        .expect("unstall starts")
}

fn routes(document: &Value) -> Vec<(String, String)> {
    let routes = document["proof"]["routes"].as_array().expect("routes");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let named = routes
        .iter()
        .map(|route| (text(&route["route"]), text(&route["verdict"])));
    named.collect()
}

#[test]
fn what_is_proven_is_said_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = fake(|requests, _| {
        seen(&certificate(
            "a",
            requests,
            json!({ "GET /items/{id}": clean() }),
        ))
    });
    let call = prove(
        folder.path(),
        &target,
        &["--out", "certificate.json", "--route", "get /items/{id}"],
    );
    call.assert_code(0);
    insta::assert_snapshot!("proven", call.stdout);
    let text = fs::read_to_string(folder.path().join("certificate.json")).expect("written");
    let kept: Certificate = serde_json::from_str(&text).expect("a certificate");
    assert_eq!(kept.routes["GET /items/{id}"].requests, 20);
    let json = prove(folder.path(), &target, &["--json"]);
    json.assert_code(0);
    let document = json.document();
    assert_eq!(document["verdict"], "proven");
    assert_eq!(document["proof"]["commit"], "abc123");
}

#[test]
fn what_blocks_is_named_with_its_line_and_comes_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = fake(|requests, _| {
        let mut blocking = clean();
        blocking["findings"] = json!([finding()]);
        blocking["exemptions"] = json!([{ "reason": "block_in_place", "count": 1 }]);
        blocking["log_writes"] = 3.into();
        blocking["faulted_polls"] = 2.into();
        let routes = json!({
            "GET /items/{id}": blocking,
            "GET /health": { "requests": 1, "polls": 1, "calls": 0 },
            "POST /never": idle(),
        });
        seen(&certificate("a", requests, routes))
    });
    let call = prove(folder.path(), &target, &["--route", "PUT /nowhere"]);
    call.assert_code(1);
    insta::assert_snapshot!("blocking", call.stdout);
    let json = prove(folder.path(), &target, &["--json"]);
    json.assert_code(1);
    let document = json.document();
    assert_eq!(document["verdict"], "blocking");
    let finding = &document["proof"]["routes"][0]["findings"][0];
    assert_eq!(finding["target"], "redis (REDIS_URL) at 127.0.0.1:6379");
    assert_eq!(finding["blamed"]["line"], 42);
}

#[test]
fn a_route_that_only_fails_is_unproven_however_clean_its_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = || json!({ "GET /broken/{id}": clean() });
    let target = fake(move |requests, _| seen(&certificate("a", requests, routes())));
    write_scenario(folder.path(), "broken", "/broken/7");
    let call = Call::of(output(
        folder.path(),
        &["broken.toml", "--target", &target],
        &[],
    ));
    call.assert_code(1);
    assert!(
        call.stdout.contains("none of its 20 requests was answered") && call.stdout.contains("500"),
        "{call:#?}"
    );
}

#[test]
fn an_unexercised_route_and_one_without_a_monitor_are_unproven() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = fake(|requests, _| {
        let routes =
            json!({ "GET /else": clean(), "POST /never": idle(), "* (unmatched)": clean() });
        seen(&certificate("a", requests, routes))
    });
    let call = prove(folder.path(), &target, &["--json"]);
    call.assert_code(1);
    let document = call.document();
    assert_eq!(document["verdict"], "unproven");
    let unproven = |route: &str| (route.to_owned(), "unproven".to_owned());
    assert_eq!(
        routes(&document)
            .into_iter()
            .filter(|(_, verdict)| verdict != "proven")
            .collect::<Vec<_>>(),
        [unproven("GET /items/7"), unproven("POST /never")]
    );
}

#[test]
fn other_workers_and_restarts_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = || json!({ "GET /items/{id}": clean() });
    let two = fake(move |requests, looks| {
        let id = if looks % 2 == 0 { "a" } else { "b" };
        seen(&certificate(id, requests, routes()))
    });
    let call = prove(folder.path(), &two, &[]);
    call.assert_code(2).assert_stderr(&["one worker"]);
    let restarted = fake(move |requests, _| {
        let id = if requests == 0 { "a" } else { "b" };
        seen(&certificate(id, requests, routes()))
    });
    let call = prove(folder.path(), &restarted, &[]);
    call.assert_code(2).assert_stderr(&["restarted"]);
    // Idle workers take connections in no fair turn: each look may meet the same one.
    let half = fake(move |requests, _| seen(&certificate("a", requests / 2, routes())));
    let call = prove(folder.path(), &half, &[]);
    call.assert_code(1);
    assert!(call.stdout.contains("run one worker"), "{call:#?}");
}

#[test]
fn a_target_without_a_certificate_is_told_how_to_have_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = fake(|_, _| (404, String::new()));
    let call = prove(folder.path(), &none, &[]);
    call.assert_code(2).assert_stderr(&[
        "prove_from_environment()",
        "feature `prove`",
        "UNSTALL_PROVE=1",
        &none,
    ]);
    let refused = fake(|_, _| (403, format!("{REFUSAL_PREFIX}ask with a token\n")));
    let call = prove(folder.path(), &refused, &[]);
    call.assert_code(2)
        .assert_stderr(&["ask with a token", "UNSTALL_MONITOR_TOKEN"]);
    let newer = fake(|_, _| {
        let mut newer = certificate("a", 1, json!({ "GET /": clean() }));
        newer["schema"]["major"] = 2.into();
        seen(&newer)
    });
    let call = prove(folder.path(), &newer, &["--json"]);
    call.assert_code(2)
        .assert_stderr(&["version 2", "same release"]);
    assert_eq!(call.document()["error"]["causes"], json!([]));
    let broken = fake(|_, _| {
        let mut broken = certificate("a", 1, json!({ "GET /": clean() }));
        broken["routes"] = "\u{1b}[31m".into();
        seen(&broken)
    });
    let call = prove(folder.path(), &broken, &[]);
    call.assert_code(2)
        .assert_stderr(&["no usable certificate"]);
    assert!(!call.stderr.contains('\u{1b}'), "{call:#?}");
}

#[test]
fn where_nothing_can_be_caught_the_counters_speak_and_nothing_is_proven() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = fake_with(
        |requests, _| {
            let mut certificate = certificate("a", requests, json!({ "GET /items/{id}": clean() }));
            certificate["method"] =
                json!({ "kind": "unsupported", "reason": "the kernel emulates them" });
            seen(&certificate)
        },
        |requests| (200, snapshot(requests)),
    );
    let call = prove(folder.path(), &target, &[]);
    call.assert_code(1);
    insta::assert_snapshot!("unsupported", call.stdout);
    let json = prove(folder.path(), &target, &["--json"]);
    json.assert_code(1);
    let document = json.document();
    assert_eq!(document["proof"]["unsupported"], "the kernel emulates them");
    let waits = &document["proof"]["routes"][0]["waits"];
    assert_eq!(waits["slept_ns"], 40_000_000);
}

/// The counters of a monitor whose route slept 2 ms in each request.
fn snapshot(requests: u64) -> String {
    let monitor = unstall_loop_monitor::Monitor::builder().build();
    let mut snapshot = monitor.snapshot();
    let mut endpoint = unstall_loop_monitor::wire::Endpoint::default();
    endpoint.blocked.slept_ns = requests * 2_000_000;
    endpoint.blocked.events = requests;
    snapshot
        .endpoints
        .insert("GET /items/{id}".to_owned(), endpoint);
    serde_json::to_string(&snapshot).expect("a snapshot can be written")
}

/// A command that serves a certificate of `/items/{id}`.
fn command(folder: &Path, options: &str) -> String {
    let text = certificate("a", 0, json!({ "GET /items/{id}": clean() })).to_string();
    let text = text.replace("\"requests\":0", "\"requests\":REQUESTS");
    fs::write(folder.join("canned.json"), text).expect("the folder can be written");
    format!(
        "{} --certificate canned.json {options}",
        tiny_service().display()
    )
}

#[test]
fn a_command_is_started_with_its_proof_asked_for_and_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = command(folder.path(), "");
    let call = prove(folder.path(), &command, &["--requests", "3", "--json"]);
    call.assert_code(0);
    let document = call.document();
    assert_eq!(document["proof"]["routes"][0]["requests"], 3);
    let unasked = format!("UNSTALL_PROVE=0 {command}");
    let call = prove(folder.path(), &unasked, &[]);
    call.assert_code(2).assert_stderr(&["UNSTALL_PROVE=1"]);
}

#[test]
fn a_target_that_is_not_there_or_dies_half_way_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = gone.local_addr().expect("it is bound");
    drop(gone);
    let call = prove(folder.path(), &format!("http://{address}"), &[]);
    call.assert_code(2).assert_stderr(&["start the service"]);
    let dies = command(folder.path(), "--die-at 5");
    let call = prove(folder.path(), &dies, &["--out", "never.json"]);
    call.assert_code(2).assert_stderr(&[
        "the service ended",
        "SIGABRT",
        "nothing is proven",
        "was told to die now",
    ]);
    assert!(!folder.path().join("never.json").exists());
    let refuses = command(folder.path(), "--refuse-to-start 1");
    let call = prove(folder.path(), &refuses, &[]);
    call.assert_code(2)
        .assert_stderr(&["was told not to start"]);
}

#[test]
fn an_interrupt_says_what_there_is_and_passes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "try", "/items/7");
    let service = command(folder.path(), "--delay-ms 20");
    let mut child = unstall(folder.path())
        .args(["prove", "try.toml", "--target", &service])
        .args(["--requests", "10000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let sending = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("try: ")));
    assert!(sending.is_some(), "the work is told");
    // So that at least one answer is there; how many there are more decides nothing.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    let mut output = child.wait_with_output().expect("it ends");
    output.stderr = rest.join().expect("read").join("\n").into_bytes();
    let call = Call::of(output);
    call.assert_code(4).assert_stderr(&["Stopping"]);
    let document = call.document();
    assert_eq!(document["verdict"], "inconclusive");
    assert_eq!(document["proof"]["interrupted"], true);
}

#[test]
fn mistakes_in_the_arguments_name_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = "http://127.0.0.1:9";
    for (extra, words) in [
        (&["--route", "/items"][..], "GET /items/{id}"),
        (&["--route", "GET items"], "/items"),
        (&["--requests", "0"], "1..=10000"),
        (&["--ready", "health"], "/health"),
    ] {
        let call = prove(folder.path(), target, extra);
        call.assert_code(2).assert_stderr(&[words]);
    }
    let call = prove(folder.path(), "no-such-program --port {port}", &[]);
    call.assert_code(2).assert_stderr(&["no-such-program"]);
    let call = prove(folder.path(), " ", &[]);
    call.assert_code(2).assert_stderr(&["--target takes a URL"]);
}
