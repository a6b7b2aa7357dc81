//! What is wrong with a policy, where, and what to do about it.

use std::path::PathBuf;

/// A policy file that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}\n  fix: {fix}", origin.display())]
pub struct PolicyError {
    /// The file.
    pub origin: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
    /// What was found and what was expected.
    pub message: String,
    /// What to do.
    pub fix: String,
}

/// At most so many names are listed.
const NAMES_MAX: usize = 20;
/// From this likeness on a name is probably the one that was meant.
const LIKENESS_MIN: f64 = 0.5;

/// The name that was probably meant, if one is near enough.
pub(super) fn nearest<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let wanted = wanted.to_lowercase();
    names
        .into_iter()
        .map(|name| {
            let likeness = strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
            let holds = wanted.len() > 1 && name.to_lowercase().contains(&wanted);
            (
                if holds {
                    likeness.max(LIKENESS_MIN)
                } else {
                    likeness
                },
                name,
            )
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

/// Names for a message: `` `a`, `b` and 3 more ``.
pub(super) fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.len().checked_sub(NAMES_MAX) {
        _ if names.is_empty() => "none".to_owned(),
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
    }
}

/// The fix for a name that isn't one of these, which the message has listed.
pub(super) fn meant<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    match nearest(wanted, names) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "use one of these, or take it out".to_owned(),
    }
}
