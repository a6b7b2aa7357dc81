//! `unstall scenarios …`: what there is to send, and whether a file is right.

use anyhow::Context;
use unstall_scenarios::{Inputs, catalogue, schema};

use crate::arguments::{ScenariosCommand, SchemaOf};
use crate::console::Outcome;
use crate::document::{self, Content, ScenarioDocument};
use crate::inputs;

pub(crate) fn execute(command: ScenariosCommand) -> anyhow::Result<Outcome> {
    match command {
        ScenariosCommand::List => list(),
        ScenariosCommand::Show { scenario } => Ok(text(catalogue::text(&scenario)?)),
        ScenariosCommand::Check { files, variables } => check(&files, inputs::gather(variables)),
        ScenariosCommand::Schema { of } => Ok(text(match of {
            SchemaOf::Scenario => pretty(&schema::scenario())?,
            SchemaOf::Migration => pretty(&schema::migration())?,
            SchemaOf::Result => document::schema()?,
        })),
    }
}

fn list() -> anyhow::Result<Outcome> {
    let entries = catalogue::list()?
        .into_iter()
        .map(|entry| ScenarioDocument {
            name: entry.name,
            describe: entry.describe,
            endpoints: entry.endpoints,
        });
    Ok(described(entries.collect()))
}

fn check(files: &[String], inputs: Inputs) -> anyhow::Result<Outcome> {
    let mut scenarios = Vec::new();
    for file in files {
        let plan = catalogue::open(file, &inputs)?;
        scenarios.push(ScenarioDocument {
            endpoints: plan.endpoints().map(ToOwned::to_owned).collect(),
            name: plan.name,
            describe: plan.describe,
        });
    }
    let mut outcome = described(scenarios);
    outcome.text.push_str(if files.len() == 1 {
        "No mistakes.\n"
    } else {
        "No mistakes in any.\n"
    });
    Ok(outcome)
}

fn described(scenarios: Vec<ScenarioDocument>) -> Outcome {
    let mut text = String::new();
    for scenario in &scenarios {
        text.push_str(&format!("{}\n    {}\n", scenario.name, scenario.describe));
        for endpoint in &scenario.endpoints {
            text.push_str(&format!("    - {endpoint}\n"));
        }
    }
    Outcome {
        verdict: None,
        text,
        content: Content {
            scenarios,
            ..Content::default()
        },
    }
}

fn text(text: String) -> Outcome {
    let content = Content {
        text: Some(text.clone()),
        ..Content::default()
    };
    Outcome {
        verdict: None,
        text,
        content,
    }
}

fn pretty(schema: &serde_json::Value) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(schema).context("the schema could not be written")?;
    Ok(text + "\n")
}
