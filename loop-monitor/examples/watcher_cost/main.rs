//! What the watcher inside costs: time per name, cold and warm, and the CPU of its thread while the
//! loop is idle and while it is busy. Run it optimised:
//! `cargo run --release -p unstall-loop-monitor --features watch --example watcher_cost`.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod measured;

fn main() {
    // Elsewhere there is no watcher to measure.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    measured::measure();
}
