//! The formats' examples, shipped files and JSON Schemas hold against each other.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use unstall_scenarios::migration::{FallCriterion, MigrationPlan};
use unstall_scenarios::{Inputs, Plan, catalogue, schema};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn example() -> Plan {
    Plan::load(&folder("examples/complete.toml"), &Inputs::default()).unwrap()
}

fn as_json(text: &str) -> Json {
    toml::from_str::<Json>(text).unwrap()
}

/// The committed schema equals the generated one; `INSTA_UPDATE=always` rewrites it.
fn assert_committed(name: &str, generated: &Json) {
    let path = folder("schema").join(name);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        let text = serde_json::to_string_pretty(generated).unwrap() + "\n";
        std::fs::write(&path, text).unwrap();
    }
    let committed: Json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        &committed, generated,
        "{name} is out of date: run the test with INSTA_UPDATE=always"
    );
}

fn assert_valid(schema: &Json, text: &str, name: &str) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&as_json(text))
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

#[test]
fn committed_schemas_are_the_generated_ones() {
    assert_committed("scenario.schema.json", &schema::scenario());
    assert_committed("migration.schema.json", &schema::migration());
}

#[test]
fn shipped_files_and_the_example_are_valid_by_the_schema() {
    let schema = schema::scenario();
    for name in catalogue::names() {
        assert_valid(&schema, catalogue::get(name).unwrap(), name);
    }
    let example = std::fs::read_to_string(folder("examples/complete.toml")).unwrap();
    assert_valid(&schema, &example, "complete.toml");
    let shipped = std::fs::read_to_string(folder("migrations/async-migration.toml")).unwrap();
    assert_valid(&schema::migration(), &shipped, "async-migration");
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = schema::scenario();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let minimal = |more: &str| {
        as_json(&format!(
            "name = 'a'\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\n{more}"
        ))
    };
    assert!(validator.is_valid(&minimal("")));
    for wrong in [
        "methd = 'GET'",
        "timeout = 'soon'",
        "expect = { status = 99 }",
        "expect = { json = { '/a' = 'text' } }",
        "query = { a = [[1]] }",
        "weight = 0",
        "think = { mean = 5 }",
        "extract = { a = { body = 'x' } }",
    ] {
        assert!(!validator.is_valid(&minimal(wrong)), "{wrong}");
    }
}

/// Walks a schema and collects `Type.key` of every property.
fn keys(schema: &Json) -> Vec<String> {
    let mut found = Vec::new();
    let definitions = schema["$defs"].as_object().unwrap();
    let root = ("Scenario".to_owned(), schema);
    let all = definitions
        .iter()
        .map(|(name, definition)| (name.clone(), definition))
        .chain([root]);
    for (name, definition) in all {
        if let Some(properties) = definition["properties"].as_object() {
            found.extend(properties.keys().map(|key| format!("{name}.{key}")));
        }
    }
    found
}

#[test]
fn the_complete_example_names_every_key_of_the_schema() {
    let text = std::fs::read_to_string(folder("examples/complete.toml")).unwrap();
    let missing: Vec<String> = keys(&schema::scenario())
        .into_iter()
        .filter(|key| {
            let (_, key) = key.split_once('.').unwrap();
            let (word, table) = (format!("{key} = "), format!("{key}]"));
            !text.contains(&word) && !text.contains(&table)
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_complete_example_resolves() {
    let plan = example();
    insta::assert_debug_snapshot!(plan.requests[0].stream);
    insta::assert_debug_snapshot!(plan.requests[1].expect.json);
    assert!(plan.has_stream());
    assert_eq!(plan.sha256.len(), 64);
    let endpoints: Vec<&str> = plan.endpoints().collect();
    assert_eq!(
        endpoints,
        [
            "POST message",
            "GET active-session",
            "PUT note",
            "PUT attachment",
            "POST feedback"
        ]
    );
}

#[test]
fn the_shipped_migration_has_every_step_and_knows_what_came_before() {
    let plan = MigrationPlan::shipped().unwrap();
    assert_eq!(plan.name, "async-migration");
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(
        ids,
        ["0", "1", "2a", "2b", "2c", "2d", "2e", "3", "4", "5", "6"]
    );
    // Each command serves its own step and all before it.
    for (index, step) in plan.steps.iter().enumerate() {
        let steps = ids[..=index].join(",");
        assert_eq!(
            step.command,
            format!("unstall-reference --steps {steps} --port {{port}}")
        );
    }
    let before = |id: &str| plan.predecessor_command(id);
    assert_eq!(before("0"), Some(plan.start.command.as_str()));
    assert_eq!(
        before("2a"),
        Some("unstall-reference --steps 0,1 --port {port}")
    );
    assert_eq!(
        before("3"),
        Some("unstall-reference --steps 0,1,2a,2b,2c,2d,2e --port {port}")
    );
    assert_eq!(before("7"), None);
    // Step 0 raises blocked time by design, and is there for faults.
    let of_0 = plan.step("0").unwrap().criteria;
    assert_eq!((of_0.blocked, of_0.p95), (None, None));
    assert_eq!(of_0.faults, Some(FallCriterion::Down));
    // Whatever a step is measured with is shipped.
    let scenarios = plan.steps.iter().flat_map(|step| &step.scenarios);
    let capacity = plan.capacity.as_ref().map(|goal| &goal.scenario);
    for scenario in scenarios.chain(capacity) {
        assert!(catalogue::get(scenario).is_some(), "{scenario}");
    }
    assert_eq!(
        plan.step("2a").unwrap().criteria.blocked,
        Some(FallCriterion::Down)
    );
    assert!(plan.step("7").is_none());
    assert_eq!(
        plan.unknown_step("2f"),
        "the plan `async-migration` has no step `2f`\n  fix: use one of `0`, `1`, `2a`, `2b`, `2c`, `2d`, `2e`, `3`, `4`, `5`, `6`"
    );
}
