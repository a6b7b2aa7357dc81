//! The tools on the repository, from the first change to the pull request.

use serde_json::json;
use unstall_sandbox_core::domain::WorkspaceMode;

use crate::bench::Place;

#[tokio::test]
async fn a_change_goes_from_the_tree_to_a_pull_request() {
    let place = Place::of(WorkspaceMode::Edit).await;
    let clean = place.done("sandbox_git_status", json!({})).await;
    assert_eq!(
        (&clean["is_clean"], &clean["branch"]),
        (&json!(true), &json!("work"))
    );
    assert_eq!(clean["has_unpushed_commits"], false);

    let input = json!({"path": "README.md", "old": "hello", "new": "hello, world"});
    place.done("sandbox_str_replace", input).await;
    place
        .done("sandbox_write_file", json!({"path": "b", "content": "b\n"}))
        .await;
    let status = place.done("sandbox_git_status", json!({})).await;
    assert_eq!(
        status["changes"],
        json!([
            {"kind": "modified", "path": "README.md"},
            {"kind": "untracked", "path": "b"},
        ])
    );
    let diff = place.done("sandbox_git_diff", json!({})).await;
    let text = diff["diff"].as_str().expect("a text");
    assert!(text.contains("-hello\n+hello, world\n"), "{text}");
    assert_eq!(
        (&diff["is_empty"], &diff["is_truncated"]),
        (&json!(false), &json!(false))
    );

    let input = json!({"message": "Greet the world", "paths": ["README.md"]});
    let commit = place.done("sandbox_git_commit", input).await;
    let head = place.git(&["rev-parse", "HEAD"]).await;
    assert_eq!(commit["commit"].as_str(), Some(head.trim()));
    let status = place.done("sandbox_git_status", json!({})).await;
    assert_eq!(
        status["changes"],
        json!([{"kind": "untracked", "path": "b"}])
    );
    assert_eq!(status["has_unpushed_commits"], true);
    let since = place
        .done("sandbox_git_diff", json!({"base": "main"}))
        .await;
    assert!(
        since["diff"]
            .as_str()
            .expect("a text")
            .contains("+hello, world")
    );

    let pushed = place.done("sandbox_git_push", json!(null)).await;
    assert_eq!(
        (&pushed["branch"], &pushed["commit"]),
        (&json!("work"), &commit["commit"])
    );
    let at_origin = place.git(&["ls-remote", "origin", "refs/heads/work"]).await;
    assert!(at_origin.starts_with(head.trim()));
    let opened = place
        .done("sandbox_open_pr", json!({"title": "Greet"}))
        .await;
    assert_eq!(opened["url"], "https://example.org/pulls/5");
}

#[tokio::test]
async fn what_git_refuses_is_told() {
    let place = Place::of(WorkspaceMode::Edit).await;
    let said = place
        .refused("sandbox_git_commit", json!({"message": "Nothing"}))
        .await;
    assert!(said.contains("git failed while committing"), "{said}");
    let said = place
        .refused("sandbox_git_diff", json!({"base": "--output=x"}))
        .await;
    assert!(said.contains("not a valid"), "{said}");
}

#[tokio::test]
async fn a_long_diff_is_cut_and_says_so() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place
        .put("README.md", "line of text\n".repeat(20_000))
        .await;
    let diff = place.done("sandbox_git_diff", json!({})).await;
    assert_eq!(diff["is_truncated"], true);
    assert!(diff["diff"].as_str().expect("a text").chars().count() <= 80_000);
}

#[tokio::test]
async fn names_that_would_break_a_line_are_told_escaped() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("a\nb", "word\n").await;
    let status = place.done("sandbox_git_status", json!({})).await;
    assert_eq!(status["changes"][0]["path"], "a\\nb");
    let found = place
        .done("sandbox_search", json!({"pattern": "word"}))
        .await;
    assert_eq!(found["hits"], json!(["a\\nb:1:word"]));
}
