//! The `unstall` command through the door that its users have: arguments in; files, streams
//! and an exit code out.

mod bystander;
mod calibrating;
mod capacity;
mod exports;
mod http2;
mod importing;
mod interruption;
mod looks;
mod measuring;
mod mistakes;
mod open;
mod policies;
mod program;
mod proving;
mod records;
mod results;
mod secure_server;
mod stored;
mod streams;
mod test_proxy;
mod tls;
mod tracing;
mod ways;
