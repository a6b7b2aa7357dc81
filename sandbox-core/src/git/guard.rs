//! Who ends the gits of a process that can't do it any more, because it was killed.
//!
//! While we live, whoever lets go of a call ends git's process group (`process.rs`). Killed by SIGKILL
//! we end nothing, and a git that waits for a code host which never answers would stay for ever.
//!
//! **Why not by the kernel's own means.** `PR_SET_PDEATHSIG` would reach the git that we start, but not
//! the `git-remote-https` that *it* starts, since a fork takes the setting back; and it is this child
//! that waits for the host, looking neither at its pipes nor at its parent. Setting it also takes code
//! between fork and exec, so that each start would copy this process's page tables. (Its other trap,
//! that the signal comes when the *thread* ends that started the child, wouldn't matter here: the
//! blocking pool's threads live as long as somebody can wait for a call.)
//!
//! So a shell waits at a pipe of which nobody but we have the other end. All of ours carry a mark in
//! their environment, which children inherit, in whatever group they are. When the pipe is closed the
//! shell kills what carries the mark. No git escapes it: between its fork and its exec a child still has
//! our end of the pipe, and after it has the mark.

use std::ffi::OsStr;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::blocking_pool::BlockingPool;

/// The variable that holds the mark.
pub(super) const MARK: &str = "UNSTALL_GIT_OF";

/// What the shell does. The first argument is what marked environments hold. A process that is killed
/// may have started another meanwhile, so it looks again, until it finds none; one that the kernel can't
/// end now, since it waits for a disk, ends by itself later.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
while read -r line; do :; done
round=0
while [ "$round" -lt 20 ]; do
    found=$(grep -lF "$1" /proc/[0-9]*/environ 2>/dev/null)
    [ -n "$found" ] || exit 0
    for file in $found; do
        process=${file#/proc/}
        kill -KILL "${process%/environ}" 2>/dev/null
    done
    round=$((round + 1))
done
"#;

/// A shell that ends what carries the mark, once this is dropped or our process is gone.
#[derive(Debug)]
pub(super) struct Guard {
    mark: String,
    watch: Option<Watch>,
    pool: BlockingPool,
}

#[derive(Debug)]
struct Watch {
    /// Closed when nobody has it any more, however we end.
    open: PipeWriter,
    shell: Child,
}

impl Guard {
    /// Starts the shell. It blocks.
    ///
    /// # Errors
    /// When the system refuses a process or a pipe.
    pub(super) fn start(search_path: &OsStr, pool: BlockingPool) -> io::Result<Self> {
        let mark = format!("{:032x}", rand::random::<u128>());
        let (theirs, open) = io::pipe()?;
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "unstall-git-guard"])
            .arg(format!("{MARK}={mark}"))
            .env_clear()
            .env("PATH", search_path)
            .env("LC_ALL", "C")
            // It holds no folder that somebody may want to unmount, and no pipe that somebody reads.
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to our group isn't for it.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            mark,
            watch: Some(Watch { open, shell }),
            pool,
        })
    }

    /// What each git must have in its environment, by the name of [`MARK`].
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(Watch { open, mut shell }) = self.watch.take() {
            // Whoever waits for a git has this guard, so what is left now is wanted by nobody.
            self.pool.run_unwatched(move || {
                drop(open);
                if let Err(error) = shell.wait() {
                    tracing::warn!(%error, "the end of git's guard wasn't seen");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn what_carries_the_mark_ends_with_the_guard_whatever_its_group() {
        let pool = BlockingPool::new(1).expect("a thread");
        let path = std::env::var_os("PATH").expect("a path");
        let guard = Guard::start(&path, pool).expect("a shell");
        let start = |mark: &str| {
            Command::new("sleep")
                .arg("600")
                .env(MARK, mark)
                .process_group(0)
                .spawn()
                .expect("it starts")
        };
        let mut marked = [start(guard.mark()), start(guard.mark())];
        let mut other = start("another");
        drop(guard);
        let until = Instant::now() + Duration::from_secs(20);
        for child in &mut marked {
            while child.try_wait().expect("it is ours").is_none() {
                assert!(Instant::now() < until, "it survived");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        assert!(other.try_wait().expect("it is ours").is_none());
        other.kill().expect("it runs");
        other.wait().expect("it ends");
    }
}
