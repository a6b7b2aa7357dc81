//! `unstall watch` on real services of three runtimes, none of which knows that it is watched.

mod fastapi;
mod measured;
mod mistakes;
mod node;
mod program;
mod small_loops;
