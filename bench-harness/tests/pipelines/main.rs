//! What a pipeline takes from `ci/`: the GitHub action and the GitLab job, each held against its format
//! and run with records that were measured.

mod action_metadata;
mod github;
mod gitlab;
mod pages;
mod stage;
