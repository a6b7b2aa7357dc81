//! Caches and working trees through their ports, on real gits, with origins that change, trees that
//! are hostile, and workers that vanish.
#![expect(
    clippy::disallowed_methods,
    reason = "a test may wait for the disk, and for the gits that it runs beside ours"
)]

mod caches;
mod edits;
mod full_disk;
mod hostile;
mod leftovers;
mod many;
mod secrets;
#[allow(dead_code, reason = "other programs fill it, too")]
#[path = "../disks/small_disk.rs"]
mod small_disk;
mod trees;
mod world;
