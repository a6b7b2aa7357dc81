//! The rules of GitHub's metadata syntax for composite actions, and some of our own: each input comes
//! to a shell as an environment variable, never as a part of its script.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Everything that is wrong with an action's metadata.
pub(crate) fn violations(action: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(action) = action.as_object() else {
        return vec!["no mapping".to_owned()];
    };
    keys(
        "the action",
        action,
        &["name", "description", "runs"],
        &["author", "inputs", "outputs", "branding"],
        &mut found,
    );
    let empty = Map::new();
    let part = |name: &str| {
        action
            .get(name)
            .and_then(Value::as_object)
            .unwrap_or(&empty)
    };
    for (name, input) in part("inputs") {
        let place = format!("input {name}");
        let Some(input) = input.as_object() else {
            found.push(format!("{place}: no mapping"));
            continue;
        };
        keys(
            &place,
            input,
            &["description"],
            &["required", "default", "deprecationMessage"],
            &mut found,
        );
        if input
            .get("required")
            .is_some_and(|required| !required.is_boolean())
        {
            found.push(format!("{place}: required is no boolean"));
        }
        if input
            .get("default")
            .is_some_and(|default| !default.is_string())
        {
            found.push(format!("{place}: the default is no text"));
        }
    }
    for (name, output) in part("outputs") {
        let place = format!("output {name}");
        let output = output.as_object().unwrap_or(&empty);
        keys(&place, output, &["description", "value"], &[], &mut found);
    }
    let runs = part("runs");
    keys("runs", runs, &["using", "steps"], &[], &mut found);
    if runs.get("using").and_then(Value::as_str) != Some("composite") {
        found.push("runs: not composite".to_owned());
    }
    let steps = runs.get("steps").and_then(Value::as_array);
    for step in steps.into_iter().flatten().filter_map(Value::as_object) {
        check_step(step, &mut found);
    }
    check_references(action, &mut found);
    found
}

fn keys(
    place: &str,
    of: &Map<String, Value>,
    must: &[&str],
    may: &[&str],
    found: &mut Vec<String>,
) {
    for key in must {
        if !of.contains_key(*key) {
            found.push(format!("{place}: no {key}"));
        }
    }
    for key in of.keys() {
        if !must.contains(&key.as_str()) && !may.contains(&key.as_str()) {
            found.push(format!("{place}: {key} is no key"));
        }
    }
}

fn check_step(step: &Map<String, Value>, found: &mut Vec<String>) {
    let name = step.get("name").and_then(Value::as_str).unwrap_or("a step");
    let optional = ["name", "id", "if", "env", "continue-on-error"];
    match (step.get("run"), step.get("uses")) {
        (Some(run), None) => {
            let mut may = optional.to_vec();
            may.push("working-directory");
            keys(name, step, &["run", "shell"], &may, found);
            if run.as_str().is_none_or(|script| script.contains("${{")) {
                found.push(format!("{name}: an expression is pasted into the script"));
            }
        }
        (None, Some(uses)) => {
            let mut may = optional.to_vec();
            may.push("with");
            keys(name, step, &["uses"], &may, found);
            let pinned = uses.as_str().and_then(|uses| uses.split_once('@'));
            let is_commit = pinned.is_some_and(|(_, commit)| {
                commit.len() == 40 && commit.chars().all(|digit| digit.is_ascii_hexdigit())
            });
            if !is_commit {
                found.push(format!("{name}: not pinned to a commit"));
            }
        }
        _ => found.push(format!("{name}: neither run nor uses, or both")),
    }
}

/// Expressions name inputs and steps that there are, and every input is used.
fn check_references(action: &Map<String, Value>, found: &mut Vec<String>) {
    let names = |part: &str| -> BTreeSet<String> {
        let part = action.get(part).and_then(Value::as_object);
        part.into_iter().flat_map(Map::keys).cloned().collect()
    };
    let steps = action["runs"]["steps"].as_array();
    let ids: BTreeSet<String> = steps
        .into_iter()
        .flatten()
        .filter_map(|step| step.get("id")?.as_str().map(str::to_owned))
        .collect();
    let inputs = names("inputs");
    let mut used = BTreeSet::new();
    for name in expressions(&Value::Object(action.clone())) {
        let mut parts = name.split('.');
        match (parts.next(), parts.next()) {
            (Some("inputs"), Some(input)) => {
                if !inputs.contains(input) {
                    found.push(format!("there is no input {input}"));
                }
                used.insert(input.to_owned());
            }
            (Some("steps"), Some(id)) if !ids.contains(id) => {
                found.push(format!("there is no step {id}"));
            }
            _ => {}
        }
    }
    for input in inputs.difference(&used) {
        found.push(format!("the input {input} is not used"));
    }
}

/// The dotted names in all expressions of a tree.
fn expressions(tree: &Value) -> Vec<String> {
    match tree {
        Value::String(text) => {
            let pieces = text.split("${{").skip(1);
            let inside = pieces.filter_map(|piece| piece.split("}}").next());
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            inside
                .flat_map(|expression| expression.split(move |letter| !is_name(letter)))
                .filter(|name| name.contains('.'))
                .map(str::to_owned)
                .collect()
        }
        Value::Array(items) => items.iter().flat_map(expressions).collect(),
        Value::Object(map) => map.values().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_rules_find_what_github_would_refuse() {
    let good = r#"
name: A
description: B
inputs:
  x: { description: X, default: "1" }
outputs:
  y: { description: Y, value: "${{ steps.s.outputs.y }}" }
runs:
  using: composite
  steps:
    - { id: s, name: S, shell: bash, run: 'echo "$X"', env: { X: "${{ inputs.x }}" } }
    - { name: T, uses: "a/b@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f", with: { z: 1 } }
"#;
    let found = |text: &str| violations(&crate::stage::yaml(text));
    assert_eq!(found(good), [""; 0]);
    for (from, to, said) in [
        ("description: B\n", "", "no description"),
        ("shell: bash, ", "", "S: no shell"),
        ("description: X, ", "", "input x: no description"),
        ("default: \"1\"", "default: 1", "default is no text"),
        (
            "default: \"1\"",
            "required: \"yes\"",
            "required is no boolean",
        ),
        ("default: \"1\"", "type: string", "type is no key"),
        (
            "value: \"${{ steps.s.outputs.y }}\"",
            "v: 1",
            "output y: no value",
        ),
        ("steps.s.", "steps.t.", "no step t"),
        ("inputs.x", "inputs.z", "no input z"),
        ("inputs.x", "github.x", "x is not used"),
        ("using: composite", "using: node24", "not composite"),
        (
            "echo \"$X\"",
            "echo ${{ inputs.x }}",
            "pasted into the script",
        ),
        (
            "bbbca2ddaa5d8feaa63e36b76fdaad77386f024f",
            "v4",
            "not pinned",
        ),
        ("run: 'echo \"$X\"', ", "", "neither run nor uses"),
        ("with: { z: 1 }", "shell: bash", "shell is no key"),
    ] {
        let broken = good.replace(from, to);
        assert_ne!(broken, good, "{from}");
        let found = found(&broken).join("; ");
        assert!(found.contains(said), "{from} → {to}: {found}");
    }
}
