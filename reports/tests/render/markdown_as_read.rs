//! Markdown as GitHub reads it: its own dialect is parsed, with bare links and tables, and the result
//! held against what may be in it.

use std::collections::BTreeSet;

use comrak::nodes::NodeValue;
use comrak::{Arena, Options, markdown_to_html, parse_document};
use unstall_reports::markdown::{self, Limit, Placement};
use unstall_reports::{Entry, Report};
use unstall_results::comparison::Comparison;
use unstall_results::record::RunRecord;

use crate::fixture;

/// What our Markdown is made of; a name that adds to it has left its place.
const ELEMENTS: [&str; 18] = [
    "root", "h1", "h2", "p", "ul", "li", "strong", "code", "table", "thead", "tbody", "tr", "th",
    "td", "details", "summary", "sub", "br",
];

fn dialect() -> Options<'static> {
    let mut options = Options::default();
    options.extension.autolink = true;
    options.extension.strikethrough = true;
    options.extension.table = true;
    options.extension.tasklist = true;
    options.extension.footnotes = true;
    options
}

/// As a page, in which raw HTML is left out: see [`raw_html`].
fn page(text: &str) -> String {
    format!("<root>{}</root>", markdown_to_html(text, &dialect()))
}

/// HTML that would go to the host as it stands, a line each.
fn raw_html(text: &str) -> Vec<String> {
    let arena = Arena::new();
    let root = parse_document(&arena, text, &dialect());
    let of_node = |value: &NodeValue| match value {
        NodeValue::HtmlInline(literal) => literal.clone(),
        NodeValue::HtmlBlock(block) => block.literal.clone(),
        _ => String::new(),
    };
    root.descendants()
        .flat_map(|node| {
            let literal = of_node(&node.data.borrow().value);
            literal.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|line| !line.trim().is_empty())
        .collect()
}

/// What we write ourselves: the marker, folded tables, names as code, the last line.
fn is_ours(html: &str) -> bool {
    let between = |start: &str, end: &str| {
        let inner = html
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(end));
        inner.is_some_and(|inner| !inner.contains(['<', '>']))
    };
    ["<code>", "</code>", "<sub>", "</sub>", "</details>"].contains(&html)
        || between("<!-- unstall-report: ", " -->")
        || between("<details><summary>", "</summary>")
}

/// Elements that are there, and that every row of a table is as wide as its head.
#[track_caller]
fn check(text: &str) {
    let foreign: Vec<String> = raw_html(text)
        .into_iter()
        .filter(|html| !is_ours(html))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?} in {text}");
    let page = page(text);
    let document = roxmltree::Document::parse(&page)
        .unwrap_or_else(|error| panic!("tags don't close: {error}\n{page}"));
    let elements = document.descendants().filter(roxmltree::Node::is_element);
    let names: BTreeSet<&str> = elements.map(|node| node.tag_name().name()).collect();
    let foreign: Vec<&&str> = names
        .iter()
        .filter(|name| !ELEMENTS.contains(name))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?} in {page}");
    for table in document
        .descendants()
        .filter(|node| node.has_tag_name("table"))
    {
        let mut widths = table
            .descendants()
            .filter(|node| node.has_tag_name("tr"))
            .map(|row| row.children().filter(|cell| cell.is_element()).count());
        let head = widths.next().expect("a head");
        assert!(widths.all(|width| width == head));
    }
    // No row was left outside of its table.
    let stray = document
        .descendants()
        .filter(|node| node.has_tag_name("p"))
        .filter_map(|node| node.text())
        .find(|text| {
            ['✓', '✕', '?', '=', '·']
                .iter()
                .any(|sign| text.starts_with(&format!("| {sign} |")))
        });
    assert_eq!(stray, None);
}

fn report<'a>(compared: &'a [(RunRecord, Comparison)]) -> Report<'a> {
    let entries = compared.iter().map(|(record, comparison)| Entry {
        record,
        comparison: Some(comparison),
    });
    Report {
        title: "Latency gate".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall gate ab.json".to_owned(),
        entries: entries.collect(),
        certificate: None,
        last_state: None,
        left_open: None,
    }
}

fn within(report: &Report<'_>, limit: Limit) -> String {
    markdown::render(
        report,
        Placement {
            limit,
            marker: None,
        },
    )
}

#[test]
fn names_are_text_and_nothing_else() {
    let hostile = [fixture::hostile()];
    let text = within(&report(&hostile), Limit::None);
    check(&text);
    for live in ["@everyone", " #1", "https://", "www.evil"] {
        assert!(!text.contains(live), "{live}");
    }
    check(&within(&report(&hostile), Limit::Comment));
}

/// Every text of a comparison, one at a time, is each of these.
#[test]
fn nothing_in_a_text_becomes_markup() {
    let texts = [
        "https://evil.example/x",
        "www.evil.example",
        "evil@example.com",
        "![x](https://evil.example/x.png)",
        "[x](https://evil.example)",
        "<https://evil.example>",
        "<img src=x>",
        "</details></sub><!--",
        "[^1]\n\n[^1]: note",
        "| a | b |\n|---|---|\n| c | d |",
        "- [ ] task",
        "1. one",
        "# head",
        "> quote",
        "    code",
        "---",
        "```",
        "a\\",
        "&lt;b&gt;&#64;everyone",
        "~~gone~~ **bold** _slanted_ $x$",
        "/close",
    ];
    for text in texts {
        let (mut record, mut comparison) = fixture::regressing();
        let text = text.to_owned();
        record.label.clone_from(&text);
        comparison.headline.clone_from(&text);
        comparison.next_action.clone_from(&text);
        comparison.reasons = vec![text.clone()];
        comparison.blind_spots = vec![text.clone()];
        comparison.validity.warnings = vec![text.clone()];
        for criterion in &mut comparison.criteria {
            criterion.found.clone_from(&text);
        }
        for cell in &mut comparison.cells {
            cell.note = Some(text.clone());
            cell.endpoint = Some(text.clone());
        }
        let compared = [(record, comparison)];
        let written = within(&report(&compared), Limit::Comment);
        check(&written);
        assert!(
            written.lines().all(|line| !line.starts_with('/')),
            "an order to a bot: {written}"
        );
        // It can still be read.
        let page = page(&written);
        let document = roxmltree::Document::parse(&page).expect("checked");
        let shown: String = document
            .descendants()
            .filter_map(|node| node.text())
            .collect();
        let plain = shown.replace('\u{2060}', "");
        assert!(
            plain.contains(text.split('\n').next().unwrap().trim()),
            "{text}: {plain}"
        );
    }
}

#[test]
fn the_answer_stands_first() {
    let compared = [fixture::regressing()];
    let text = within(&report(&compared), Limit::Comment);
    let places: Vec<usize> = [
        "<!-- unstall-report: tunnel -->\n",
        "## ✕ regression: Step 3",
        "GET socket-status p95 13.2 → 17.1 ms",
        "- **Valid:** 10",
        "- **Worst:** `GET socket-status`",
        "- **Next:** Look at",
        "| | endpoint |",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(places[0], 0);
}

#[test]
fn a_marker_stays_one_comment() {
    let compared = [fixture::regressing()];
    let report = report(&compared);
    let first_line = |marker| {
        let limit = Limit::Comment;
        let text = markdown::render(&report, Placement { limit, marker });
        text.lines().next().expect("a line").to_owned()
    };
    assert_eq!(
        first_line(Some("linux x86")),
        "<!-- unstall-report: linux x86 -->"
    );
    let hostile = first_line(Some("a --> <b>\n@x --- é"));
    assert_eq!(hostile, "<!-- unstall-report: a -__ _b___x -_- _ -->");
}

/// A hundred endpoints, and thousands: each place gets what it takes, and is told what is missing.
#[test]
fn limits_are_kept_and_what_is_left_out_is_counted() {
    let large = [fixture::large()];
    let comment = within(&report(&large), Limit::Comment);
    assert!(comment.chars().count() <= 64_000);
    check(&comment);
    let everything = within(&report(&large), Limit::None);
    assert!(everything.contains("GET resource-099"));
    assert!(everything.contains("<details><summary>375 more, none worse than these</summary>"));
    assert!(!everything.contains("… and"));
    check(&everything);

    let (record, mut comparison) = fixture::large();
    let one = comparison.cells.clone();
    for copy in 1..50 {
        comparison.cells.extend(one.iter().cloned().map(|mut cell| {
            cell.endpoint = cell.endpoint.map(|name| format!("{name} of {copy}"));
            cell
        }));
    }
    comparison.reasons = (0..5_000).map(|n| format!("Reason {n}.")).collect();
    let huge = [(record, comparison)];
    let summary = within(&report(&huge), Limit::StepSummary { bytes_taken: 1_000 });
    assert!(summary.len() <= 1_048_576 - 1_000);
    assert!(summary.len() > 100_000, "{}", summary.len());
    assert!(
        summary.contains("… and 19000 more, none worse than these."),
        "{summary}"
    );
    check(&summary);
    let comment = within(&report(&huge), Limit::Comment);
    assert!(comment.chars().count() <= 64_000);
    assert!(comment.contains("- … and 4975 more"), "{comment}");
    check(&comment);
}

#[test]
fn of_many_measurements_the_worst_stay() {
    // Records without blocks: only conclusions are counted here.
    let (record, mut passing) = fixture::passing();
    let record = RunRecord {
        blocks: Vec::new(),
        ..record
    };
    passing.reasons = vec!["A reason that says the same of each of them.".repeat(4)];
    let mut many = vec![(record.clone(), passing); 400];
    many[300] = (record, fixture::regressing().1);
    let text = within(&report(&many), Limit::Comment);
    assert!(text.chars().count() <= 64_000);
    assert!(text.contains("## ✕ regression: Step 3"), "{text}");
    assert!(text.contains("more measurements, with no worse verdict than these."));
    check(&text);
    // A step summary of which nearly all is taken still gets the answer.
    let bytes_taken = 1_048_576 - 400;
    let short = within(&report(&many), Limit::StepSummary { bytes_taken });
    assert!(short.len() <= 400);
    assert!(short.contains("**✕ regression**"));
    // More than fits would lose everything that stands there.
    for left in [0, 20] {
        let bytes_taken = 1_048_576 - left;
        let nothing = markdown::render(
            &report(&many),
            Placement {
                limit: Limit::StepSummary { bytes_taken },
                marker: None,
            },
        );
        assert_eq!(nothing, "");
    }
}
