//! The agent's tools on a real tree and a real git: what they answer, what they refuse, and what a
//! workspace that can't be written doesn't have.

mod bench;
mod gating;
mod on_commands;
mod on_files;
mod on_git;
