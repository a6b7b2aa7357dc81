//! The command as people and scripts see it, and what it leaves when it is killed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests run programs and look at files by themselves"
)]

mod crash;
mod full_disk;
mod scene;
mod secrets;
mod servers;
mod signals;
#[path = "../disks/small_disk.rs"]
mod small_disk;
mod work;
