//! What a search finds, what it leaves out, and when it stops.

use std::time::{Duration, Instant};

use unstall_sandbox_core::domain::TreePath;
use unstall_sandbox_core::ports::files::{FileAccess, FilesError, SearchFound, SearchRequest};

use super::{Grounds, mkfifo, path};

fn request(pattern: &str) -> SearchRequest {
    SearchRequest {
        pattern: pattern.to_owned(),
        glob: None,
        is_case_sensitive: true,
        within: TreePath::root(),
        hits_max: 100,
        time_max: Duration::from_secs(60),
    }
}

async fn found(grounds: &Grounds, request: SearchRequest) -> SearchFound {
    grounds.files.search(request).await.expect("a search")
}

fn lines(found: &SearchFound) -> Vec<String> {
    let line = |hit: &unstall_sandbox_core::ports::files::Hit| {
        format!("{}:{}:{}", hit.path, hit.line, hit.snippet)
    };
    found.hits.iter().map(line).collect()
}

#[tokio::test]
async fn lines_are_found_by_path_and_number() {
    let grounds = Grounds::new().await;
    grounds.put("b.rs", "fn one() {}\nfn two() {}\r\n");
    grounds.put("a/c.rs", "// fn\nlet fn_1 = 1;");
    grounds.put(".hidden", "fn");
    let all = found(&grounds, request(r"\bfn\b")).await;
    assert_eq!(
        lines(&all),
        [
            ".hidden:1:fn",
            "a/c.rs:1:// fn",
            "b.rs:1:fn one() {}",
            "b.rs:2:fn two() {}"
        ]
    );
    assert!(!all.is_truncated && !all.is_out_of_time);
    assert_eq!((all.files_searched, all.skipped), (3, 0));
}

#[tokio::test]
async fn glob_case_and_place_narrow_a_search() {
    let grounds = Grounds::new().await;
    for name in ["a.rs", "a.py", "deep/b.rs", "target/c.rs"] {
        grounds.put(name, "Word");
    }
    let with = |glob: &str| SearchRequest {
        glob: Some(glob.to_owned()),
        ..request("Word")
    };
    assert_eq!(
        lines(&found(&grounds, with("*.rs")).await),
        ["a.rs:1:Word", "deep/b.rs:1:Word", "target/c.rs:1:Word"]
    );
    assert_eq!(
        lines(&found(&grounds, with("!target/")).await),
        ["a.py:1:Word", "a.rs:1:Word", "deep/b.rs:1:Word"]
    );
    assert!(found(&grounds, request("word")).await.hits.is_empty());
    let any_case = SearchRequest {
        is_case_sensitive: false,
        within: path("deep"),
        ..request("word")
    };
    assert_eq!(
        lines(&found(&grounds, any_case).await),
        ["deep/b.rs:1:Word"]
    );
    let one_file = SearchRequest {
        within: path("a.py"),
        ..request("Word")
    };
    assert_eq!(lines(&found(&grounds, one_file).await), ["a.py:1:Word"]);
}

#[tokio::test]
async fn ignore_files_hold_git_is_left_out_and_links_are_not_followed() {
    let grounds = Grounds::new().await;
    grounds.put(".gitignore", "/target\n*.log\n!kept.log\n");
    grounds.put("deep/.gitignore", "local\n");
    for name in [
        "target/x",
        "a.log",
        "kept.log",
        "deep/target/x",
        "deep/local",
        "deep/b.log",
        ".git/config",
        "local",
    ] {
        grounds.put(name, "word");
    }
    grounds.link("out", "../outside");
    grounds.link("alias", "local");
    grounds.link("deep/.ignore", "../../outside/secret");
    let searched = lines(&found(&grounds, request("word|secret")).await);
    assert_eq!(
        searched,
        ["deep/target/x:1:word", "kept.log:1:word", "local:1:word"]
    );
    let below = SearchRequest {
        within: path("deep"),
        ..request("word")
    };
    assert_eq!(
        lines(&found(&grounds, below).await),
        ["deep/target/x:1:word"]
    );
    let by_name = SearchRequest {
        within: path("target"),
        ..request("word")
    };
    assert_eq!(lines(&found(&grounds, by_name).await), ["target/x:1:word"]);
    let out = SearchRequest {
        within: path("out"),
        ..request("secret")
    };
    assert!(grounds.files.search(out).await.is_err());
}

#[tokio::test]
async fn binary_files_pipes_and_endless_lines_hold_nothing_up() {
    let grounds = Grounds::new().await;
    grounds.put("binary", b"\0\0 word\n");
    grounds.put("latin1", b"gr\xfc word\n");
    grounds.put("long", "x".repeat(3_000_000));
    mkfifo(&grounds.tree().join("pipe"));
    mkfifo(&grounds.tree().join(".gitignore"));
    let all = found(&grounds, request("word")).await;
    assert_eq!(lines(&all), ["latin1:1:gr\u{fffd} word"]);
    assert_eq!((all.files_searched, all.skipped), (3, 1));
    grounds.put("wide", format!("word{}", "ä".repeat(1000)));
    let wide = SearchRequest {
        within: path("wide"),
        ..request("word")
    };
    let hit = found(&grounds, wide).await.hits.remove(0);
    assert!(hit.snippet.chars().count() == 301 && hit.snippet.ends_with('…'));
}

#[tokio::test]
async fn a_search_ends_with_enough_hits_or_with_its_time() {
    let grounds = Grounds::new().await;
    grounds.put("many", "word\n".repeat(1000));
    let exactly = SearchRequest {
        hits_max: 1000,
        ..request("word")
    };
    assert!(!found(&grounds, exactly).await.is_truncated);
    let some = SearchRequest {
        hits_max: 10,
        ..request("word")
    };
    let some = found(&grounds, some).await;
    assert!(some.is_truncated && some.hits.len() == 10);
    let no_time = SearchRequest {
        time_max: Duration::ZERO,
        ..request("word")
    };
    let none = found(&grounds, no_time).await;
    assert!(none.is_out_of_time && none.hits.is_empty());
}

#[tokio::test]
async fn what_is_no_pattern_is_told_with_the_reason() {
    let grounds = Grounds::new().await;
    let bad_glob = SearchRequest {
        glob: Some("a{".to_owned()),
        ..request("x")
    };
    let too_large = request(r"\w{1000}{1000}{1000}");
    for (bad, part) in [
        (request("a("), "pattern"),
        (too_large, "pattern"),
        (bad_glob, "glob"),
    ] {
        let Err(FilesError::Pattern { what, reason }) = grounds.files.search(bad).await else {
            panic!("it was taken");
        };
        assert!(what == part && !reason.is_empty());
    }
    let nowhere = SearchRequest {
        within: path("none"),
        ..request("x")
    };
    let refused = grounds.files.search(nowhere).await;
    assert!(
        matches!(refused, Err(FilesError::NotFound { .. })),
        "{refused:?}"
    );
}

/// The pool has few threads: what nobody waits for must give its thread back.
#[tokio::test]
async fn a_dropped_search_gives_its_thread_back() {
    let grounds = Grounds::new().await;
    grounds.put("0", "line\n".repeat(200_000));
    // One megabyte on the disk, and minutes to search.
    for number in 1..20_000 {
        let link = grounds.tree().join(number.to_string());
        std::fs::hard_link(grounds.tree().join("0"), link).expect("a hard link");
    }
    for _ in 0..8 {
        let search = grounds.files.search(SearchRequest {
            time_max: Duration::from_secs(3600),
            ..request("word")
        });
        let given_up = tokio::time::timeout(Duration::from_millis(20), search).await;
        assert!(given_up.is_err());
    }
    let asked = Instant::now();
    grounds.files.stat(path("0")).await.expect("told");
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
}
