//! The tools on files: what they answer, and which paths and sizes they refuse.

use serde_json::{Value, json};
use unstall_sandbox_core::domain::WorkspaceMode;

use crate::bench::Place;

#[tokio::test]
async fn a_file_is_read_with_line_numbers_and_in_parts() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("a", "one\ntwo\nthree\n").await;
    let whole = place.done("sandbox_read_file", json!({"path": "a"})).await;
    assert_eq!(
        whole["content"],
        "     1\tone\n     2\ttwo\n     3\tthree\n"
    );
    assert_eq!(whole["total_lines"], 3);
    assert_eq!(
        (&whole["is_truncated"], &whole["next_line"]),
        (&json!(false), &Value::Null)
    );
    let input = json!({"path": "a", "first_line": 2, "lines_max": 1});
    let part = place.done("sandbox_read_file", input).await;
    assert_eq!(part["content"], "     2\ttwo\n");
    assert_eq!(
        (&part["is_truncated"], &part["next_line"]),
        (&json!(true), &json!(3))
    );
    let said = place
        .refused("sandbox_read_file", json!({"path": "a", "first_line": 9}))
        .await;
    assert_eq!(
        said,
        "a has 3 lines, so line 9 can't be read; begin earlier"
    );
    place.put("empty", "").await;
    let empty = place
        .done("sandbox_read_file", json!({"path": "empty"}))
        .await;
    assert_eq!(
        (&empty["content"], &empty["total_lines"]),
        (&json!(""), &json!(0))
    );
}

#[tokio::test]
async fn long_files_and_bytes_that_are_no_text_are_told() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("long", "0123456789\n".repeat(10_000)).await;
    let input = json!({"path": "long", "lines_max": 100_000});
    let long = place.done("sandbox_read_file", input).await;
    assert!(long["content"].as_str().expect("a text").chars().count() <= 80_000);
    assert_eq!(long["is_truncated"], true);
    let next = long["next_line"].as_u64().expect("a line");
    let rest = json!({"path": "long", "first_line": next, "lines_max": 100_000});
    let rest = place.done("sandbox_read_file", rest).await;
    assert!(
        rest["content"]
            .as_str()
            .expect("a text")
            .starts_with(&format!("{next:>6}\t0123"))
    );
    place.put("latin1", b"gr\xfc\xdfe\n").await;
    let latin = place
        .done("sandbox_read_file", json!({"path": "latin1"}))
        .await;
    assert_eq!(
        (&latin["is_utf8"], &latin["size_bytes"]),
        (&json!(false), &json!(6))
    );
}

#[tokio::test]
async fn a_file_is_written_and_its_parts_are_replaced() {
    let place = Place::of(WorkspaceMode::Edit).await;
    let input = json!({"path": "src/new.rs", "content": "fn a() {}\nfn b() {}\n"});
    let written = place.done("sandbox_write_file", input).await;
    assert_eq!(
        (&written["is_new"], &written["size_bytes"]),
        (&json!(true), &json!(20))
    );
    let input = json!({"path": "src/new.rs", "old": "fn b()", "new": "pub fn b()"});
    let replaced = place.done("sandbox_str_replace", input).await;
    assert_eq!(
        (&replaced["replaced"], &replaced["first_line"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        place.content("src/new.rs").await,
        "fn a() {}\npub fn b() {}\n"
    );
    let twice = json!({"path": "src/new.rs", "old": "fn", "new": "async fn"});
    let said = place.refused("sandbox_str_replace", twice).await;
    assert!(said.contains("is 2 times in src/new.rs"), "{said}");
    let none = json!({"path": "src/new.rs", "old": "fn c", "new": ""});
    let said = place.refused("sandbox_str_replace", none).await;
    assert!(said.contains("isn't in src/new.rs"), "{said}");
    let all = json!({"path": "src/new.rs", "old": "fn", "new": "async fn", "replace_all": true});
    assert_eq!(place.done("sandbox_str_replace", all).await["replaced"], 2);
    assert_eq!(
        place.content("src/new.rs").await,
        "async fn a() {}\npub async fn b() {}\n"
    );
}

#[tokio::test]
async fn what_is_no_text_stays_as_it_is_beside_what_is_replaced() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("mixed", b"\xff\xfe old \xfd").await;
    let input = json!({"path": "mixed", "old": "old", "new": "new"});
    place.done("sandbox_str_replace", input).await;
    let bytes = tokio::fs::read(place.tree().join("mixed"))
        .await
        .expect("a file");
    assert_eq!(bytes, b"\xff\xfe new \xfd");
}

#[tokio::test]
async fn a_file_too_large_to_be_edited_is_left_as_it_is() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("large", vec![b'x'; 5 << 20]).await;
    let input = json!({"path": "large", "old": "x", "new": "y", "replace_all": true});
    let said = place.refused("sandbox_str_replace", input).await;
    assert!(said.contains("more than 4194304 bytes"), "{said}");
    let read = place
        .done("sandbox_read_file", json!({"path": "large"}))
        .await;
    assert_eq!(
        (&read["is_truncated"], &read["total_lines"]),
        (&json!(true), &Value::Null)
    );
}

#[tokio::test]
async fn a_replacement_that_would_take_all_memory_is_refused() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("file", vec![b'x'; 1 << 20]).await;
    let new = "y".repeat(1 << 20);
    let input = json!({"path": "file", "old": "x", "new": new, "replace_all": true});
    let said = place.refused("sandbox_str_replace", input).await;
    assert!(said.contains("would have more than"), "{said}");
}

#[tokio::test]
async fn paths_that_lead_out_are_refused_by_every_tool() {
    let place = Place::of(WorkspaceMode::Edit).await;
    for path in ["../x", "/etc/passwd", "a/../../x"] {
        for (name, input) in [
            ("sandbox_read_file", json!({"path": path})),
            ("sandbox_write_file", json!({"path": path, "content": ""})),
            (
                "sandbox_str_replace",
                json!({"path": path, "old": "a", "new": ""}),
            ),
            ("sandbox_list_dir", json!({"path": path})),
            ("sandbox_search", json!({"path": path, "pattern": "a"})),
            ("sandbox_run", json!({"cwd": path, "command": ["true"]})),
            ("sandbox_run_tests", json!({"path": path})),
            (
                "sandbox_git_commit",
                json!({"paths": [path], "message": "x"}),
            ),
        ] {
            let said = place.refused(name, input).await;
            assert!(
                said.contains("not a valid path in a tree"),
                "{name}: {said}"
            );
        }
    }
    assert!(place.commands.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn a_folder_is_listed_and_files_are_searched() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("src/a.rs", "fn main() {\n    todo();\n}\n").await;
    tokio::fs::symlink("src", place.tree().join("link"))
        .await
        .expect("a link");
    let listing = place.done("sandbox_list_dir", json!({})).await;
    assert_eq!(
        listing["entries"],
        json!([
            {"name": ".git", "kind": "folder"},
            {"name": "README.md", "kind": "file", "size_bytes": 6},
            {"name": "link", "kind": "link", "leads_to": "src"},
            {"name": "src", "kind": "folder"},
        ])
    );
    let found = place
        .done("sandbox_search", json!({"pattern": "todo|hello"}))
        .await;
    assert_eq!(
        found["hits"],
        json!(["README.md:1:hello", "src/a.rs:2:    todo();"])
    );
    assert_eq!(found["is_truncated"], false);
    let one = json!({"pattern": "TODO|HELLO", "case_sensitive": false, "hits_max": 1});
    let one = place.done("sandbox_search", one).await;
    assert_eq!(
        (&one["hits"], &one["is_truncated"]),
        (&json!(["README.md:1:hello"]), &json!(true))
    );
    let rust = json!({"pattern": "o", "glob": "*.rs"});
    let rust = place.done("sandbox_search", rust).await;
    assert_eq!(rust["files_searched"], 1);
    let said = place
        .refused("sandbox_search", json!({"pattern": "("}))
        .await;
    assert!(said.starts_with("the pattern can't be used"), "{said}");
}
