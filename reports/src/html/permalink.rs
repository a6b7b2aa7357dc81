//! Anchors that stay the same when a report is made again: of measurements by their order, of cells by
//! endpoint, metric and level.

use std::collections::HashSet;

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
    let mut taken = HashSet::with_capacity(comparison.cells.len());
    let mut unique = |wanted: String| {
        let mut name = wanted.clone();
        let mut number = 1_u32;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}-{number}");
        }
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
    use super::*;

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
