//! What each format says about the same measurements, held by snapshots.

use crate::{fixture, junit_rules};

use unicode_width::UnicodeWidthStr;
use unstall_reports::markdown::{self, Placement};
use unstall_reports::terminal::Style;
use unstall_reports::{Entry, Report, annotations, csv, html, junit, terminal};
use unstall_results::compare::compare;
use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::policy::Policy;
use unstall_results::record::{BlockedTime, RunRecord};
use unstall_results::synthetic::{self, EndpointSpec};

fn report(compared: &[(RunRecord, Comparison)]) -> Report<'_> {
    Report {
        title: "Async migration".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report a.json b.json -o report.html".to_owned(),
        certificate: None,
        last_state: None,
        left_open: None,
        entries: compared
            .iter()
            .map(|(record, comparison)| Entry {
                record,
                comparison: Some(comparison),
            })
            .collect(),
    }
}

fn observed(record: &RunRecord) -> Report<'_> {
    Report {
        title: "One version".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall run usage-check --target http://127.0.0.1:8000".to_owned(),
        certificate: None,
        last_state: None,
        left_open: None,
        entries: vec![Entry {
            record,
            comparison: None,
        }],
    }
}

/// A pipeline that has checked nothing out.
fn nowhere(_: &str) -> Option<String> {
    None
}

#[test]
fn terminal_two_steps() {
    let steps = [fixture::passing(), fixture::regressing()];
    let style = Style {
        colour: false,
        width: 110,
    };
    insta::assert_snapshot!(terminal::render(&report(&steps), style));
}

#[test]
fn terminal_other_verdicts_and_one_version() {
    let others = [fixture::inconclusive(), fixture::invalid()];
    insta::assert_snapshot!(terminal::render(&report(&others), Style::default()));
    let record = fixture::observed();
    insta::assert_snapshot!(terminal::render(&observed(&record), Style::default()));
}

#[test]
fn five_pairs_do_not_claim_95_percent() {
    let endpoint = [EndpointSpec::new("GET a", 20.0)];
    for (pairs, expected) in [(5, "93.75"), (6, "95"), (10, "95")] {
        let record = synthetic::record(7, pairs, 400, &endpoint);
        let comparison = compare(&record, &Policy::default()).expect("it has two versions");
        let steps = [(record, comparison)];
        let report = report(&steps);
        let pages = [
            terminal::render(&report, Style::default()),
            markdown::render(&report, Placement::FILE),
            html::render(&report)
                .replace("its ", "")
                .replace(" signed-rank", ""),
        ];
        for page in pages {
            let page = page.replace('\u{202F}', " ");
            assert!(
                page.contains(&format!(" {expected} % interval")),
                "{pairs}: {page}"
            );
        }
    }
}

#[test]
fn terminal_keeps_to_the_width() {
    let steps = [fixture::passing(), fixture::regressing()];
    for width in [60, 72, 80, 100, 140] {
        let style = Style {
            colour: false,
            width,
        };
        let text = terminal::render(&report(&steps), style);
        for line in text.lines() {
            assert!(line.width() <= width, "{} > {width}: {line}", line.width());
        }
        assert!(text.contains("REGRESSION"));
    }
}

#[test]
fn terminal_colours_only_repeat_the_words() {
    let steps = [fixture::passing(), fixture::regressing()];
    let plain = Style::default();
    let coloured = Style {
        colour: true,
        ..plain
    };
    let text = terminal::render(&report(&steps), coloured);
    assert!(text.contains("\u{1b}["));
    let mut stripped = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find("\u{1b}[") {
        stripped.push_str(&rest[..start]);
        let end = rest[start..].find('m').expect("a sequence ends");
        rest = &rest[start + end + 1..];
    }
    stripped.push_str(rest);
    assert_eq!(stripped, terminal::render(&report(&steps), plain));
}

#[test]
fn markdown_two_steps() {
    let steps = [fixture::passing(), fixture::regressing()];
    insta::assert_snapshot!(markdown::render(&report(&steps), Placement::FILE));
}

#[test]
fn markdown_one_version() {
    let record = fixture::observed();
    insta::assert_snapshot!(markdown::render(&observed(&record), Placement::FILE));
}

#[test]
fn junit_every_verdict() {
    let all = [
        fixture::passing(),
        fixture::regressing(),
        fixture::inconclusive(),
        fixture::invalid(),
    ];
    let xml = junit::render(&report(&all));
    assert_eq!(junit_rules::violations(&xml), [""; 0]);
    let document = roxmltree::Document::parse(&xml).expect("well-formed XML");
    // The file fails exactly where the gate does.
    let suites = document
        .descendants()
        .filter(|node| node.has_tag_name("testsuite"));
    let counts = |suite: roxmltree::Node<'_, '_>| {
        let bad = ["failures", "errors"].map(|name| suite.attribute(name) != Some("0"));
        bad[0] || bad[1]
    };
    assert_eq!(
        suites.map(counts).collect::<Vec<bool>>(),
        [false, true, true, true]
    );
    // No cell of an invalid measurement passes.
    let passed_in = |suite: usize| {
        document
            .descendants()
            .filter(|node| node.has_tag_name("testsuite"))
            .nth(suite)
            .expect("four suites")
            .children()
            .filter(|node| node.has_tag_name("testcase") && !node.has_children())
            .count()
    };
    assert_eq!(passed_in(3), 0, "cells of an invalid measurement");
    insta::assert_snapshot!(xml);
}

#[test]
fn annotations_every_verdict() {
    let all = [
        fixture::passing(),
        fixture::regressing(),
        fixture::inconclusive(),
        fixture::invalid(),
    ];
    insta::assert_snapshot!(annotations::render(&report(&all), &nowhere));
}

#[test]
fn a_search_for_capacity_in_every_format() {
    for record in [fixture::searched(None), fixture::searched(Some(600.0))] {
        let report = observed(&record);
        insta::assert_snapshot!(terminal::render(&report, Style::default()));
        insta::assert_snapshot!(markdown::render(&report, Placement::FILE));
        let xml = junit::render(&report);
        assert_eq!(junit_rules::violations(&xml), [""; 0]);
        insta::assert_snapshot!(
            annotations::render(&report, &nowhere) + &xml + &csv::render(&report)
        );
        insta::assert_snapshot!(outline(&html::render(&report)));
    }
}

#[test]
fn a_page_says_of_its_intervals_and_cores_what_is_true_of_it() {
    let mut searched = fixture::searched(Some(600.0));
    searched.machine.colocated = true;
    let page = html::render(&observed(&searched));
    assert!(page.contains("of two versions the ratio is what holds"));
    assert!(!page.contains("signed-rank"));
    let compared = html::render(&report(&[fixture::passing()]));
    assert!(compared.contains("signed-rank intervals over pairs"));
    let alone = html::render(&observed(&fixture::observed()));
    assert!(!alone.contains("signed-rank"));
}

#[test]
fn html_headings_captions_and_labels() {
    let steps = [fixture::passing(), fixture::regressing()];
    insta::assert_snapshot!(outline(&html::render(&report(&steps))));
    let record = fixture::observed();
    insta::assert_snapshot!(outline(&html::render(&observed(&record))));
    insta::assert_snapshot!(outline(&html::render(&report(&[fixture::lasting()]))));
}

#[test]
fn the_course_and_the_blocks_tell_what_happened() {
    let page = html::render(&report(&[fixture::lasting()])).replace('\u{202F}', " ");
    // The second in which the first version stalled; the cut one at the end is left out.
    for row in [
        "<td class=\"n\">10</td><td class=\"n\">200</td><td class=\"n\">20</td><td class=\"n\">5</td><td class=\"n\">9.0 ms</td>",
        "<th scope=\"row\" class=\"n\">7</th><td>before</td><td class=\"n\">10</td><td class=\"n\">200</td><td class=\"n\">360</td>",
    ] {
        assert!(page.contains(row), "{row}");
    }
    assert!(
        !page.contains(
            "<th scope=\"row\" class=\"n\">12</th><td>before</td><td class=\"n\">10</td>"
        )
    );
    for told in [
        "⊘ 12 % of CPU time was stolen: use a quieter machine <small>measured again as #2</small>",
        "✓ ok <small>second try for #1</small>",
        "<td class=\"n\">1 %</td><td class=\"n\">42 %</td>",
        "<strong>Not calibrated.</strong>",
    ] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn what_no_monitor_measured_is_never_shown_as_none() {
    let mut record = fixture::observed();
    for block in &mut record.blocks {
        let monitor = block.monitor.as_mut().expect("a monitor");
        monitor.mode = "holds".to_owned();
        for seen in monitor.endpoints.values_mut() {
            seen.blocked_us = BlockedTime::default();
            (seen.blocked_us_max, seen.blocks_over_200us) = (0, 0);
            (seen.requests, seen.hold_us_sum, seen.hold_us_max) = (1_000, 7_000_000, 9_000);
        }
    }
    let page = html::render(&observed(&record));
    assert!(page.contains("blocked time is unknown"));
    assert!(!page.contains("No route blocked"));
    assert!(page.contains("<figcaption>Time that the route held the loop"));
    assert!(!page.contains("could be charged with"));
    let row = page
        .split("<tr>")
        .find(|row| row.contains("9 ms") || row.contains("9.0"));
    let row = row.expect("the longest hold is shown");
    // Blocked per 1 000, blocks, longest block.
    assert!(row.matches("–").count() >= 3, "{row}");
}

#[test]
fn html_asks_for_nothing_and_runs_one_script_of_its_own() {
    let steps = [fixture::passing(), fixture::regressing()];
    let page = html::render(&report(&steps));
    for forbidden in [
        "http://",
        "https://",
        "src=",
        "@import",
        "url(",
        "onload",
        "fetch(",
        "eval(",
        "innerHTML",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
}

#[test]
fn inconclusive_never_looks_like_a_pass() {
    let one = [fixture::inconclusive()];
    let page = html::render(&report(&one));
    assert!(page.contains("class=\"answer is-inconclusive\""));
    assert!(!page.contains("is-pass\""));
    let style = Style {
        colour: true,
        width: 100,
    };
    let text = terminal::render(&report(&one), style);
    let first = text.lines().next().expect("a first line");
    assert!(
        !first.contains("[32m") && !first.contains("[1;32m"),
        "{first}"
    );
}

#[test]
fn overall_verdict_has_one_precedence() {
    let mut all = [
        fixture::passing(),
        fixture::inconclusive(),
        fixture::regressing(),
        fixture::invalid(),
    ];
    assert_eq!(report(&all).verdict(), Some(Verdict::Invalid));
    assert_eq!(report(&all[..3]).verdict(), Some(Verdict::Regression));
    assert_eq!(report(&all[..2]).verdict(), Some(Verdict::Inconclusive));
    assert_eq!(report(&all[..1]).verdict(), Some(Verdict::Pass));
    all.reverse();
    assert_eq!(report(&all).verdict(), Some(Verdict::Invalid));
    assert_eq!(observed(&fixture::observed()).verdict(), None);
}

#[test]
fn a_real_comparison_is_shown_with_its_own_words() {
    let judged = [fixture::judged()];
    let comparison = &judged[0].1;
    assert_eq!(comparison.verdict, Verdict::Pass, "{comparison:#?}");
    let page = html::render(&report(&judged));
    for clause in comparison.headline.split("; ") {
        assert!(page.contains(&clause.replace('\'', "&#39;")), "{clause}");
    }
    let text = terminal::render(&report(&judged), Style::default());
    assert!(text.contains("✓ PASS"), "{text}");
}

#[test]
fn nothing_measured_and_huge_numbers_are_shown_in_every_format() {
    let edges = fixture::edges();
    let mut entries = report(&edges).entries;
    entries.extend(edges.iter().map(|(record, _)| Entry {
        record,
        comparison: None,
    }));
    for entries in [entries, Vec::new()] {
        let report = Report {
            entries,
            ..report(&edges)
        };
        let page = html::render(&report);
        assert!(page.ends_with("</html>\n"));
        for nonsense in ["NaN", ">inf", "−inf", "=\"inf"] {
            assert!(!page.contains(nonsense), "{nonsense}");
        }
        assert_eq!(junit_rules::violations(&junit::render(&report)), [""; 0]);
        assert!(markdown::render(&report, Placement::FILE).contains("\n# Async migration\n"));
        let lines = terminal::render(&report, Style::default()).lines().count();
        assert_eq!(lines == 0, report.entries.is_empty());
    }
}

/// The texts that give the page its structure, one a line.
fn outline(page: &str) -> String {
    let names = [
        "title",
        "h1",
        "h2",
        "h3",
        "h4",
        "caption",
        "figcaption",
        "summary",
        "dt",
        "dd",
        "thead",
    ];
    let mut out = String::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let name: String = rest
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        if !names.contains(&name.as_str()) {
            continue;
        }
        let close = format!("</{name}>");
        let (Some(open_end), Some(end)) = (rest.find('>'), rest.find(&close)) else {
            continue;
        };
        let mut text = String::new();
        let mut inside = false;
        for character in rest[open_end + 1..end].chars() {
            match character {
                '<' => {
                    inside = true;
                    if !text.ends_with(' ') {
                        text.push(' ');
                    }
                }
                '>' => inside = false,
                _ if inside => {}
                other => text.push(other),
            }
        }
        out.push_str(&format!(
            "{name}: {}\n",
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        ));
        rest = &rest[end..];
    }
    out
}
