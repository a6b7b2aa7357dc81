//! What a scenario may take from outside: `--var` and the environment.

use unstall_scenarios::Inputs;

/// Gathers both.
pub(crate) fn gather(overrides: Vec<(String, String)>) -> Inputs {
    let mut inputs = Inputs::from_environment();
    inputs.overrides = overrides.into_iter().collect();
    inputs
}
