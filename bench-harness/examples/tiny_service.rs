//! The smallest service to try `unstall ab` on, and to test it with:
//! `tiny_service --port {port} [--delay-ms N] [--die-at N] [--refuse-to-start 1]`.
//!
//! It answers every request with `{"status":"ok"}`, after a pause that stands for work; a
//! thread per connection. Without `--port` it listens on `$UNSTALL_PORT`.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const BODY: &str = "{\"status\":\"ok\"}";

/// What the command line asks for.
#[derive(Debug, Default)]
struct Options {
    port: String,
    /// Before each answer.
    delay: Duration,
    /// The process aborts in the middle of this request, those for `/health` not counted.
    die_at: Option<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = parse(std::env::args().skip(1))?;
    let listener = TcpListener::bind(format!("127.0.0.1:{}", options.port))?;
    eprintln!("listening on {}", listener.local_addr()?);
    let requests = AtomicU64::new(0);
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let stream = stream?;
            // A client that goes away ends its own thread only.
            scope.spawn(|| serve(stream, &options, &requests));
        }
        Ok(())
    })
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        port: std::env::var("UNSTALL_PORT").unwrap_or_default(),
        ..Options::default()
    };
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name.as_str() {
            "--port" => options.port = value,
            "--delay-ms" => options.delay = Duration::from_millis(value.parse()?),
            "--die-at" => options.die_at = Some(value.parse()?),
            "--refuse-to-start" => return Err("tiny_service was told not to start".into()),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(options)
}

/// Answers until the client hangs up. Requests without a body are all it understands.
fn serve(stream: TcpStream, options: &Options, requests: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = &stream;
    let mut counts = false;
    let mut head = String::new();
    for line in BufReader::new(&stream).lines() {
        let line = line?;
        if !line.is_empty() {
            if head.is_empty() {
                counts = !line.contains(" /health ");
                head = line;
            }
            continue;
        }
        head.clear();
        if counts && options.die_at == Some(requests.fetch_add(1, Ordering::Relaxed) + 1) {
            std::process::abort();
        }
        thread::sleep(options.delay);
        let length = BODY.len();
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{BODY}"
        )?;
    }
    Ok(())
}
