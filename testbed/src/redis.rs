//! A private Redis: no persistence, its own folder, a free loopback port.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guard::{GuardedCommand, StopSignal};
use crate::server::Recipe;
use crate::{TestbedError, programs};

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct RedisRecipe {
    program: PathBuf,
    folder: PathBuf,
}

impl RedisRecipe {
    pub(crate) fn new(folder: &Path) -> Result<Self, TestbedError> {
        let program = programs::find("redis-server", "redis-server")?;
        let folder = folder.join("redis");
        // There already if it is restarted.
        std::fs::create_dir_all(&folder).map_err(TestbedError::io("creating Redis' folder"))?;
        Ok(Self { program, folder })
    }
}

impl Recipe for RedisRecipe {
    const NAME: &'static str = "redis-server";
    const STOP: StopSignal = StopSignal::Term;

    fn command(&self, port: u16) -> GuardedCommand {
        let mut guarded = GuardedCommand::new(&self.program);
        guarded
            .command()
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(&self.folder)
            .current_dir(&self.folder);
        guarded
    }

    fn log(&self) -> PathBuf {
        self.folder.join("redis.log")
    }

    fn is_ready(&self, port: u16, process: u32) -> bool {
        // The process id tells our server from another one that took the port before it.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        call(address, "INFO server").is_ok_and(|info| {
            info.lines()
                .any(|line| line == format!("process_id:{process}"))
        })
    }
}

/// Empties every database of the Redis at `address`.
///
/// # Errors
/// When it can't be reached or answers with an error.
pub(crate) fn flush(address: SocketAddr) -> io::Result<()> {
    call(address, "FLUSHALL").map(drop)
}

/// Sends one inline command (Redis protocol specification, "Inline commands") and gives the
/// answer's text: of a status line, or of a bulk string.
fn call(address: SocketAddr, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;

    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("+", text)) => Ok(text.to_owned()),
        Some(("$", length)) => {
            let length = length.parse().map_err(|_| unexpected(command, line))?;
            let mut text = vec![0; length];
            answer.read_exact(&mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        _ => Err(unexpected(command, line)),
    }
}

fn unexpected(command: &str, answer: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("Redis answered {command} with {answer:?}"),
    )
}
