//! A token gets to the code host that it is for, and is found nowhere else.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use unstall_sandbox_core::domain::{AuthToken, RepoUrl};
use unstall_sandbox_core::ports::caches::{CacheSource, GitError, RepoCacheProvider};
use unstall_sandbox_core::ports::workspaces::WorkspaceProvider;

use crate::world::{World, everything_below, raw_git};

const TOKEN: &str = "ghp_s3cretT0ken";
/// The same as git sends it, with the user's name before it.
const ENCODED: &str = "eC1hY2Nlc3MtdG9rZW46Z2hwX3MzY3JldFQwa2Vu";

/// A code host that serves one repository's files to whoever has the token.
struct Host {
    url: RepoUrl,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    authorized: usize,
    refused: usize,
    /// Places where the token was, while git was at work.
    found: Vec<String>,
}

/// How a host answers whoever has the token.
#[derive(Clone)]
enum Manner {
    Files(PathBuf),
    RedirectTo(String),
    Fails,
}

impl Host {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = RepoUrl::parse(&format!("http://{address}/octo/hello.git")).expect("a URL");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let counted = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, manner.clone(), Arc::clone(&counted)));
            }
        });
        Self { url, seen }
    }

    fn seen<T>(&self, read: impl FnOnce(&Seen) -> T) -> T {
        read(&self.seen.lock().expect("no panic"))
    }
}

async fn serve(mut stream: TcpStream, manner: Manner, seen: Arc<Mutex<Seen>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let is_authorized = head.contains(&format!("Basic {ENCODED}\r\n"));
    {
        let mut seen = seen.lock().expect("no panic");
        if is_authorized {
            seen.authorized += 1;
            seen.found.extend(processes_with_the_token());
        } else {
            seen.refused += usize::from(head.contains("Authorization"));
        }
    }
    let path = head.split_whitespace().nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let answer = match manner {
        // Asked for no credentials, git would have none to give on, but for those of our helper.
        Manner::RedirectTo(to) => head_of(
            "301 Moved",
            &format!("Location: {to}{path}?service=git-upload-pack\r\n"),
            b"",
        ),
        _ if !is_authorized => head_of(
            "401 Unauthorized",
            "WWW-Authenticate: Basic realm=\"x\"\r\n",
            b"",
        ),
        Manner::Fails => head_of("500 Oops", "", TOKEN.as_bytes()),
        Manner::Files(folder) => {
            let file = folder.join(path.trim_start_matches("/octo/hello.git/"));
            match std::fs::read(file) {
                Ok(bytes) => head_of("200 OK", "", &bytes),
                Err(_) => head_of("404 Not Found", "", b""),
            }
        }
    };
    // A git that was refused may be gone.
    let _gone = stream.write_all(&answer).await;
}

fn head_of(status: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Where the token is in the arguments and environments of all processes that can be looked at.
fn processes_with_the_token() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("a folder") {
        let process = entry.expect("an entry").path();
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(process.join(file)).unwrap_or_default();
            if has_the_token(&text) {
                found.push(format!("{}/{file}", process.display()));
            }
        }
    }
    found
}

fn has_the_token(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.contains(TOKEN) || text.contains(ENCODED)
}

fn token(text: &str) -> AuthToken {
    AuthToken::parse(text.to_owned()).expect("a token")
}

/// What a plain file server needs to know of a repository.
fn published(origin: &Path) -> Manner {
    raw_git(origin, &["update-server-info"]);
    Manner::Files(origin.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_gets_the_token_and_nobody_else_ever_sees_it() {
    let world = World::new().await;
    let host = Host::start(published(&world.folder.path().join("origin.git"))).await;
    let token = token(TOKEN);
    let source = CacheSource {
        url: &host.url,
        token: Some(&token),
        ..world.source()
    };
    let facts = world.git.ensure(source).await.expect("a cache");
    assert_eq!(
        facts.default_branch.map(|name| name.to_string()).as_deref(),
        Some("trunk")
    );
    let commit = world.upstream("trunk", &[("README", "more\n")]);
    published(&world.folder.path().join("origin.git"));
    world.git.fetch(source).await.expect("fetched");
    let tree = world.tree("mine").await;
    assert_eq!(tree.raw(&["rev-parse", "HEAD"]).trim(), commit);
    tree.write("x", "x\n");
    world.commit(&tree, "x").await.expect("a commit");
    // That host takes no pushes; what it says is told without the token.
    let refused = world
        .git
        .push(&tree.path, &host.url, Some(&token))
        .await
        .expect_err("no push");
    assert!(
        !has_the_token(format!("{refused} {refused:?}").as_bytes()),
        "{refused:?}"
    );
    assert!(host.seen(|seen| seen.authorized) > 5);
    assert_eq!(host.seen(|seen| seen.found.clone()), Vec::<String>::new());
    assert!(!has_the_token(&everything_below(world.folder.path())));
    assert_eq!(processes_with_the_token(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_token_is_told_without_the_token() {
    let world = World::new().await;
    let host = Host::start(published(&world.folder.path().join("origin.git"))).await;
    for text in [Some("ghp_wr0ng"), None] {
        let token = text.map(token);
        let source = CacheSource {
            url: &host.url,
            token: token.as_ref(),
            ..world.source()
        };
        let refused = world.git.ensure(source).await.expect_err("no access");
        assert!(
            matches!(refused, GitError::AuthFailed { .. }),
            "{refused:?}"
        );
        assert!(
            !format!("{refused} {refused:?}").contains("ghp_"),
            "{refused:?}"
        );
    }
    assert_eq!(host.seen(|seen| seen.authorized), 0);
    assert!(host.seen(|seen| seen.refused) > 0);
    assert!(!world.cache_dir().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_leads_elsewhere_or_fails_learns_nothing_for_others() {
    let world = World::new().await;
    let other = Host::start(published(&world.folder.path().join("origin.git"))).await;
    let to = other
        .url
        .as_str()
        .trim_end_matches("/octo/hello.git")
        .to_owned();
    let token = token(TOKEN);
    for (manner, is_redirect) in [(Manner::RedirectTo(to), true), (Manner::Fails, false)] {
        let host = Host::start(manner).await;
        let source = CacheSource {
            url: &host.url,
            token: Some(&token),
            ..world.source()
        };
        let refused = world.git.ensure(source).await.expect_err("no access");
        assert_eq!(
            matches!(refused, GitError::AuthFailed { .. }),
            is_redirect,
            "{refused:?}"
        );
        assert!(
            !has_the_token(format!("{refused} {refused:?}").as_bytes()),
            "{refused:?}"
        );
        assert_eq!(host.seen(|seen| seen.authorized) > 0, !is_redirect);
    }
    assert_eq!(other.seen(|seen| (seen.authorized, seen.refused)), (0, 0));
    assert!(!has_the_token(&everything_below(world.git.root())));
}
