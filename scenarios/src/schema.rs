//! The JSON Schemas of the file formats, made from the raw forms that read them.

use crate::raw;

/// The schema of scenario files.
pub fn scenario() -> serde_json::Value {
    schemars::schema_for!(raw::Scenario).to_value()
}

/// The schema of migration plans.
pub fn migration() -> serde_json::Value {
    schemars::schema_for!(crate::migration::MigrationPlan).to_value()
}
