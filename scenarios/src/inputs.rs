//! What comes from outside a scenario file, as values, so that resolving is a pure
//! function of text and inputs.

use std::collections::BTreeMap;

/// Overrides and environment for a scenario's variables.
#[derive(Clone, Default)]
pub struct Inputs {
    /// `--var name=value`.
    pub overrides: BTreeMap<String, String>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
}

impl Inputs {
    /// The process's environment, without overrides. Variables that are not UTF-8
    /// are left out: no scenario could use them.
    pub fn from_environment() -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            overrides: BTreeMap::new(),
            environment,
        }
    }
}

/// Names only: values may be secrets.
impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs")
            .field("overrides", &self.overrides.keys())
            .field("environment", &self.environment.len())
            .finish()
    }
}
