//! The renderers through their public door: what they say, that hostile names
//! stay names, and that a real browser shows the page as meant.

mod annotated_lines;
mod blame;
mod browser;
mod cells_as_rows;
mod devtools;
mod fixture;
mod formats;
mod hostile_names;
mod interaction;
mod junit_rules;
mod limits;
mod markdown_as_read;
mod mixed;
mod objectives;
mod open;
mod trust;
