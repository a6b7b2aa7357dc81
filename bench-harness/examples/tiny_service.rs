//! A service of one file, to try `unstall ab` with, and for the tests of it:
//! `unstall ab try.toml --before 'tiny_service --delay-ms 2' --after 'tiny_service --delay-ms 5'`.
//!
//! It answers every path with `{"ok":true}` on `$UNSTALL_PORT`, one thread per connection.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}";

/// What the command line asks for.
#[derive(Debug, Default, Clone, Copy)]
struct Options {
    /// Before each answer.
    delay: Duration,
    /// The process ends in the middle of this request, counted without those for `/health`.
    die_at: Option<u64>,
    /// Ends at once with a message, as a service with a wrong configuration does.
    refuse_to_start: bool,
}

static REQUESTS: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<(), Box<dyn Error>> {
    let options = parse(std::env::args().skip(1))?;
    if options.refuse_to_start {
        return Err("tiny_service was told not to start".into());
    }
    let port: u16 = std::env::var("UNSTALL_PORT")?.parse()?;
    for connection in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        let connection = connection?;
        // A client that goes away ends its own thread only.
        thread::spawn(move || serve(connection, options));
    }
    Ok(())
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, Box<dyn Error>> {
            Ok(words.next().ok_or("a number is missing")?.parse()?)
        };
        match word.as_str() {
            "--delay-ms" => options.delay = Duration::from_millis(number()?),
            "--die-at" => options.die_at = Some(number()?),
            "--refuse-to-start" => options.refuse_to_start = true,
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(options)
}

fn serve(connection: TcpStream, options: Options) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut writer = connection.try_clone()?;
    let mut lines = BufReader::new(connection).lines();
    while let Some(first) = lines.next() {
        let first = first?;
        for line in lines.by_ref() {
            if line?.is_empty() {
                break;
            }
        }
        if !first.contains(" /health ") {
            let count = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
            if options.die_at == Some(count) {
                std::process::abort();
            }
            thread::sleep(options.delay);
        }
        writer.write_all(ANSWER)?;
    }
    Ok(())
}
