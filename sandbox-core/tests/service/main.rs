//! The use cases, on real git, real runtimes and a store, as callers see them.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files and run git by themselves"
)]

mod bench;
mod evicting;
mod full_disk;
mod making;
mod paused;
mod reconciling;
mod returning;
mod running;
#[path = "../disks/small_disk.rs"]
mod small_disk;
mod working;
