//! The canaries' calls. Each is a function of its own, so that whoever names it names its line.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::time::ClockId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::canary::Canary;
use super::lock_holder::LockHolder;
use super::rpc_peer;

/// A file of several pages.
const FILE_BYTES: usize = 256 * 1024;

/// What the calls need to be there.
#[derive(Debug)]
pub(super) struct Soil {
    /// Removed with it.
    _folder: tempfile::TempDir,
    read_file: PathBuf,
    written_file: File,
    holder: LockHolder,
    peer: SocketAddr,
    connection: Mutex<TcpStream>,
    /// A connection on which an answer waits before every question.
    prompt_connection: Mutex<TcpStream>,
    awaited_connection: tokio::sync::Mutex<Option<tokio::net::TcpStream>>,
    may_end: Mutex<bool>,
    ends: Condvar,
}

impl Soil {
    /// Makes files, a lock and a peer.
    pub(super) fn prepare() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let read_file = folder.path().join("read");
        fs::write(&read_file, vec![b'x'; FILE_BYTES])?;
        // Pages that aren't on the disk yet can't be dropped.
        File::open(&read_file)?.sync_all()?;
        let written_file = File::create(folder.path().join("written"))?;
        let peer = rpc_peer::start()?;
        let mut prompt_connection = rpc_peer::connect(peer)?;
        prompt_connection.write_all(&[0; rpc_peer::QUESTION_BYTES])?;
        Ok(Self {
            _folder: folder,
            read_file,
            written_file,
            holder: LockHolder::start()?,
            peer,
            connection: Mutex::new(rpc_peer::connect(peer)?),
            prompt_connection: Mutex::new(prompt_connection),
            awaited_connection: tokio::sync::Mutex::new(None),
            may_end: Mutex::new(false),
            ends: Condvar::new(),
        })
    }

    /// What a call needs each time, before it and outside of what is measured.
    pub(super) fn prepare_call(&self, canary: Canary, block: Duration) -> io::Result<()> {
        match canary {
            Canary::UncachedRead => {
                let file = File::open(&self.read_file)?;
                posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
                Ok(())
            }
            Canary::Lock => self.holder.take_away(block),
            _ => Ok(()),
        }
    }

    /// Lets the never-ending poll end.
    pub(super) fn release(&self) {
        *self.may_end.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.notify_all();
    }

    /// Makes the call of a canary that blocks or computes.
    pub(super) fn call(&self, canary: Canary, block: Duration) -> io::Result<()> {
        match canary {
            Canary::Sleep => sleep(block),
            Canary::CachedRead => return cached_read(self),
            Canary::UncachedRead => return uncached_read(self),
            Canary::Fsync => return fsync(self),
            Canary::Dns => return dns(),
            Canary::Lock => lock(self),
            Canary::InstantRpc => return instant_rpc(self),
            Canary::SlowRpc => return slow_rpc(self, block),
            Canary::Spawn => return spawn(block),
            Canary::NeverEnding => never_ending(self),
            Canary::Spin | Canary::SpinBusy | Canary::SpinThrottled => return spin(block),
            Canary::AwaitedSleep
            | Canary::Pooled
            | Canary::AwaitedRead
            | Canary::AwaitedRpc
            | Canary::GilWait => {
                return Err(io::Error::other("this canary makes no blocking call"));
            }
        }
        Ok(())
    }
}

/// What is done once and isn't what is tested: the pool starts its first thread, the runtime
/// connects.
pub(super) async fn warm_up(soil: &Soil) -> io::Result<()> {
    tokio::task::spawn_blocking(|| ())
        .await
        .map_err(io::Error::other)?;
    let mut connection = soil.awaited_connection.lock().await;
    if connection.is_none() {
        *connection = Some(tokio::net::TcpStream::connect(soil.peer).await?);
    }
    Ok(())
}

/// Serves a canary that awaits; whatever it does, the loop is free meanwhile.
pub(super) async fn awaited(soil: &Soil, canary: Canary, block: Duration) -> io::Result<()> {
    match canary {
        Canary::AwaitedSleep => tokio::time::sleep(block).await,
        Canary::Pooled => {
            let pooled = tokio::task::spawn_blocking(move || thread::sleep(block));
            pooled.await.map_err(io::Error::other)?;
        }
        Canary::AwaitedRead => {
            let read = tokio::fs::read(&soil.read_file).await?;
            return whole(read.len());
        }
        Canary::AwaitedRpc => return awaited_rpc(soil, block).await,
        other => return Err(io::Error::other(format!("{} is no await", other.name()))),
    }
    Ok(())
}

#[inline(never)]
fn sleep(block: Duration) {
    thread::sleep(block);
    // As the last act it would be a jump, and this function on no stack.
    std::hint::black_box(());
}

#[inline(never)]
fn cached_read(soil: &Soil) -> io::Result<()> {
    let read = fs::read(&soil.read_file)?;
    whole(read.len())
}

#[inline(never)]
fn uncached_read(soil: &Soil) -> io::Result<()> {
    let read = fs::read(&soil.read_file)?;
    // An optimised build makes one function of two with the same body, and names one of them.
    std::hint::black_box("uncached");
    whole(read.len())
}

#[inline(never)]
fn fsync(soil: &Soil) -> io::Result<()> {
    soil.written_file.write_all_at(&[b'x'; 4096], 0)?;
    soil.written_file.sync_all()
}

/// A name that is in every machine's own file: no network is asked.
#[inline(never)]
fn dns() -> io::Result<()> {
    let found = ("localhost", 80).to_socket_addrs()?.next();
    let missing = || io::Error::other("localhost has no address; /etc/hosts should name it");
    found.map(|_| ()).ok_or_else(missing)
}

#[inline(never)]
fn lock(soil: &Soil) {
    soil.holder.wait_for_lock();
}

/// Takes the answer that is there, and asks for the next one.
#[inline(never)]
fn instant_rpc(soil: &Soil) -> io::Result<()> {
    let mut stream = soil
        .prompt_connection
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    stream.read_exact(&mut [0])?;
    stream.write_all(&[0; rpc_peer::QUESTION_BYTES])
}

#[inline(never)]
fn slow_rpc(soil: &Soil, block: Duration) -> io::Result<()> {
    let mut stream = soil
        .connection
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    stream.write_all(&question(block))?;
    stream.read_exact(&mut [0])
}

async fn awaited_rpc(soil: &Soil, block: Duration) -> io::Result<()> {
    let mut connection = soil.awaited_connection.lock().await;
    let Some(stream) = &mut *connection else {
        return Err(io::Error::other("the peer isn't connected"));
    };
    stream.write_all(&question(block)).await?;
    stream.read_exact(&mut [0]).await?;
    Ok(())
}

#[inline(never)]
fn spawn(block: Duration) -> io::Result<()> {
    let status = Command::new("sleep")
        .arg(block.as_secs_f64().to_string())
        .stdin(Stdio::null())
        .status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("`sleep` ended with {status}")))
}

#[inline(never)]
fn never_ending(soil: &Soil) {
    let mut may_end = soil.may_end.lock().unwrap_or_else(PoisonError::into_inner);
    while !*may_end {
        may_end = soil
            .ends
            .wait(may_end)
            .unwrap_or_else(PoisonError::into_inner);
    }
    // One release ends one poll: it may be planted again.
    *may_end = false;
}

/// Uses that much CPU time, however long that takes.
#[inline(never)]
fn spin(time: Duration) -> io::Result<()> {
    let cpu = || ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(Duration::from);
    let end = cpu()? + time;
    let mut sum = 0_u64;
    while cpu()? < end {
        // Between two looks at a clock that takes a system call, so that computing it stays.
        for number in 0..20_000 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
    }
    Ok(())
}

fn question(wait: Duration) -> [u8; rpc_peer::QUESTION_BYTES] {
    let wait_us = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
    wait_us.to_le_bytes()
}

fn whole(bytes: usize) -> io::Result<()> {
    if bytes == FILE_BYTES {
        return Ok(());
    }
    Err(io::Error::other(format!("{bytes} of {FILE_BYTES} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_ends_one_poll_so_that_the_next_one_can_be_looked_at_too() {
        let soil = Soil::prepare().expect("files, a lock and a peer");
        soil.release();
        soil.call(Canary::NeverEnding, Duration::ZERO)
            .expect("it was released");
        let may_end = soil.may_end.lock().expect("nobody panicked");
        assert!(!*may_end, "the next one would be over at once");
    }
}
