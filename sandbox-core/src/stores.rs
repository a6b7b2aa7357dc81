//! Where records are kept, behind [`SandboxStore`](crate::ports::store::SandboxStore): PostgreSQL for many workers, SQLite for one
//! machine without a server, memory for tests.
//!
//! They decide alike because they decide by the same code: `admission` says whether a row may be
//! inserted, `write_check` whether one may be written, and each kind of row is made of a record and read
//! back at one place. What is left to a store is how it makes looking and writing one step.

mod admission;
mod cache_row;
mod failure;
mod memory;
mod opening;
mod postgres;
mod prepared_tree_row;
mod runtime_row;
mod sqlite;
mod stored_values;
mod workspace_row;
mod write_check;

pub use memory::MemoryStore;
pub use opening::OpenError;
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
