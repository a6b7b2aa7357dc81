//! The smallest service to try `unstall ab` on, and to test it with:
//! `tiny_service --port {port} [--delay-ms N] [--die-at N] [--refuse-to-start 1]
//! [--certificate FILE]`.
//!
//! It answers every request with `{"status":"ok"}`, after a pause that stands for work; a
//! thread per connection. Without `--port` it listens on `$UNSTALL_PORT`. With `UNSTALL_PROVE=1`
//! it answers with the file where a certificate is asked for; `REQUESTS` in it stands for the
//! number of requests so far.

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
    /// The file's text, where a proof is asked for.
    certificate: Option<String>,
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
            "--certificate" if std::env::var("UNSTALL_PROVE").is_ok_and(|it| it == "1") => {
                options.certificate = Some(std::fs::read_to_string(value)?);
            }
            "--certificate" => {}
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
    let mut asks = false;
    let mut head = String::new();
    for line in BufReader::new(&stream).lines() {
        let line = line?;
        if !line.is_empty() {
            if head.is_empty() {
                asks = line.contains(" /__unstall/certificate ");
                counts = !asks && !line.contains(" /health ");
                head = line;
            }
            continue;
        }
        head.clear();
        if counts && options.die_at == Some(requests.fetch_add(1, Ordering::Relaxed) + 1) {
            eprintln!("tiny_service was told to die now");
            std::process::abort();
        }
        thread::sleep(options.delay);
        let certificate = options.certificate.as_ref().filter(|_| asks);
        let body = certificate.map_or_else(
            || BODY.to_owned(),
            |text| text.replace("REQUESTS", &requests.load(Ordering::Relaxed).to_string()),
        );
        let length = body.len();
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
    }
    Ok(())
}
