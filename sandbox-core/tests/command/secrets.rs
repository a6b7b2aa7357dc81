//! Looks for a token everywhere that it might have been left.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::scene::Scene;

const TOKEN: &str = "ghp_s3cretOfTheTest";

#[test]
fn a_token_is_shown_to_its_host_and_left_nowhere() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (heads, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut part = [0; 1024];
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => head.extend_from_slice(&part[..count]),
                }
            }
            let refused = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            // The other end may have gone.
            drop(stream.write_all(refused.as_bytes()));
            if heads
                .send(String::from_utf8_lossy(&head).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    let scene = Scene::new();
    let base = format!("http://{address}");
    let output = scene
        .command(&["--json", "acquire", "octo/hello", "--conversation", "1"])
        .env("GITHUB_BASE_URL", &base)
        .env("GH_TOKEN", TOKEN)
        .env("UNSTALL_SANDBOX_SCHEMES", "http")
        .env("RUST_LOG", "trace")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(text);
        assert!(!text.contains(TOKEN), "{text}");
    }
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("credentials"), "{told}");
    let mut shown = false;
    while let Ok(head) = seen.recv_timeout(Duration::from_millis(200)) {
        shown |= head.to_ascii_lowercase().contains("authorization: basic");
    }
    assert!(shown, "it was tried");
    // Another host doesn't see it, and nothing of it is on disk.
    let url = scene.url();
    let output = scene
        .command(&[
            "acquire",
            "octo/hello",
            "--url",
            &url,
            "--conversation",
            "1",
        ])
        .env("GH_TOKEN", TOKEN)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{output:?}");
    assert_nowhere(scene.path());
}

fn assert_nowhere(below: &Path) {
    for entry in std::fs::read_dir(below).expect("a folder").flatten() {
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            assert_nowhere(&entry.path());
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).expect("a file");
            let found = bytes
                .windows(TOKEN.len())
                .any(|part| part == TOKEN.as_bytes());
            assert!(!found, "{}", entry.path().display());
        }
    }
}
