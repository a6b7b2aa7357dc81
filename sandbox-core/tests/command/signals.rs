//! The command stopped or killed while it waits for a host that never answers: nothing is left of it.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::scene::{Scene, find};

/// Longer than anything here takes, on a machine that does much else.
const LONG: Duration = Duration::from_secs(30);

/// Takes connections and says nothing. Each is told of.
fn silent_host() -> (SocketAddr, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (asked, seen) = channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            held.push(stream);
            if asked.send(()).is_err() {
                return;
            }
        }
    });
    (address, seen)
}

/// The command, waiting for the host's answer with a token in its hands.
fn waiting(scene: &Scene, address: SocketAddr, seen: &Receiver<()>) -> Child {
    let child = scene
        .command(&["acquire", "octo/hello", "--conversation", "1"])
        .env("GITHUB_BASE_URL", format!("http://{address}"))
        .env("GH_TOKEN", "s3cret")
        .env("UNSTALL_SANDBOX_SCHEMES", "http")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    seen.recv_timeout(LONG).expect("the host is asked");
    let gits = processes_with(address);
    assert!(gits.len() > 1, "git and its helper wait: {gits:?}");
    child
}

/// Processes that have the host's address among their arguments.
fn processes_with(address: SocketAddr) -> Vec<String> {
    let address = address.to_string();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&address).then_some(line)
    });
    lines.collect()
}

fn assert_none_stays(address: SocketAddr) {
    let until = Instant::now() + LONG;
    loop {
        let gits = processes_with(address);
        if gits.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{gits:?} are still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn sockets(scene: &Scene) -> usize {
    let folder = scene.root().join(".sandbox/run");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn killed_it_leaves_no_git_that_waits_and_its_socket_is_swept() {
    let scene = Scene::new();
    let (address, seen) = silent_host();
    let mut child = waiting(&scene, address, &seen);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_none_stays(address);
    assert_eq!(sockets(&scene), 1, "nobody was left to remove it");
    scene.done(&["ls"]);
    assert_eq!(sockets(&scene), 0);
    scene.assert_whole("after it was killed");
}

#[test]
fn stopped_it_clears_away_what_it_had_begun_and_says_by_what_it_was_stopped() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let scene = Scene::new();
        let (address, seen) = silent_host();
        let mut child = waiting(&scene, address, &seen);
        let process = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
        kill(process, signal).expect("it runs");
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{signal}");
        assert_none_stays(address);
        assert_eq!(sockets(&scene), 0, "{signal}");
        let half_made = find(&scene.root(), &|name| name.starts_with(".new-"));
        assert!(half_made.is_empty(), "{signal}: {half_made:?}");
        scene.assert_whole("after a signal");
    }
}

#[test]
fn a_signal_ends_the_command_that_is_run_too() {
    let scene = Scene::new();
    let id = scene.acquire("1");
    let line = "touch begun; exec sleep 600";
    let mut child = scene.start(&["exec", &id, "--", "sh", "-c", line]);
    let rows = scene_tree(&scene, &id);
    let until = Instant::now() + LONG;
    while !rows.join("begun").exists() {
        assert!(Instant::now() < until, "it never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    let process = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
    kill(process, Signal::SIGTERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
    scene.assert_whole("after a signal");
}

/// Where a workspace's tree is. `ls` needs no lock on the root, which the command has.
fn scene_tree(scene: &Scene, id: &str) -> std::path::PathBuf {
    let rows = scene.workspaces();
    let row = rows
        .iter()
        .find(|row| row["id"] == id)
        .expect("it is listed");
    row["path"].as_str().expect("a path").into()
}
