//! The service that Unstall measures: the routes of an agent backend whose event loop is
//! migrated from blocking to async stores, one step at a time.
//!
//! A step's stores exist in three variants behind one trait: `threads` calls synchronous clients on a
//! pool of threads, as the service did when its migration started, `blocking` calls them straight from
//! the async handler, and `asynchronous` awaits. Everything else (routes, validation, SQL texts, pools' sizes) is the
//! same code.
//!
//! The SQL of both variants is in `sql/`. sqlx checks it against `.sqlx/` at the workspace's root,
//! which `cargo sqlx prepare --workspace` (or `SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$PWD/.sqlx cargo
//! check -p unstall-reference-service`) writes anew, given the `DATABASE_URL` of a migrated database.

pub mod auth;
pub mod chat_history;
pub mod conversation;
pub mod email;
pub mod entry_id;
pub mod identity;
pub mod migrations;
pub mod notifier;
pub mod refusal;
pub mod request_id;
pub mod routes;
pub mod run;
pub mod run_stream;
pub mod seed;
pub mod server;
pub mod sessions;
pub mod sharing;
pub mod start_faults;
pub mod steps;
pub mod stores;
pub mod stream_event;
pub mod stream_threads;
pub mod thread_slots;
pub mod to_its_end;
pub mod tunnel;
pub mod usage;
pub mod validation;
pub mod variants;
pub mod worker;
