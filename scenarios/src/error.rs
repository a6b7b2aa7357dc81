//! What is wrong with a file or an input, where, and what to do about it.

use std::path::PathBuf;

/// A scenario or a migration plan that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file can't be read.
    #[error("{}: can't be read: {source}\n  fix: check the path, or name a shipped scenario (`unstall scenarios list`)", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in the file is wrong.
    #[error("{}:{line}:{column}: {what}\n  fix: {fix}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What was found and what was expected.
        what: String,
        /// What to do.
        fix: String,
    },
    /// No shipped scenario has this name.
    #[error("there is no shipped scenario `{name}`\n  fix: {fix}")]
    Unknown {
        /// The name.
        name: String,
        /// What to do.
        fix: String,
    },
    /// `--var` names a variable that no scenario declares.
    #[error("--var {name}=…: no variable of this name in {scenarios}\n  fix: {fix}")]
    Override {
        /// The name.
        name: String,
        /// The scenarios' names.
        scenarios: String,
        /// What to do.
        fix: String,
    },
}

/// The candidate that was probably meant, if one is near enough.
pub(crate) fn nearest<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let name = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let likeness = strsim::normalized_damerau_levenshtein(&name, &candidate.to_lowercase());
            (likeness, candidate)
        })
        .filter(|(likeness, candidate)| {
            let begins = name.len() > 1 && candidate.starts_with(&name);
            let longer = candidate.len() > 2 && name.starts_with(candidate);
            *likeness >= 0.6 || begins || longer
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// A fix for a name that isn't one of the candidates.
pub(crate) fn suggestion<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str> + Clone,
) -> String {
    match nearest(name, candidates.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let names: Vec<String> = candidates
                .into_iter()
                .map(|name| format!("`{name}`"))
                .collect();
            if names.is_empty() {
                "take it out".to_owned()
            } else {
                format!("use one of {}", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_takes_a_beginning_too() {
        assert_eq!(nearest("enviroment", ["default", "env"]), Some("env"));
        assert_eq!(nearest("lo", ["high", "low"]), Some("low"));
        assert_eq!(nearest("conversation", ["iteration", "user"]), None);
    }

    #[test]
    fn nearest_needs_likeness() {
        let names = ["request", "setup", "probe"];
        assert_eq!(nearest("requests", names), Some("request"));
        assert_eq!(nearest("Probe", names), Some("probe"));
        assert_eq!(nearest("xyzzy", names), None);
        assert_eq!(suggestion("q", ["a", "b"]), "use one of `a`, `b`");
    }
}
