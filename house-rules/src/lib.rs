//! Holds the architecture page against the code: each rule is a function from what was found (a
//! tree of files, packages and what they use) to what is wrong, so that it can be tried on a
//! planted violation. The tests apply them to this repository.

mod dependencies;
mod documents;
mod files;
mod layers;
mod rust_text;
mod sizes;
mod source_text;

pub use dependencies::{Dependency, Package, dependency_violations, use_violations};
pub use documents::{architecture_violations, reason_violations};
pub use files::{Tree, lock_violations, manifest_violations, name_violations};
pub use layers::layer_violations;
pub use rust_text::code_only;
pub use sizes::size_violations;
pub use source_text::{
    attribute_violations, head_violations, machine_violations, unsafe_violations,
};

use std::fmt;

/// A broken rule: where, what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// A path below the repository's root, with a line where there is one.
    pub place: String,
    /// What is wrong there.
    pub wrong: String,
    /// What to do.
    pub fix: &'static str,
}

impl Violation {
    fn new(place: impl Into<String>, wrong: impl Into<String>, fix: &'static str) -> Self {
        Self {
            place: place.into(),
            wrong: wrong.into(),
            fix,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.wrong, self.fix)
    }
}

/// For tests: where a rule finds something in files made up for it.
#[cfg(test)]
fn places(rule: fn(&Tree) -> Vec<Violation>, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Tree::planted(files))
        .into_iter()
        .map(|violation| violation.place)
        .collect()
}
