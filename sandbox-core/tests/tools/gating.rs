//! Which tools there are, for whom, and what they say of themselves.

use serde_json::{Value, json};
use unstall_sandbox_core::domain::{CommandKind, WorkspaceMode};

use crate::bench::Place;

async fn names(mode: WorkspaceMode) -> Vec<&'static str> {
    let place = Place::of(mode).await;
    place.tools.tools().iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn a_writable_workspace_has_all_twelve_and_a_read_only_one_none_that_writes() {
    let all = names(WorkspaceMode::Edit).await;
    assert_eq!(all.len(), 12);
    assert_eq!(names(WorkspaceMode::Task).await, all);
    assert_eq!(
        names(WorkspaceMode::Analysis).await,
        [
            "sandbox_read_file",
            "sandbox_list_dir",
            "sandbox_search",
            "sandbox_run",
            "sandbox_git_status",
            "sandbox_git_diff",
        ]
    );
}

#[tokio::test]
async fn a_tool_that_isnt_there_can_not_be_called_either() {
    let place = Place::of(WorkspaceMode::Analysis).await;
    let input = json!({"path": "README.md", "content": "x"});
    let said = place.refused("sandbox_write_file", input).await;
    assert!(
        said.contains("sandbox_write_file") && said.contains("there are sandbox_read_file"),
        "{said}"
    );
    assert_eq!(place.content("README.md").await, "hello\n");
    assert!(!place.refused("rm", Value::Null).await.is_empty());
}

#[tokio::test]
async fn a_command_of_a_read_only_workspace_is_one_that_reads_whatever_it_claims() {
    let place = Place::of(WorkspaceMode::Analysis).await;
    let input = json!({"command": ["cat", "README.md"], "kind": "install"});
    let answer = place.done("sandbox_run", input).await;
    assert_eq!(answer["stdout"], "hello\n");
    let commands = place.commands.lock().expect("no panic");
    assert_eq!(commands[0].1, CommandKind::Read);
}

#[tokio::test]
async fn input_that_does_not_fit_the_schema_is_told() {
    let place = Place::of(WorkspaceMode::Edit).await;
    for (name, input, part) in [
        ("sandbox_read_file", json!({}), "missing field `path`"),
        (
            "sandbox_read_file",
            json!({"path": "x", "lines": 3}),
            "unknown field `lines`",
        ),
        (
            "sandbox_git_push",
            json!({"branch": "main"}),
            "unknown field `branch`",
        ),
        ("sandbox_git_commit", json!({"message": " "}), "empty"),
        ("sandbox_open_pr", json!({"title": ""}), "empty"),
        ("sandbox_run", json!({"command": []}), "no program"),
        (
            "sandbox_run",
            json!({"command": ["ls"], "kind": "x"}),
            "unknown variant",
        ),
        (
            "sandbox_str_replace",
            json!({"path": "README.md", "old": "", "new": ""}),
            "empty",
        ),
        ("sandbox_read_file", json!([]), "see the tool's schema"),
    ] {
        let said = place.refused(name, input).await;
        assert!(said.contains(part), "{name}: {said}");
    }
}

#[tokio::test]
async fn descriptions_and_schemas_are_what_models_were_shown() {
    let place = Place::of(WorkspaceMode::Edit).await;
    let tools: Vec<Value> = place
        .tools
        .tools()
        .into_iter()
        .map(|tool| {
            assert_eq!(tool.input_schema["type"], "object");
            assert!(!tool.input_schema.to_string().contains("$ref"));
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        })
        .collect();
    insta::assert_json_snapshot!(tools);
}
