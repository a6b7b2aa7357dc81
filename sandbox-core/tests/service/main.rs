//! The use cases, on real git, real runtimes and a store, as callers see them.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files and run git by themselves"
)]

mod bench;
mod evicting;
mod making;
mod paused;
mod reconciling;
mod running;
mod working;
