//! How a token gets to git: by a socket that is there for one operation, and by nothing else.
//!
//! Git asks a helper for credentials, and the helper that it brings along for its cache asks whoever
//! listens at a socket. Here that is us, so the token goes from our memory to git's without being an
//! argument, an environment variable or a file. It is given for the URL's own scheme and host only.
//!
//! The socket lies below the root, in a folder that is locked as long as its owner lives: so what a
//! killed process left is told from what another one uses, and swept at the next start.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{disk, removal};
use crate::blocking_pool::BlockingPool;
use crate::domain::{AuthToken, RepoUrl};
use crate::ports::caches::GitError;

/// The user's name beside a token. GitHub wants this one, and others take any.
const USER: &str = "x-access-token";

/// Bytes of a question.
const QUESTION_BYTES_MAX: u64 = 64 * 1024;

/// How long somebody who connects may take to ask.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(10);

/// The socket's name in its folder.
const SOCKET: &str = "token";

/// A socket that gives one token to git. It is gone once this is dropped.
#[derive(Debug)]
pub(super) struct TokenSocket {
    path: PathBuf,
    secret: Secret,
    _open: oneshot::Sender<()>,
}

/// A token that is shared for the length of an operation, and overwritten after it.
#[derive(Clone)]
struct Secret(Arc<Zeroizing<String>>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("(hidden)")
    }
}

impl TokenSocket {
    /// Opens a socket for a token, in a new folder in `folder`.
    ///
    /// # Errors
    /// `DiskFull`, or `Io` when the system refuses the socket or its folder.
    pub(super) async fn open(
        pool: &BlockingPool,
        folder: PathBuf,
        url: &RepoUrl,
        token: &AuthToken,
    ) -> Result<Self, GitError> {
        let failed = disk::failed("making the socket of a token", &folder);
        let listening = pool.run(move || listen(&folder)).await;
        let (listener, folder) = listening.map_err(failed)?;
        let path = folder.socket();
        let secret = Secret(Arc::new(Zeroizing::new(token.expose().to_owned())));
        let (open, closed) = oneshot::channel();
        let door = Door {
            wanted: wanted_lines(url),
            secret: secret.clone(),
        };
        let listener = UnixListener::from_std(listener)
            .map_err(disk::failed("opening the socket of a token", &path))?;
        tokio::spawn(serve(listener, door, closed, pool.clone(), folder));
        Ok(Self {
            path,
            secret,
            _open: open,
        })
    }

    /// What git's configuration names as its helper, which git gives to a shell.
    pub(super) fn helper(&self) -> OsString {
        let mut line = b"cache --socket='".to_vec();
        for byte in self.path.as_os_str().as_bytes() {
            match byte {
                b'\'' => line.extend_from_slice(br"'\''"),
                byte => line.push(*byte),
            }
        }
        line.push(b'\'');
        OsString::from_vec(line)
    }

    /// What must not be shown.
    pub(super) fn secret(&self) -> &str {
        &self.secret.0
    }
}

/// Binds a socket in a new folder that only this user can enter.
fn listen(sockets: &Path) -> io::Result<(StdListener, SocketFolder)> {
    let folder = SocketFolder::make(sockets)?;
    // A socket's path has 107 bytes at most, and a root may lie deeper. Git knows a way of its own.
    let short = format!("/proc/self/fd/{}/{SOCKET}", folder.owned.as_raw_fd());
    let listener = StdListener::bind(short)?;
    listener.set_nonblocking(true)?;
    Ok((listener, folder))
}

/// A socket's folder, which goes with this.
#[derive(Debug)]
struct SocketFolder {
    path: PathBuf,
    /// Locked, until we close it or the system does because we are gone.
    owned: OwnedFd,
}

impl SocketFolder {
    fn make(sockets: &Path) -> io::Result<Self> {
        let mut folders = std::fs::DirBuilder::new();
        folders.recursive(true).mode(0o700).create(sockets)?;
        // Nobody sweeps between the making of the folder and its locking.
        let gate = open_folder(sockets)?;
        flock(&gate, FlockOperation::LockShared)?;
        let path = sockets.join(format!("git-{:016x}", rand::random::<u64>()));
        folders.recursive(false).create(&path)?;
        let owned = open_folder(&path)?;
        flock(&owned, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, owned })
    }

    fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }
}

impl Drop for SocketFolder {
    /// It blocks. Only when the runtime ends within an operation is this not on a thread of the pool:
    /// then nobody is left to do it elsewhere.
    fn drop(&mut self) {
        let removed = disk::remove_file(&self.socket());
        let removed = removed.and_then(|()| std::fs::remove_dir(&self.path));
        if let Err(error) = removed
            && !disk::is_absence(&error)
        {
            tracing::warn!(%error, path = %self.path.display(), "the folder of a token's socket was left behind");
        }
    }
}

/// Removes folders of sockets whose owners are gone. It blocks.
///
/// # Errors
/// `Io` when the system refuses to look or to remove.
pub(super) fn sweep(sockets: &Path) -> Result<(), GitError> {
    sweep_folder(sockets).map_err(disk::failed("sweeping sockets of tokens", sockets))
}

fn sweep_folder(sockets: &Path) -> io::Result<()> {
    let gate = match open_folder(sockets) {
        Err(error) if disk::is_absence(&error) => return Ok(()),
        opened => opened?,
    };
    if !is_ours_now(&gate)? {
        return Ok(()); // somebody makes one at this moment, or sweeps; there is a next start
    }
    for name in disk::names_in(sockets)? {
        let path = sockets.join(name);
        let folder = match open_folder(&path) {
            Err(error) if disk::is_absence(&error) => continue,
            opened => opened?,
        };
        if is_ours_now(&folder)? {
            removal::take_apart(&path)?;
        }
    }
    Ok(())
}

/// Locks a folder, unless somebody has it locked.
fn is_ours_now(folder: &OwnedFd) -> io::Result<bool> {
    match flock(folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The lines by which git says for what it wants credentials.
fn wanted_lines(url: &RepoUrl) -> [String; 2] {
    let scheme = url.as_str().split("://").next().unwrap_or_default();
    [format!("protocol={scheme}"), format!("host={}", url.host())]
}

struct Door {
    wanted: [String; 2],
    secret: Secret,
}

impl Door {
    /// The answer to a question, if it is the right one.
    fn answer(&self, question: &str) -> Option<Zeroizing<String>> {
        let has = |line: &str| question.lines().any(|asked| asked == line);
        let is_right = has("action=get") && self.wanted.iter().all(|line| has(line));
        let secret = self.secret.0.as_str();
        is_right.then(|| Zeroizing::new(format!("username={USER}\npassword={secret}\n")))
    }

    async fn talk(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut question = Zeroizing::new(String::new());
        let mut limited = (&mut stream).take(QUESTION_BYTES_MAX);
        limited.read_to_string(&mut question).await?;
        if let Some(answer) = self.answer(&question) {
            stream.write_all(answer.as_bytes()).await?;
        }
        stream.shutdown().await
    }
}

/// Answers until the operation is over, and removes the socket.
async fn serve(
    listener: UnixListener,
    door: Door,
    mut closed: oneshot::Receiver<()>,
    pool: BlockingPool,
    folder: SocketFolder,
) {
    loop {
        let stream = tokio::select! {
            _ = &mut closed => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a token's socket is broken; git will say that access was refused");
                    break;
                }
            },
        };
        match timeout(QUESTION_TIME_MAX, door.talk(stream)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "git asked for a token and went away"),
            Err(_) => tracing::warn!("somebody connected to a token's socket and didn't ask"),
        }
    }
    drop(listener);
    pool.run(move || drop(folder)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str = "action=get\ntimeout=900\nprotocol=https\nhost=example.org\n";

    async fn open(sockets: &Path) -> (BlockingPool, TokenSocket) {
        let pool = BlockingPool::new(1).expect("a thread");
        let url = RepoUrl::parse("https://example.org/octo/hello").expect("a URL");
        let token = AuthToken::parse("s3cret".to_owned()).expect("a token");
        let socket = TokenSocket::open(&pool, sockets.to_owned(), &url, &token)
            .await
            .expect("a socket");
        (pool, socket)
    }

    async fn ask(socket: &TokenSocket, question: &str) -> String {
        let mut stream = UnixStream::connect(&socket.path).await.expect("a socket");
        stream
            .write_all(question.as_bytes())
            .await
            .expect("a question");
        stream.shutdown().await.expect("its end");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn the_token_is_given_for_its_own_host_and_scheme_only() {
        let sockets = tempfile::tempdir().expect("a folder");
        let (_pool, socket) = open(sockets.path()).await;
        let answer = ask(&socket, QUESTION).await;
        assert_eq!(answer, "username=x-access-token\npassword=s3cret\n");
        for (from, to) in [
            ("example.org", "example.com"),
            ("https", "http"),
            ("get", "store"),
        ] {
            assert_eq!(ask(&socket, &QUESTION.replacen(from, to, 1)).await, "");
        }
        assert!(!format!("{socket:?} {:?}", socket.helper()).contains("s3cret"));
    }

    #[tokio::test]
    async fn the_socket_is_for_this_user_and_gone_after_the_operation() {
        use std::os::unix::fs::PermissionsExt;

        let sockets = tempfile::tempdir().expect("a folder");
        let (_pool, socket) = open(sockets.path()).await;
        let path = socket.path.clone();
        let folder = path.parent().expect("a folder").to_owned();
        let mode = folder.metadata().expect("a folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(socket);
        for _ in 0..100 {
            if !folder.exists() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} is still there", folder.display());
    }

    #[tokio::test]
    async fn a_socket_whose_owner_is_gone_is_swept_and_one_in_use_is_not() {
        let sockets = tempfile::tempdir().expect("a folder");
        let (_pool, socket) = open(sockets.path()).await;
        let left = sockets.path().join("git-0123456789abcdef");
        std::fs::create_dir(&left).expect("a folder");
        drop(StdListener::bind(left.join(SOCKET)).expect("a socket"));
        sweep(sockets.path()).expect("swept");
        assert!(!left.exists());
        let answer = ask(&socket, QUESTION).await;
        assert_eq!(answer, "username=x-access-token\npassword=s3cret\n");
        sweep(&sockets.path().join("none")).expect("nothing to sweep");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn git_finds_it_below_any_root() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};

        let folder = tempfile::tempdir().expect("a folder");
        let sockets = folder.path().join(format!("it's {}", "long ".repeat(30)));
        let (_pool, socket) = open(&sockets).await;
        let mut line = OsString::from("git credential-");
        line.push(socket.helper());
        line.push(" get");
        let mut asking = Command::new("sh")
            .arg("-c")
            .arg(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut question = asking.stdin.take().expect("a pipe");
        question
            .write_all(b"protocol=https\nhost=example.org\n\n")
            .expect("it reads");
        drop(question);
        let answer = asking.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(text.contains("password=s3cret\n"), "{text}");
    }
}
