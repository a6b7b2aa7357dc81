//! How a token gets to git: by a socket that is there for one operation, and by nothing else.
//!
//! Git asks a helper for credentials, and the helper that it brings along for its cache asks whoever
//! listens at a socket. Here that is us, so the token goes from our memory to git's without being an
//! argument, an environment variable or a file. It is given for the URL's own scheme and host only.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::disk;
use crate::blocking_pool::BlockingPool;
use crate::domain::{AuthToken, RepoUrl};
use crate::ports::caches::GitError;

/// The user's name beside a token. GitHub wants this one, and others take any.
const USER: &str = "x-access-token";

/// Bytes of a question.
const QUESTION_BYTES_MAX: u64 = 64 * 1024;

/// How long somebody who connects may take to ask.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a socket's path that the kernel takes, less the zero at its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;

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
    /// Opens a socket for a token.
    ///
    /// # Errors
    /// `Io` when the system refuses the socket or its folder.
    pub(super) async fn open(
        pool: &BlockingPool,
        url: &RepoUrl,
        token: &AuthToken,
    ) -> Result<Self, GitError> {
        let (listener, path) = pool.run(listen).await?;
        let secret = Secret(Arc::new(Zeroizing::new(token.expose().to_owned())));
        let (open, closed) = oneshot::channel();
        let door = Door {
            wanted: wanted_lines(url),
            secret: secret.clone(),
        };
        let listener = UnixListener::from_std(listener)
            .map_err(disk::failed("opening the socket of a token", &path))?;
        tokio::spawn(serve(
            listener,
            door,
            closed,
            pool.clone(),
            SocketFile(Some(path.clone())),
        ));
        Ok(Self {
            path,
            secret,
            _open: open,
        })
    }

    /// What git's configuration names as its helper. The path is made of characters that mean nothing
    /// to a shell, which [`listen`] sees to.
    pub(super) fn helper(&self) -> String {
        format!("cache --socket={}", self.path.display())
    }

    /// What must not be shown.
    pub(super) fn secret(&self) -> &str {
        &self.secret.0
    }
}

/// Binds a socket in a new folder that only this user can enter.
fn listen() -> Result<(StdListener, PathBuf), GitError> {
    let folders = std::env::temp_dir();
    let folder = folders.join(format!("unstall-git-{:016x}", rand::random::<u64>()));
    let path = folder.join("token");
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.len() > SOCKET_PATH_BYTES_MAX || !bytes.iter().all(is_plain) {
        let reason = "its path must be short and of letters, digits, ., _ and -; set TMPDIR to such a folder";
        let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
        return Err(disk::failed("making a socket", &folders)(source));
    }
    let bind = || {
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let listener = StdListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listener = bind().map_err(disk::failed("making a socket", &path))?;
    Ok((listener, path))
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
    mut file: SocketFile,
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
    if let Some(path) = file.0.clone() {
        pool.run(move || remove(&path)).await;
        file.0 = None;
    }
}

/// A socket's file and folder, which go whatever happens.
struct SocketFile(Option<PathBuf>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Only when the runtime ends within an operation: then nobody is left to do it elsewhere.
        if let Some(path) = &self.0 {
            remove(path);
        }
    }
}

fn remove(path: &Path) {
    let folder = path.parent().unwrap_or(path);
    let removed = disk::remove_file(path).and_then(|()| std::fs::remove_dir(folder));
    if let Err(error) = removed
        && !disk::is_absence(&error)
    {
        tracing::warn!(%error, path = %path.display(), "an empty socket's folder was left behind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str = "action=get\ntimeout=900\nprotocol=https\nhost=example.org\n";

    async fn open() -> (BlockingPool, TokenSocket) {
        let pool = BlockingPool::new(1).expect("a thread");
        let url = RepoUrl::parse("https://example.org/octo/hello").expect("a URL");
        let token = AuthToken::parse("s3cret".to_owned()).expect("a token");
        let socket = TokenSocket::open(&pool, &url, &token)
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
        let (_pool, socket) = open().await;
        let answer = ask(&socket, QUESTION).await;
        assert_eq!(answer, "username=x-access-token\npassword=s3cret\n");
        for (from, to) in [
            ("example.org", "example.com"),
            ("https", "http"),
            ("get", "store"),
        ] {
            assert_eq!(ask(&socket, &QUESTION.replacen(from, to, 1)).await, "");
        }
        assert!(!format!("{socket:?} {}", socket.helper()).contains("s3cret"));
    }

    #[tokio::test]
    async fn the_socket_is_for_this_user_and_gone_after_the_operation() {
        use std::os::unix::fs::PermissionsExt;

        let (_pool, socket) = open().await;
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
}
