//! Where the stores under test are: each case gets an empty one, twice, as two workers have it.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use tempfile::TempDir;
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::stores::{MemoryStore, PostgresStore, SqliteStore};
use unstall_testbed::{Options, Testbed};

const TEMPLATE: &str = "sandbox_template";

/// An empty store.
pub(crate) struct Place {
    /// As the first worker has it.
    pub(crate) store: Arc<dyn SandboxStore>,
    /// As a second worker has it: with connections of its own, where there are connections.
    pub(crate) second: Arc<dyn SandboxStore>,
    _folder: Option<TempDir>,
}

impl Place {
    /// The first worker's for even numbers, the second's for odd ones.
    pub(crate) fn of_worker(&self, number: usize) -> Arc<dyn SandboxStore> {
        if number.is_multiple_of(2) {
            self.store.clone()
        } else {
            self.second.clone()
        }
    }
}

pub(crate) async fn in_memory() -> Place {
    let store: Arc<dyn SandboxStore> = Arc::new(MemoryStore::new());
    Place {
        second: store.clone(),
        store,
        _folder: None,
    }
}

pub(crate) async fn in_sqlite() -> Place {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("sandbox.db");
    let store = SqliteStore::open(&file).await.expect("the file is made");
    store.migrate().await.expect("the schema is made");
    let second = SqliteStore::open(&file).await.expect("the file is there");
    Place {
        store: Arc::new(store),
        second: Arc::new(second),
        _folder: Some(folder),
    }
}

pub(crate) async fn in_postgres() -> Place {
    let url = fresh_database();
    let connect = async || PostgresStore::connect(&url).await.expect("it answers");
    Place {
        store: Arc::new(connect().await),
        second: Arc::new(connect().await),
        _folder: None,
    }
}

/// The URL of a migrated database that nobody else uses.
pub(crate) fn fresh_database() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("sandbox_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let cloned = shared_testbed().reset_database(TEMPLATE, &name);
    cloned.expect("the database is cloned")
}

/// One for all tests that leave the server running. Its guard ends it with this process.
fn shared_testbed() -> &'static Testbed {
    static SHARED: OnceLock<Testbed> = OnceLock::new();
    SHARED.get_or_init(|| {
        let testbed = Testbed::start(&Options::default()).expect("private servers start");
        let made = testbed.create_template(TEMPLATE, migrate);
        made.expect("the template is made");
        testbed
    })
}

/// Makes the schema, on a thread of its own: who asks is on a runtime's.
pub(crate) fn migrate(url: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let made = thread::scope(|scope| scope.spawn(|| migrate_here(url)).join());
    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn migrate_here(url: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = PostgresStore::connect(url).await?;
        store.migrate().await?;
        store.close().await;
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })
}
