//! Stores that go away, come back, or hold what nobody can read.

use std::fmt::Debug;

use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;
use unstall_sandbox_core::domain::{SandboxError, Subject};
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::stores::{MemoryStore, OpenError, PostgresStore, SqliteStore};
use unstall_testbed::{Options, Testbed};

use crate::places::{fresh_database, migrate};
use crate::records::{
    PLENTY, all, at, cache, conversation, kept_cache, kept_workspace, key, ready_tree, runtime,
    task, token, when, workspace,
};

fn assert_unavailable<T: Debug>(result: Result<T, SandboxError>) {
    assert!(
        matches!(result, Err(SandboxError::Unavailable { .. })),
        "{result:?}"
    );
}

/// One call of each kind: a read, a write, a transaction.
async fn assert_all_unavailable(store: &dyn SandboxStore) {
    let kept = cache("octo/hello");
    let workspace = workspace(&kept, key("u", conversation("c")));
    assert_unavailable(store.find_cache(kept.id).await);
    assert_unavailable(store.insert_cache(&kept).await);
    assert_unavailable(store.update_cache(&kept, when(1, 1)).await);
    assert_unavailable(store.begin_cache_eviction(kept.id, when(1, 1), at(1)).await);
    assert_unavailable(store.insert_workspace(&workspace, PLENTY).await);
    assert_unavailable(store.find_workspace_by_key(&workspace.key).await);
    let dirty = store.mark_workspace_dirty(workspace.id, token(1), at(1));
    assert_unavailable(dirty.await);
    assert_unavailable(
        store
            .touch_workspace(workspace.id, Some(token(1)), at(1))
            .await,
    );
    assert_unavailable(store.insert_runtime(&runtime(&workspace), 5).await);
    assert_unavailable(store.list_runtimes(all()).await);
    let tree = ready_tree(&kept, 0);
    assert_unavailable(store.insert_prepared_tree(&tree, 5).await);
    let claim = crate::prepared_trees::claim(&kept, "w", 1);
    assert_unavailable(store.claim_prepared_tree(&claim).await);
    assert_unavailable(
        store
            .adopt_prepared_tree(&tree, &workspace, when(1, 1))
            .await,
    );
}

#[tokio::test]
async fn closed_stores_are_unavailable() {
    let memory = MemoryStore::new();
    kept_cache(&memory, "octo/other").await;
    memory.close().await;
    assert_all_unavailable(&memory).await;

    let folder = TempDir::new().expect("a folder");
    let sqlite = sqlite_in(&folder).await;
    sqlite.close().await;
    assert_all_unavailable(&sqlite).await;

    let postgres = PostgresStore::connect(&fresh_database()).await;
    let postgres = postgres.expect("it answers");
    postgres.close().await;
    assert_all_unavailable(&postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_unavailable_and_afterwards_has_what_it_answered() {
    let mut testbed = Testbed::start(&Options::default()).expect("private servers start");
    let made = testbed.create_template("sandbox_killed_template", migrate);
    made.expect("the template is made");
    let cloned = testbed.reset_database("sandbox_killed_template", "sandbox_killed");
    let store = PostgresStore::connect(&cloned.expect("the database is cloned")).await;
    let store = store.expect("it answers");
    let kept = kept_cache(&store, "octo/hello").await;
    let workspace = kept_workspace(&store, &kept, task("t")).await;

    testbed.kill_postgres().expect("the server is private");
    assert_unavailable(store.find_cache(kept.id).await);
    testbed.revive_postgres().expect("the server is private");
    let found = store.find_workspace(workspace.id).await;
    assert_eq!(found.expect("it answers again"), Some(workspace));
}

#[tokio::test]
async fn a_file_that_is_opened_again_has_everything() {
    let folder = TempDir::new().expect("a folder");
    let store = sqlite_in(&folder).await;
    let kept = kept_cache(&store, "octo/hello").await;
    let workspace = kept_workspace(&store, &kept, task("t")).await;
    let runtime = runtime(&workspace);
    store
        .insert_runtime(&runtime, 5)
        .await
        .expect("there is room");
    let tree = ready_tree(&kept, 0);
    store
        .insert_prepared_tree(&tree, 5)
        .await
        .expect("there is room");
    let version = store
        .mark_workspace_dirty(workspace.id, token(1), at(9))
        .await;
    assert_eq!(version.expect("it is there"), 2);
    // As if the process had been killed: nothing is closed.
    drop(store);

    let store = sqlite_in(&folder).await;
    assert_eq!(store.list_caches(all()).await.expect("it answers"), [kept]);
    assert_eq!(
        store.list_runtimes(all()).await.expect("it answers"),
        [runtime]
    );
    assert_eq!(
        store.list_prepared_trees(all()).await.expect("it answers"),
        [tree]
    );
    let found = store
        .find_workspace(workspace.id)
        .await
        .expect("it answers");
    let found = found.map(|found| (found.dirty, found.version, found.key));
    assert_eq!(found, Some((true, 2, workspace.key)));
}

#[tokio::test]
async fn a_damaged_row_is_told_and_left_alone() {
    let folder = TempDir::new().expect("a folder");
    let store = sqlite_in(&folder).await;
    let kept = kept_cache(&store, "octo/hello").await;
    let whole = kept_cache(&store, "octo/whole").await;
    let options = SqliteConnectOptions::new().filename(folder.path().join("sandbox.db"));
    let mut direct = SqliteConnection::connect_with(&options)
        .await
        .expect("it opens");
    let damage =
        sqlx::query("UPDATE sandbox_repo_caches SET local_path = '../../etc' WHERE id = ?1")
            .bind(kept.id.as_uuid())
            .execute(&mut direct);
    assert_eq!(damage.await.expect("it is written").rows_affected(), 1);

    let found = store.find_cache(kept.id).await;
    assert!(
        matches!(&found, Err(SandboxError::Damaged { subject, .. }) if *subject == Subject::Cache(kept.id)),
        "{found:?}"
    );
    let evicted = store.begin_cache_eviction(kept.id, when(1, 1), at(1)).await;
    assert!(
        matches!(evicted, Err(SandboxError::Damaged { .. })),
        "{evicted:?}"
    );
    let left: (i64, String) =
        sqlx::query_as("SELECT version, state FROM sandbox_repo_caches WHERE id = ?1")
            .bind(kept.id.as_uuid())
            .fetch_one(&mut direct)
            .await
            .expect("it is there");
    assert_eq!(left, (1, "ready".to_owned()));
    let found = store.find_cache(whole.id).await.expect("it answers");
    assert_eq!(found, Some(whole));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_that_are_opened_and_migrated_at_once_wait_for_each_other() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("sandbox.db");
    let mut opened = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let file = file.clone();
        opened.spawn(async move {
            let store = SqliteStore::open(&file).await?;
            store.migrate().await?;
            Ok::<_, OpenError>(store)
        });
    }
    for store in opened.join_all().await {
        let store = store.expect("it waits its turn");
        let listed = store.list_caches(all()).await;
        assert_eq!(listed.expect("it answers"), []);
    }
    let url = fresh_database();
    for _ in 0..2 {
        let store = PostgresStore::connect(&url).await.expect("it answers");
        store.migrate().await.expect("nothing is left to do");
    }
}

#[tokio::test]
async fn what_cannot_be_opened_says_what_and_shows_no_password() {
    let folder = TempDir::new().expect("a folder");
    let refused = SqliteStore::open(&folder.path().join("missing/sandbox.db")).await;
    let text = refused.expect_err("there is no such folder").to_string();
    assert!(
        text.contains("missing/sandbox.db") && text.contains("check that"),
        "{text}"
    );
    for url in [
        "postgres://u:s3cret@[/d",
        "postgres://u:s3cret@127.0.0.1:99999/d",
    ] {
        let refused = PostgresStore::connect(url).await;
        let text = refused.expect_err("it is no URL").to_string();
        assert!(
            text.contains("can't be understood") && !text.contains("s3cret"),
            "{text}"
        );
    }
}

async fn sqlite_in(folder: &TempDir) -> SqliteStore {
    let store = SqliteStore::open(&folder.path().join("sandbox.db")).await;
    let store = store.expect("the file opens");
    store.migrate().await.expect("the schema is made");
    store
}
