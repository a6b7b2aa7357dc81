//! What a scenario may take from outside: `--var` and the environment.

use std::collections::BTreeMap;

use unstall_scenarios::Inputs;

/// Gathers both. Variables of the environment that are not Unicode can't be in a scenario.
pub(crate) fn gather(overrides: Vec<(String, String)>) -> Inputs {
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Inputs { overrides: overrides.into_iter().collect(), environment }
}
