//! Proof by the loop monitor that using files holds no loop: no system call of a poll can block.

use std::time::Duration;

use unstall_loop_monitor::certificate::ProofMethod;
use unstall_loop_monitor::prove::{assert_never_blocks, method};
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::TreePath;
use unstall_sandbox_core::files::TreeFiles;
use unstall_sandbox_core::ports::files::{Expected, FileAccess, SearchRequest};

use super::{Grounds, path};

/// Times that each call is made: some find the pool's threads idle, and some busy.
const ROUNDS: u32 = 200;

async fn use_all(files: &TreeFiles, round: u32) {
    let file = path(&format!("folder-{}/file", round % 7));
    let written = files.write(file.clone(), b"text".to_vec(), Expected::Anything);
    written.await.expect("written");
    files.read(file.clone(), 100).await.expect("read");
    files.list(TreePath::root(), 100).await.expect("listed");
    files.stat(file.clone()).await.expect("told");
    files.make_folder(path("made/deep")).await.expect("made");
    files.remove(path("made/deep")).await.expect("removed");
    files.sweep().await.expect("swept");
    let search = files.search(SearchRequest {
        pattern: "text".to_owned(),
        glob: None,
        is_case_sensitive: true,
        within: TreePath::root(),
        hits_max: 10,
        time_max: Duration::from_secs(60),
    });
    search.await.expect("searched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_use_of_files_makes_a_call_that_can_block() {
    assert_eq!(
        method(),
        ProofMethod::SyscallUserDispatch,
        "the kernel must catch calls"
    );
    let grounds = Grounds::new().await;
    let pool = BlockingPool::new(2).expect("threads");
    assert_never_blocks(async {
        let files = TreeFiles::open(grounds.tree(), pool.clone())
            .await
            .expect("a tree");
        for round in 0..ROUNDS {
            use_all(&files, round).await;
        }
    })
    .await;
    assert_eq!(pool.queue_waits().begun, u64::from(ROUNDS) * 8 + 1);
}
