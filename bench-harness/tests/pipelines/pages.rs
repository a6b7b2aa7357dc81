//! The page about pipelines: its examples are held against the same rules as the files in `ci/`.

use crate::gitlab;
use crate::stage::{read, repository, yaml};

/// The blocks of a language, as indented or fenced in the page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let pieces = page.split(&fence).skip(1);
    pieces
        .map(|piece| piece.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn examples_of_the_page_are_workflows_that_name_what_there_is() {
    let page = read(&repository("docs/ci.md"));
    let action = yaml(&read(&repository("ci/github/action.yml")));
    let inputs = action["inputs"].as_object().expect("inputs");
    let outputs = action["outputs"].as_object().expect("outputs");
    let (mut used, mut included) = (0, 0);
    for block in blocks(&page, "yaml") {
        let tree = yaml(&block);
        let Some(jobs) = tree["jobs"].as_object() else {
            included += 1;
            if tree.get("include").is_none() {
                assert_eq!(gitlab::violations(&tree), [""; 0], "{block}");
            }
            continue;
        };
        assert!(!tree["on"].is_null(), "{block}");
        let steps = jobs
            .values()
            .filter_map(|job| job["steps"].as_array())
            .flatten();
        for step in steps {
            let uses = step["uses"].as_str().unwrap_or_default();
            if !uses.contains("/ci/github@") {
                continue;
            }
            used += 1;
            for input in step["with"].as_object().expect("inputs").keys() {
                assert!(inputs.contains_key(input), "{input} in {block}");
            }
        }
        for name in block.split("steps.gate.outputs.").skip(1) {
            let name: String = name
                .chars()
                .take_while(|letter| letter.is_ascii_lowercase() || *letter == '-')
                .collect();
            assert!(outputs.contains_key(&name), "{name} in {block}");
        }
    }
    assert!(used > 0 && included > 0, "the page has examples of both");
    // Every input and output is explained.
    for name in inputs.keys().chain(outputs.keys()) {
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not on the page"
        );
    }
}

#[test]
fn the_page_names_every_column_of_the_rows() {
    let page = read(&repository("docs/ci.md"));
    for column in unstall_reports::csv::COLUMNS {
        assert!(page.contains(&format!("`{column}`")), "{column}");
    }
}
