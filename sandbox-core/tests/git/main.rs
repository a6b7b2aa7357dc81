//! Caches and working trees through their ports, on real gits, with origins that change, trees that
//! are hostile, and workers that vanish.

mod caches;
mod edits;
mod hostile;
mod leftovers;
mod many;
mod secrets;
mod trees;
mod world;
