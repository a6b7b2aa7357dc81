//! What the delay proxy costs: CPU per round trip and the round trips' times, for some numbers of
//! busy connections. `cargo run --release -p unstall-testbed --example proxy_cost`

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use unstall_testbed::{DEFAULT_ROUND_TRIP, DelayProxy};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const FOR: Duration = Duration::from_secs(2);
/// Between round trips, so that the generator doesn't fill the machine.
const THINK: Duration = Duration::from_millis(10);

fn main() -> Outcome {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "connections  round trips/s  p50 ms  p95 ms  proxy CPU per round trip us"
    )?;
    for connections in [1, 20, 100] {
        let proxy = DelayProxy::start(echo_server()?, DEFAULT_ROUND_TRIP)?;
        let before = thread_cpu_us("delay-proxy")?;
        let mut times = run(proxy.addr(), connections)?;
        let cpu_us = thread_cpu_us("delay-proxy")? - before;
        times.sort_unstable();
        let ms = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
        writeln!(
            out,
            "{connections:11}  {:13.0}  {:6.2}  {:6.2}  {:27.1}",
            times.len() as f64 / FOR.as_secs_f64(),
            ms(50),
            ms(95),
            cpu_us / times.len() as f64
        )?;
    }
    Ok(())
}

fn echo_server() -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || -> Outcome {
                stream.set_nodelay(true)?;
                std::io::copy(&mut &stream, &mut &stream)?;
                Ok(())
            });
        }
    });
    Ok(address)
}

fn run(address: SocketAddr, connections: usize) -> Outcome<Vec<Duration>> {
    let clients: Vec<_> = (0..connections)
        .map(|_| thread::spawn(move || client(address)))
        .collect();
    let mut times = vec![];
    for client in clients {
        times.extend(client.join().map_err(|_| "a client panicked")??);
    }
    Ok(times)
}

fn client(address: SocketAddr) -> Outcome<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = [0; 100];
    let mut times = vec![];
    let end = Instant::now() + FOR;
    while Instant::now() < end {
        let sent = Instant::now();
        stream.write_all(&[1; 100])?;
        stream.read_exact(&mut buffer)?;
        times.push(sent.elapsed());
        thread::sleep(THINK);
    }
    Ok(times)
}

/// CPU time in µs of this process' threads of that name (`/proc/self/task/*/schedstat`, field 1).
fn thread_cpu_us(name: &str) -> Outcome<f64> {
    let mut total_ns = 0.0;
    for entry in std::fs::read_dir("/proc/self/task")?.flatten() {
        // A thread may end between the listing and the reading.
        let read = |file| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            let text = read("schedstat");
            total_ns += text
                .split(' ')
                .next()
                .ok_or("no schedstat")?
                .parse::<f64>()?;
        }
    }
    Ok(total_ns / 1e3)
}
