//! The renderers through their public door: what they say, that hostile names
//! stay names, and that a real browser shows the page as meant.

mod browser;
mod fixture;
mod formats;
mod hostile_names;
mod objectives;
mod open;
