//! The scenarios that come with the program, and how a name or a path is opened.

use std::path::{Path, PathBuf};

use crate::document::read_text;
use crate::error::{ScenarioError, suggestion};
use crate::inputs::Inputs;
use crate::plan::Plan;
use crate::resolve::{check_overrides, resolve};

/// Names and texts, sorted by name.
const SHIPPED: [(&str, &str); 14] = [
    ("agent-tools", include_str!("../catalogue/agent-tools.toml")),
    ("auth", include_str!("../catalogue/auth.toml")),
    ("chat-flow", include_str!("../catalogue/chat-flow.toml")),
    ("every-route", include_str!("../catalogue/every-route.toml")),
    ("github", include_str!("../catalogue/github.toml")),
    (
        "idle-streams",
        include_str!("../catalogue/idle-streams.toml"),
    ),
    ("login", include_str!("../catalogue/login.toml")),
    ("mixed", include_str!("../catalogue/mixed.toml")),
    (
        "redis-streams",
        include_str!("../catalogue/redis-streams.toml"),
    ),
    ("search", include_str!("../catalogue/search.toml")),
    (
        "session-status",
        include_str!("../catalogue/session-status.toml"),
    ),
    (
        "share-access",
        include_str!("../catalogue/share-access.toml"),
    ),
    (
        "tunnel-github",
        include_str!("../catalogue/tunnel-github.toml"),
    ),
    ("usage-check", include_str!("../catalogue/usage-check.toml")),
];

/// A scenario of the catalogue, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub describe: String,
    /// Its endpoints, in order.
    pub endpoints: Vec<String>,
}

/// The shipped scenarios' names, sorted.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The text of a shipped scenario.
pub fn get(name: &str) -> Option<&'static str> {
    SHIPPED
        .iter()
        .find(|(shipped, _)| *shipped == name)
        .map(|(_, text)| *text)
}

/// The shipped scenarios.
///
/// # Errors
/// None that a released program has: a test resolves each of them.
pub fn list() -> Result<Vec<Entry>, ScenarioError> {
    SHIPPED
        .iter()
        .map(|(name, text)| {
            let plan = resolve(text, &shipped_origin(name), &Inputs::default())?;
            Ok(Entry {
                endpoints: plan.endpoints().map(str::to_owned).collect(),
                name: plan.name,
                describe: plan.describe,
            })
        })
        .collect()
}

/// Opens a scenario by path or by name: what exists as a file or ends in `.toml` is a
/// path, anything else a shipped scenario's name. Every override must be a variable of it.
///
/// # Errors
/// An unknown name, an unreadable or malformed file, or inputs that don't fit it.
pub fn open(name_or_path: &str, inputs: &Inputs) -> Result<Plan, ScenarioError> {
    let plan = open_unchecked(name_or_path, inputs)?;
    check_overrides(std::slice::from_ref(&plan), inputs)?;
    Ok(plan)
}

/// Opens several scenarios of one run: every override must be a variable of at least
/// one of them.
///
/// # Errors
/// As [`open`].
pub fn open_all<S: AsRef<str>>(
    names_or_paths: &[S],
    inputs: &Inputs,
) -> Result<Vec<Plan>, ScenarioError> {
    let plans = names_or_paths
        .iter()
        .map(|name_or_path| open_unchecked(name_or_path.as_ref(), inputs))
        .collect::<Result<Vec<Plan>, ScenarioError>>()?;
    check_overrides(&plans, inputs)?;
    Ok(plans)
}

/// The text behind a name or path, for showing it.
///
/// # Errors
/// An unknown name or an unreadable file.
pub fn text(name_or_path: &str) -> Result<String, ScenarioError> {
    locate(name_or_path).map(|(_, text)| text)
}

fn open_unchecked(name_or_path: &str, inputs: &Inputs) -> Result<Plan, ScenarioError> {
    let (origin, text) = locate(name_or_path)?;
    resolve(&text, &origin, inputs)
}

fn locate(name_or_path: &str) -> Result<(PathBuf, String), ScenarioError> {
    let path = Path::new(name_or_path);
    if name_or_path.ends_with(".toml") || path.is_file() {
        return Ok((path.to_owned(), read_text(path)?));
    }
    match get(name_or_path) {
        Some(text) => Ok((shipped_origin(name_or_path), text.to_owned())),
        None => Err(ScenarioError::Unknown {
            name: name_or_path.to_owned(),
            fix: format!(
                "{} (a file of your own ends in `.toml`)",
                suggestion(name_or_path, names())
            ),
        }),
    }
}

fn shipped_origin(name: &str) -> PathBuf {
    PathBuf::from(format!("catalogue/{name}.toml"))
}
