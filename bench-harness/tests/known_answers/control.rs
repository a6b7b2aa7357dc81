//! What a client without any machinery sees of the same server: the machine's own wake-ups.
//!
//! Between a server's last clock reading and a client's first lies a wake-up by the kernel, and on a
//! virtual machine, whose idle cores its host has to wake, one of some hundred microseconds now and
//! then. Nobody who sleeps until the answer comes can be earlier, so what one blocking thread per
//! user is later than the server is no fault of the engine.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use unstall_results::histogram::LatencyHistogram;

/// What so many such clients measure.
pub(crate) fn times(url: &str, route: &str, users: u32, requests: u64) -> LatencyHistogram {
    let address = url.strip_prefix("http://").expect("plain HTTP");
    let mut times = LatencyHistogram::new();
    thread::scope(|scope| {
        let each = requests / u64::from(users);
        let users: Vec<_> = (0..users)
            .map(|_| scope.spawn(move || ask(address, route, each)))
            .collect();
        for user in users {
            times.merge(&user.join().expect("it asks").expect("it is answered"));
        }
    });
    times
}

fn ask(address: &str, route: &str, requests: u64) -> io::Result<LatencyHistogram> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let request = format!("GET {route} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let mut times = LatencyHistogram::new();
    for _ in 0..requests {
        let begun = Instant::now();
        stream.write_all(request.as_bytes())?;
        let mut body_bytes = 0;
        loop {
            let mut line = String::new();
            answers.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(length) = line.strip_prefix("content-length:") {
                body_bytes = length.trim().parse().map_err(io::Error::other)?;
            }
        }
        answers.read_exact(&mut vec![0; body_bytes])?;
        times.record(begun.elapsed());
    }
    Ok(times)
}
