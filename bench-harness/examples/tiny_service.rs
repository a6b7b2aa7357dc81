//! The smallest service to try `unstall ab` on: `tiny_service --port {port} [--delay-ms N]`.
//!
//! It answers every request with `{"status":"ok"}`, after a pause that stands for
//! work. The tests of this crate start it, too.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let mut port = std::env::var("UNSTALL_PORT").unwrap_or_default();
    let mut delay = Duration::ZERO;
    let mut arguments = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        match name.as_str() {
            "--port" => port = value,
            "--delay-ms" => delay = Duration::from_millis(value.parse().unwrap_or(0)),
            other => eprintln!("unknown option {other}"),
        }
    }
    let listener = TcpListener::bind(format!("127.0.0.1:{port}"))?;
    eprintln!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || serve(&stream, delay));
    }
    Ok(())
}

/// Answers until the client hangs up. Requests without a body are all it understands.
fn serve(stream: &TcpStream, delay: Duration) -> std::io::Result<()> {
    const BODY: &str = "{\"status\":\"ok\"}";
    stream.set_nodelay(true)?;
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        if line?.is_empty() {
            std::thread::sleep(delay);
            let length = BODY.len();
            write!(
                writer,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{BODY}"
            )?;
        }
    }
    Ok(())
}
