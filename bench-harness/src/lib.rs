//! The load engine and everything that measures one block of load.
//!
//! It is a library so that the command, the tests and other programs drive the
//! same code. Data flows one way: a scenario's plan goes into [`engine`], what
//! it saw is joined by [`block`] with the service's own counters
//! ([`process_group`], [`monitor_client`]) and the machine's ([`machine`]), and
//! leaves as a [`unstall_results::record::Block`]. Nothing here judges.

pub mod block;
pub mod block_watch;
pub mod certificate_client;
pub mod command_line;
pub mod control;
pub mod engine;
pub mod floor;
pub mod limits;
pub mod machine;
pub mod monitor_client;
pub mod monitor_difference;
pub mod process_group;
pub mod process_sample;
pub mod proof;
pub mod route_template;
mod stalls;
pub mod stream;
