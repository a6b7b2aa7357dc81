//! `unstall scenarios …`: what there is to send, and whether a file is right.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use unstall_results::policy;
use unstall_scenarios::import::{self, Options};
use unstall_scenarios::{Inputs, Plan, catalogue, schema};

use crate::arguments::{ImportFrom, ScenariosCommand, SchemaOf};
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
            SchemaOf::Policy => pretty(&policy::schema())?,
            SchemaOf::Result => document::schema()?,
        })),
        ScenariosCommand::Import {
            from,
            file,
            output,
            name,
            hosts,
            keeps_static,
        } => {
            let options = Options {
                name,
                hosts,
                keeps_static,
            };
            import(from, &file, output.as_deref(), &options)
        }
    }
}

fn import(
    from: ImportFrom,
    file: &Path,
    output: Option<&Path>,
    options: &Options,
) -> anyhow::Result<Outcome> {
    if from != ImportFrom::Har && (!options.hosts.is_empty() || options.keeps_static) {
        bail!("--host and --all choose requests of a recording; take them out, or import `har`");
    }
    let (shown, input) = read_input(file)?;
    let imported = match from {
        ImportFrom::Curl => import::curl(&input, options),
        ImportFrom::Har => import::har(&input, options),
        ImportFrom::OpenApi => import::openapi(&input, options),
    };
    let imported = imported.with_context(|| format!("{shown} can't be imported"))?;
    let Some(output) = output else {
        return Ok(text(imported.text));
    };
    write_new(output, &imported.text)?;
    // Read back as it will be used: from where it stands, with the files beside it.
    let plan = Plan::load(output, &Inputs::default())?;
    let mut outcome = described(vec![ScenarioDocument {
        endpoints: plan.endpoints().map(ToOwned::to_owned).collect(),
        name: plan.name,
        describe: plan.describe,
    }]);
    for note in &imported.notes {
        outcome.text.push_str(&format!("  {note}\n"));
    }
    outcome
        .text
        .push_str(&format!("Written to {}.\n", output.display()));
    Ok(outcome)
}

fn read_input(file: &Path) -> anyhow::Result<(String, String)> {
    if file == Path::new("-") {
        let mut input = String::new();
        let read = std::io::stdin().read_to_string(&mut input);
        read.context("the standard input can't be read as UTF-8 text")?;
        return Ok(("the standard input".to_owned(), input));
    }
    let shown = file.display().to_string();
    let input = std::fs::read_to_string(file)
        .with_context(|| format!("{shown} can't be read; name a text file, or `-`"))?;
    Ok((shown, input))
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} is there already; name another file with -o, or remove it",
            path.display()
        ),
        other => other.with_context(|| format!("{} can't be written", path.display()))?,
    };
    file.write_all(text.as_bytes())
        .with_context(|| format!("{} can't be written", path.display()))
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
        status: None,
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
        status: None,
        text,
        content,
    }
}

fn pretty(schema: &serde_json::Value) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(schema).context("the schema could not be written")?;
    Ok(text + "\n")
}
