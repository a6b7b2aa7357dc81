//! A Node service with synchronous calls.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::stat::Mode;

use crate::program::{Service, assert_named, free_address, get, watch_while};

const SERVER: &str = "
const http = require('http'), fs = require('fs'), child = require('child_process');
const [port, fifo] = process.argv.slice(2);
function readSlowly() { return fs.readFileSync(fifo); }
const routes = {
  '/fifo': readSlowly,
  '/child': () => child.execSync('sleep 0.3'),
  '/lock': () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300),
};
http.createServer((request, response) => {
  (routes[request.url] || (() => {}))();
  response.end('ok');
}).listen(Number(port), '127.0.0.1');
";

#[test]
fn synchronous_calls_of_a_node_service_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("server.js");
    std::fs::write(&script, SERVER).expect("writable");
    let fifo = folder.path().join("slow-file");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
    let address = free_address();
    let mut service = Service::start(
        Command::new("node")
            .arg(&script)
            .arg(address.port().to_string())
            .arg(&fifo)
            .stdout(Stdio::null()),
    );
    service.wait_for(address);
    let summary = watch_while(service.pid(), || {
        for path in ["/child", "/lock"] {
            assert!(get(address, path).contains(" 200 "), "{path}");
        }
        let answer = thread::spawn(move || get(address, "/fifo"));
        thread::sleep(Duration::from_millis(300));
        std::fs::write(&fifo, "late").expect("somebody reads");
        assert!(answer.join().expect("answered").contains(" 200 "));
    });
    eprintln!("{summary:#?}");
    assert_eq!(summary.runtime, "node");
    assert_named(
        &summary,
        &["I/O", "slow-file", "readSlowly at", "server.js:4"],
    );
    assert_named(&summary, &["child process", "on sh", "server.js:7"]);
    assert_named(&summary, &["lock in futex", "server.js:8"]);
    assert!(summary.loops[0].idle_ns > 0);
}
