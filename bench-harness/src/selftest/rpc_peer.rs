//! A peer on loopback that answers when it is told to, and one that has answered already.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Bytes of a question: microseconds to wait before the answer, little endian.
pub(super) const QUESTION_BYTES: usize = 4;

/// Answers on threads of its own, each for as long as its connection lasts.
pub(super) fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::Builder::new()
        .name("rpc-peer".to_owned())
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                // A caller that hangs up ends its own thread only.
                thread::spawn(move || answer(stream));
            }
        })?;
    Ok(address)
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut question = [0; QUESTION_BYTES];
    loop {
        stream.read_exact(&mut question)?;
        let wait = Duration::from_micros(u32::from_le_bytes(question).into());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        stream.write_all(b"!")?;
    }
}

/// Connects, blocking.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    // A peer that died must not hold the self-test for ever.
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}
