//! The page `docs/scenarios.md`: its examples are scenarios without mistakes, and no key is missing.

use std::path::Path;

use unstall_scenarios::{Inputs, Plan, schema};

/// What completes an example that shows a part only.
const REQUEST: &str = "[[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/\"\n";

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/scenarios.md");
    std::fs::read_to_string(path).unwrap()
}

/// The TOML blocks, with the lines on which they begin.
fn examples(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_inside = false;
    for (index, line) in page.lines().enumerate() {
        match line {
            "```toml" => {
                is_inside = true;
                found.push((index + 1, String::new()));
            }
            "```" => is_inside = false,
            line if is_inside => {
                let (_, text) = found.last_mut().unwrap();
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_example_of_the_page_is_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rows.csv"), "email\na@b.example\n").unwrap();
    std::fs::write(folder.path().join("a.png"), [0x89, b'P']).unwrap();
    let page = page();
    let examples = examples(&page);
    assert!(examples.len() >= 11, "{}", examples.len());
    for (line, example) in examples {
        let mut text = String::new();
        if !example.starts_with("name = ") {
            text.push_str("name = \"example\"\n");
        }
        text.push_str(&example);
        if !example.contains("[[request]]") {
            text.push_str(REQUEST);
        }
        let origin = folder.path().join("example.toml");
        let plan = Plan::parse(&text, &origin, &Inputs::default());
        if let Err(error) = plan {
            panic!("docs/scenarios.md:{line}: {error}\n{text}");
        }
    }
}

#[test]
fn the_page_names_every_key() {
    let page = page();
    let schema = schema::scenario();
    let definitions = schema["$defs"].as_object().unwrap().values();
    let missing: Vec<&String> = definitions
        .chain([&schema])
        .filter_map(|definition| definition["properties"].as_object())
        .flat_map(|properties| properties.keys())
        .filter(|key| {
            let forms = [
                format!("{key} = "),
                format!("[{key}]"),
                format!(".{key}]"),
                format!("[[{key}]]"),
            ];
            !forms.iter().any(|form| page.contains(form))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
