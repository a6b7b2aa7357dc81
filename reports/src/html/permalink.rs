//! Anchors that stay the same when a report is made again: of measurements by their order, of cells by
//! endpoint, metric and level.

use std::collections::HashMap;

use unstall_results::comparison::Comparison;

use crate::vocabulary;

/// Longer names are cut in an anchor, and told apart by a number.
const SLUG_CHARS_MAX: usize = 48;

/// The anchor of a measurement.
pub(super) fn measurement(index: usize) -> String {
    format!("m{}", index + 1)
}

/// The anchor of each cell, in the comparison's order: no two are the same.
pub(super) fn cells(anchor: &str, comparison: &Comparison) -> Vec<String> {
    // Name → the number that was tried last: thousands of names may begin alike.
    let mut taken: HashMap<String, u32> = HashMap::with_capacity(comparison.cells.len());
    let mut unique = |wanted: String| {
        let mut number = taken.get(&wanted).copied().unwrap_or(0);
        let name = loop {
            number += 1;
            let name = match number {
                1 => wanted.clone(),
                _ => format!("{wanted}-{number}"),
            };
            if number == 1 || !taken.contains_key(&name) {
                break name;
            }
        };
        taken.insert(wanted, number);
        // As a name of its own it is taken, too.
        taken.entry(name.clone()).or_insert(1);
        name
    };
    comparison
        .cells
        .iter()
        .map(|cell| {
            let endpoint = slug(vocabulary::cell_endpoint(cell));
            let metric = slug(vocabulary::metric(cell.metric));
            let level = slug(&cell.level.to_string());
            unique(format!("{anchor}.{endpoint}.{metric}.{level}"))
        })
        .collect()
}

/// Lower-case ASCII letters, digits and single hyphens: whatever a name is, its anchor is harmless.
fn slug(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars().take(4 * SLUG_CHARS_MAX) {
        if out.len() == SLUG_CHARS_MAX {
            break;
        }
        match character {
            letter if letter.is_ascii_alphanumeric() => out.push(letter.to_ascii_lowercase()),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    let trimmed = out.trim_end_matches('-').len();
    out.truncate(trimmed);
    if out.is_empty() {
        out.push('x');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use unstall_results::synthetic::{self, EndpointSpec};

    use super::*;

    #[test]
    fn names_that_begin_alike_have_anchors_of_their_own() {
        let endpoints = [EndpointSpec::new("GET x", 10.0)];
        let record = synthetic::record(1, 5, 40, &endpoints);
        let compared = unstall_results::compare::compare(&record, &Default::default());
        let mut comparison = compared.expect("two versions");
        let template = comparison.cells[0].clone();
        let prefix = "GET https://shop.example.com/api/v1/customers/orders";
        let mut names: Vec<String> = (0..5_000).map(|n| format!("{prefix}/{n}")).collect();
        // One that looks like another one's number.
        names.extend(["GET a", "GET a", "GET a p50 2", "GET a"].map(str::to_owned));
        comparison.cells = names
            .into_iter()
            .map(|name| {
                let mut cell = template.clone();
                cell.endpoint = Some(name);
                cell
            })
            .collect();
        let anchors = cells("m1", &comparison);
        let different: HashSet<&String> = anchors.iter().collect();
        assert_eq!(different.len(), anchors.len());
        assert_eq!(anchors, cells("m1", &comparison));
    }

    #[test]
    fn names_become_harmless_anchors() {
        assert_eq!(slug("POST /api/v1/messages"), "post-api-v1-messages");
        assert_eq!(
            slug("\"><img src=x onerror=alert(1)>"),
            "img-src-x-onerror-alert-1"
        );
        assert_eq!(slug("漢字"), "x");
        assert_eq!(slug("blocked per 1\u{202F}000"), "blocked-per-1-000");
        assert_eq!(slug(&"a".repeat(1_000)).len(), SLUG_CHARS_MAX);
    }
}
