//! What kept loops, each cause once and known by its number.

use std::collections::HashMap;

use crate::cause::Cause;

/// Distinct causes kept; those beyond are known by their call alone.
const CAUSES_MAX: usize = 1_024;

/// Causes by number.
#[derive(Default)]
pub(super) struct Causes {
    pub(super) all: Vec<Cause>,
    numbers: HashMap<Cause, usize>,
}

impl Causes {
    /// The number of a cause, another one for each that differs.
    pub(super) fn number(&mut self, mut cause: Cause) -> usize {
        // A child has another number each time, and is the same cause: told by its program.
        if let Some(target) = &mut cause.target
            && target.what.starts_with("pid ")
        {
            let program = target.name.take();
            target.what = program.unwrap_or_else(|| "a child process".to_owned());
        }
        if self.all.len() >= CAUSES_MAX && !self.numbers.contains_key(&cause) {
            cause.frames.clear();
            (cause.endpoint, cause.target) = (None, None);
        }
        *self.numbers.entry(cause).or_insert_with_key(|cause| {
            self.all.push(cause.clone());
            self.all.len() - 1
        })
    }
}
