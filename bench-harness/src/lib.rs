//! bench-harness
