//! A proxy in a process that is out of descriptors waits, and goes on when there are some again.
//! Alone in its program: the limit is the process's.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use unstall_testbed::{DEFAULT_ROUND_TRIP, DelayProxy};

#[test]
fn a_client_that_could_not_be_accepted_is_served_later() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let proxy = DelayProxy::start(listener.local_addr()?, DEFAULT_ROUND_TRIP)?;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // The numbers in use have no gaps in so young a process; the client takes the next one.
    let highest = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok())
        .max()
        .ok_or("no descriptors")?;
    let mut fillers = vec![];
    setrlimit(Resource::RLIMIT_NOFILE, highest + 2, hard)?;
    let mut client = TcpStream::connect(proxy.addr())?;
    while let Ok(filler) = client.try_clone() {
        fillers.push(filler);
    }
    client.write_all(b"x")?;
    // Long enough for several attempts; what is tested comes after it.
    thread::sleep(Duration::from_millis(200));

    setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    let (mut server, _) = listener.accept()?;
    server.read_exact(&mut [0])?;
    server.write_all(b"y")?;
    let mut answer = [0];
    client.set_read_timeout(Some(Duration::from_secs(20)))?;
    client.read_exact(&mut answer)?;
    assert_eq!(&answer, b"y");
    Ok(())
}
