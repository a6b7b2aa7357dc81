//! The proxy delays and changes nothing else: order, half-closes, resets, throughput.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use unstall_testbed::{DEFAULT_ROUND_TRIP, DelayProxy};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Long enough that a lower bound on elapsed time can't be met by chance.
const LONG: Duration = Duration::from_millis(40);

/// Serves each connection on a thread.
fn serve(per_connection: fn(TcpStream) -> Outcome) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || per_connection(stream));
        }
    });
    Ok(address)
}

/// Answers with all it got, after the client's half-close.
fn answer_at_the_end(mut stream: TcpStream) -> Outcome {
    let mut all = vec![];
    stream.read_to_end(&mut all)?;
    stream.write_all(&all)?;
    Ok(())
}

fn echo(mut stream: TcpStream) -> Outcome {
    let mut reader = stream.try_clone()?;
    std::io::copy(&mut reader, &mut stream)?;
    Ok(())
}

fn connect(proxy: &DelayProxy) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(proxy.addr())?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

fn numbered(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn a_round_trip_takes_at_least_what_is_stated_and_the_first_one_twice_that() -> Outcome {
    let proxy = DelayProxy::start(serve(echo)?, LONG)?;
    let mut began = Instant::now();
    let mut stream = connect(&proxy)?;
    for at_least in [2 * LONG, LONG, LONG] {
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        let took = began.elapsed();
        assert!(took >= at_least, "{took:?}, not {at_least:?}");
        began = Instant::now();
    }
    Ok(())
}

#[test]
fn half_closes_arrive_after_the_data() -> Outcome {
    let proxy = DelayProxy::start(serve(answer_at_the_end)?, DEFAULT_ROUND_TRIP)?;
    let mut stream = connect(&proxy)?;
    let sent = numbered(50_000);
    stream.write_all(&sent)?;
    stream.shutdown(Shutdown::Write)?;
    let mut got = vec![];
    stream.read_to_end(&mut got)?;
    assert!(
        got == sent,
        "{} of {} bytes, or in another order",
        got.len(),
        sent.len()
    );
    Ok(())
}

#[test]
fn chunks_overlap_so_that_a_delay_is_paid_once() -> Outcome {
    let proxy = DelayProxy::start(serve(echo)?, LONG)?;
    let mut stream = connect(&proxy)?;
    let began = Instant::now();
    let mut reader = stream.try_clone()?;
    let sender: JoinHandle<Outcome> = thread::spawn(move || {
        // 400 chunks one after another would take 16 s.
        for chunk in numbered(100_000).chunks(1_000) {
            stream.write_all(chunk)?;
            thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    });
    let mut got = vec![0; 400_000];
    reader.read_exact(&mut got)?;
    sender.join().map_err(|_| "the sender panicked")??;
    assert!(got == numbered(100_000), "the bytes came in another order");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    Ok(())
}

#[test]
fn a_receiver_that_does_not_read_stops_its_sender_and_loses_nothing() -> Outcome {
    fn late(mut stream: TcpStream) -> Outcome {
        thread::sleep(Duration::from_millis(300));
        answer_length(&mut stream)
    }
    fn answer_length(stream: &mut TcpStream) -> Outcome {
        let count = std::io::copy(stream, &mut std::io::sink())?;
        stream.write_all(count.to_string().as_bytes())?;
        Ok(())
    }
    let proxy = DelayProxy::start(serve(late)?, DEFAULT_ROUND_TRIP)?;
    let mut stream = connect(&proxy)?;
    // Far more than the proxy and the kernel's buffers hold.
    stream.write_all(&vec![1; 48 << 20])?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert_eq!(answer, (48 << 20).to_string());
    Ok(())
}

#[test]
fn a_reset_is_passed_on_and_a_refusal_becomes_one() -> Outcome {
    /// Closing with unread data in the buffer makes Linux send a reset (tcp(7)).
    fn close_unread(mut stream: TcpStream) -> Outcome {
        stream.read_exact(&mut [0])?;
        Ok(())
    }
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    for target in [serve(close_unread)?, nobody] {
        let proxy = DelayProxy::start(target, DEFAULT_ROUND_TRIP)?;
        let mut stream = connect(&proxy)?;
        stream.write_all(b"abc")?;
        let error = stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    Ok(())
}

#[test]
fn a_clients_reset_reaches_the_server() -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let proxy = DelayProxy::start(listener.local_addr()?, DEFAULT_ROUND_TRIP)?;
    let mut client = connect(&proxy)?;
    client.write_all(b"a")?;
    let (mut server, _) = listener.accept()?;
    server.read_exact(&mut [0])?;
    server.write_all(b"unread")?;
    // Peeking waits for the data and leaves it unread: the close is a reset.
    client.peek(&mut [0])?;
    drop(client);
    let error = server.read(&mut [0]).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    Ok(())
}

#[test]
fn many_connections_at_once_keep_apart() -> Outcome {
    let proxy = DelayProxy::start(serve(echo)?, DEFAULT_ROUND_TRIP)?;
    let mut streams = (0..150)
        .map(|_| connect(&proxy))
        .collect::<Outcome<Vec<_>>>()?;
    for round in 0..20_u32 {
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&(round * 1_000 + index as u32).to_le_bytes())?;
        }
        for (index, stream) in streams.iter_mut().enumerate() {
            let mut number = [0; 4];
            stream.read_exact(&mut number)?;
            assert_eq!(u32::from_le_bytes(number), round * 1_000 + index as u32);
        }
    }
    Ok(())
}

#[test]
fn dropping_the_proxy_ends_its_connections() -> Outcome {
    let proxy = DelayProxy::start(serve(echo)?, DEFAULT_ROUND_TRIP)?;
    let mut stream = connect(&proxy)?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])?;
    let address = proxy.addr();
    drop(proxy);
    assert_eq!(stream.read(&mut [0])?, 0);
    assert!(TcpStream::connect(address).is_err());
    Ok(())
}

#[test]
fn the_measured_round_trip_is_never_below_the_stated_one() -> Outcome {
    let proxy = DelayProxy::start(serve(echo)?, DEFAULT_ROUND_TRIP)?;
    let measured = proxy.measure()?;
    eprintln!("{measured}");
    assert!(measured.p50 >= DEFAULT_ROUND_TRIP && measured.p95 >= measured.p50);
    Ok(())
}
