//! What the two versions of a pair are asked: the same, however fast their warm-up was.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use unstall_bench_harness::engine::{BlockSpec, Warmup};

use crate::support::{cold, plan, run};

/// Answers one connection after the other and tells each path that it was asked for.
fn serve(listener: &TcpListener, paths: &mpsc::Sender<String>) {
    while let Ok((stream, _)) = listener.accept() {
        if answer(&stream, paths).is_none() {
            return;
        }
    }
}

/// `None` when nobody listens to the paths any more.
fn answer(stream: &TcpStream, paths: &mpsc::Sender<String>) -> Option<()> {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        if let Some(path) = line.strip_prefix("GET ") {
            let path = path.trim_end_matches(" HTTP/1.1");
            paths.send(path.to_owned()).ok()?;
        }
        if line.is_empty() {
            let mut stream = stream;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            if stream.write_all(answer).is_err() {
                break;
            }
        }
    }
    Some(())
}

#[test]
fn measured_iterations_count_from_0_after_any_warm_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, paths) = mpsc::channel();
    std::thread::spawn(move || serve(&listener, &sender));
    for rounds_per_user in [0, 1, 5] {
        let spec = BlockSpec {
            warmup: Warmup {
                rounds_per_user,
                ..cold(1, 3).warmup
            },
            ..cold(1, 3)
        };
        let plan = plan(&[("it", "GET", "/${iteration}")], "");
        let block = run(&plan, &url, &spec);
        assert_eq!(block.completed, 3);
        let asked: Vec<String> = paths.try_iter().collect();
        let (warm_up, measured) = asked.split_at(rounds_per_user as usize);
        assert_eq!(measured, ["/0", "/1", "/2"]);
        assert!(
            warm_up.iter().all(|path| !measured.contains(path)),
            "warm-up asks for rows of its own: {warm_up:?}"
        );
    }
}
