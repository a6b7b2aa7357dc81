//! What the schemas refuse by themselves, to whoever writes past the store.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::stores::{PostgresStore, SqliteStore};

use crate::places::fresh_database;
use crate::records::{kept_cache, kept_workspace, ready_tree, runtime, task};

/// Statements that would leave a row without its key, a number below nothing, a state that isn't one,
/// or a row that stands on nothing.
const REFUSED: [&str; 10] = [
    "UPDATE sandbox_workspaces SET task_id = NULL",
    "UPDATE sandbox_workspaces SET mode = 'edit', conversation_id = NULL, branch_name = NULL",
    "UPDATE sandbox_workspaces SET mode = 'Task'",
    "UPDATE sandbox_workspaces SET state = 'lost'",
    "UPDATE sandbox_workspaces SET size_bytes = -1",
    "UPDATE sandbox_workspaces SET commands_token = -1",
    "UPDATE sandbox_repo_caches SET version = 0",
    "UPDATE sandbox_runtimes SET token = -1",
    "UPDATE sandbox_prepared_trees SET state = 'claimed'",
    "DELETE FROM sandbox_repo_caches",
];

async fn fill(store: &dyn SandboxStore) {
    let cache = kept_cache(store, "octo/hello").await;
    let workspace = kept_workspace(store, &cache, task("t")).await;
    let runtime = runtime(&workspace);
    store
        .insert_runtime(&runtime, 5)
        .await
        .expect("there is room");
    let tree = ready_tree(&cache, 0);
    store
        .insert_prepared_tree(&tree, 5)
        .await
        .expect("there is room");
}

/// Is it a constraint that refuses?
fn is_refused<T>(result: Result<T, sqlx::Error>) -> bool {
    result.err().is_some_and(|error| {
        let database = error.as_database_error();
        database.is_some_and(|error| error.is_check_violation() || error.is_foreign_key_violation())
    })
}

#[tokio::test]
async fn sqlite_refuses_torn_rows() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("sandbox.db");
    let store = SqliteStore::open(&file).await.expect("the file is made");
    store.migrate().await.expect("the schema is made");
    fill(&store).await;
    let options = SqliteConnectOptions::new().filename(&file);
    let mut direct = SqliteConnection::connect_with(&options)
        .await
        .expect("it opens");
    for statement in REFUSED {
        let result = sqlx::query(statement).execute(&mut direct).await;
        assert!(is_refused(result), "{statement}");
    }
}

#[tokio::test]
async fn postgres_refuses_torn_rows() {
    let url = fresh_database();
    let store = PostgresStore::connect(&url).await.expect("it answers");
    fill(&store).await;
    let mut direct = PgConnection::connect(&url).await.expect("it answers");
    for statement in REFUSED {
        let result = sqlx::query(statement).execute(&mut direct).await;
        assert!(is_refused(result), "{statement}");
    }
}
