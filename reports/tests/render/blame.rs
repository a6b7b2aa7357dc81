//! Whom the stalls kept waiting, in every format.

use crate::fixture;

use unstall_reports::terminal::Style;
use unstall_reports::{Entry, Report, html, markdown, terminal};
use unstall_results::record::{Blame, RunRecord, UnderWay};
use unstall_results::synthetic::{self, EndpointSpec};

fn record() -> RunRecord {
    let spec = |name: &str, p50_ms, blocked_before_ms| EndpointSpec {
        blocked_before_ms,
        blocked_after_ms: 0.4,
        ratio: 0.2,
        ..EndpointSpec::new(name, p50_ms)
    };
    let endpoints = [
        spec("POST message", 22.0, 600.0),
        spec("GET usage", 31.0, 1_800.0),
    ];
    let mut record = synthetic::record(5, 5, 4_000, &endpoints);
    synthetic::add_stalls(&mut record);
    record
}

fn report(record: &RunRecord) -> Report<'_> {
    Report {
        title: "Stalls".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report a.json -o report.html".to_owned(),
        certificate: None,
        last_state: None,
        left_open: None,
        entries: vec![Entry {
            record,
            comparison: None,
        }],
    }
}

/// What stands between two texts, in lines.
fn section<'p>(page: &'p str, from: &str, to: &str) -> &'p str {
    let begin = page.find(from).unwrap_or_else(|| panic!("{from}: {page}"));
    let rest = &page[begin..];
    &rest[..rest.find(to).unwrap_or(rest.len())]
}

const HEADING: &str = "<h4>Whom the stalls kept waiting</h4>";

fn html_of(record: &RunRecord) -> String {
    let page = html::render(&report(record));
    section(&page, HEADING, "<h3 id=").to_owned()
}

/// The line of the text that begins with these words, joined with those that go on from it.
fn said(text: &str) -> String {
    let text = text.replace('\u{202F}', " ");
    let from = section(&text, "Kept waiting", "\n\n");
    from.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_has_sentences_a_matrix_and_a_table() {
    let page = html_of(&record());
    let charts = page.find("<div class=\"charts\">").unwrap_or(page.len());
    insta::assert_snapshot!(page[..charts].replace('\u{202F}', " "));
}

#[test]
fn the_course_shows_when_the_loop_was_held() {
    let course = |record: &RunRecord| {
        let page = html::render(&report(record));
        section(&page, "<h3 id=\"m1-course\">", "<h3 id=\"m1-trust\">").to_owned()
    };
    let title = "aria-label=\"For how long a loop was held in each second";
    let shown = course(&record());
    assert!(shown.contains(title), "{shown}");
    let table = section(&shown, "Table: second by second", "</table>");
    assert!(
        table.contains("<th scope=\"col\" class=\"n\">Loop held</th>"),
        "{table}"
    );
    // A block too short for a course has none, and what nobody told is no zero.
    let mut short = record();
    for block in &mut short.blocks {
        block.wall_ns = 2_000_000_000;
    }
    assert!(!course(&short).contains(title));
    let mut untold = record();
    for block in &mut untold.blocks {
        block.stalls = None;
    }
    let shown = course(&untold);
    assert!(
        !shown.contains(title) && !shown.contains("Loop held"),
        "{shown}"
    );
}

#[test]
fn before_the_first_known_hold_the_course_has_a_dash() {
    let mut record = record();
    for block in &mut record.blocks {
        if let Some(stalls) = &mut block.stalls {
            stalls.known_from_us = 1_000_001;
            stalls.unplaced = 7;
        }
    }
    let page = html::render(&report(&record)).replace('\u{202F}', " ");
    let table = section(&page, "Table: second by second", "</table>");
    let held_in = |second: u32| {
        let row = format!("<th scope=\"row\" class=\"n\">{second}</th>");
        let row = section(table, &row, "</tr>").to_owned();
        let cell = row.trim_end_matches("</td>").rsplit('>').next();
        cell.expect("a cell").to_owned()
    };
    assert_eq!([held_in(0), held_in(1)], ["–", "–"]);
    assert_ne!(held_in(2), "–");
    assert!(
        page.contains("shares are of the part of each block whose holds it kept"),
        "{page}"
    );
}

#[test]
fn markdown_has_the_worst_three_and_the_terminal_the_worst() {
    let record = record();
    let report = report(&record);
    insta::assert_snapshot!(said(&markdown::render(&report, markdown::Placement::FILE)));
    insta::assert_snapshot!(said(&terminal::render(&report, Style::default())));
}

#[test]
fn one_version_has_no_arrows() {
    let mut record = record();
    record.arms.remove("before");
    record.blocks.retain(|block| block.arm == "after");
    for block in &mut record.blocks {
        if let Some(stalls) = &mut block.stalls {
            stalls.blame = vec![blame("GET usage", "POST message", 5_000)];
        }
    }
    let text = said(&markdown::render(
        &report(&record),
        markdown::Placement::FILE,
    ));
    assert!(
        !text.contains('→') && text.contains("held the loop for"),
        "{text}"
    );
}

fn blame(culprit: &str, victim: &str, overlapped_us: u64) -> Blame {
    Blame {
        culprit: culprit.to_owned(),
        line: None,
        victim: victim.to_owned(),
        requests: 1,
        overlapped_us,
    }
}

#[test]
fn a_service_that_held_nobody_says_so() {
    let mut record = record();
    for block in &mut record.blocks {
        if let Some(stalls) = &mut block.stalls {
            stalls.blame.clear();
        }
    }
    let page = html_of(&record).replace('\u{202F}', " ");
    assert!(
        page.contains(
            "✓ No other request was kept waiting by a hold of the loop longer than 1.0 ms."
        ),
        "{page}"
    );
    let text = said(&markdown::render(
        &report(&record),
        markdown::Placement::FILE,
    ));
    assert!(
        text.contains("nobody else, by a hold of the loop longer than"),
        "{text}"
    );
    // What one version's monitor didn't tell isn't good news.
    for block in record
        .blocks
        .iter_mut()
        .filter(|block| block.arm == "before")
    {
        block.stalls = None;
    }
    let page = html_of(&record).replace('\u{202F}', " ");
    let words = "No other request was kept waiting by a hold of the loop longer than 1.0 ms in after (before had no \
                 monitor that tells holds).";
    assert!(
        page.contains(words) && !page.contains("✓ No other"),
        "{page}"
    );
    // Neither is what was not told of all requests.
    let told = record
        .blocks
        .iter_mut()
        .filter_map(|block| block.stalls.as_mut());
    told.for_each(|stalls| stalls.requests_untold = 1);
    assert!(html_of(&record).contains("Nobody can be told from what is known"));
}

#[test]
fn a_sentence_names_the_arm_unless_there_is_but_one() {
    let mut record = record();
    for block in record
        .blocks
        .iter_mut()
        .filter(|block| block.arm == "after")
    {
        block.stalls = None;
    }
    let text = said(&markdown::render(
        &report(&record),
        markdown::Placement::FILE,
    ));
    assert!(text.contains(" took before, "), "{text}");
}

#[test]
fn a_line_is_named_as_the_part_that_it_is() {
    let mut record = record();
    for block in &mut record.blocks {
        if let Some(stalls) = &mut block.stalls {
            let at = |us, line: Option<&str>| Blame {
                line: line.map(str::to_owned),
                ..blame("GET usage", "POST message", us)
            };
            stalls.blame = vec![at(95_000, None), at(5_000, Some("f at x.py:17"))];
        }
    }
    let text = said(&markdown::render(
        &report(&record),
        markdown::Placement::FILE,
    ));
    assert!(
        text.contains("GET usage (5 % of it at f at x.py:17) held the loop"),
        "{text}"
    );
}

#[test]
fn a_monitor_in_one_arm_says_nothing_of_the_other() {
    let quiet = || {
        let endpoints = [EndpointSpec::new("GET usage", 30.0)];
        synthetic::record(3, 5, 400, &endpoints)
    };
    let event_loop = |record: &RunRecord| {
        let page = html::render(&report(record));
        section(&page, "<h4>What held the event loop</h4>", "<details>").to_owned()
    };
    let both = event_loop(&quiet());
    assert!(
        both.contains("✓ No route blocked the loop in any arm."),
        "{both}"
    );
    let mut after_only = quiet();
    for block in after_only
        .blocks
        .iter_mut()
        .filter(|block| block.arm == "before")
    {
        block.monitor = None;
    }
    let after = event_loop(&after_only);
    assert!(
        after.contains("No route blocked the loop in after."),
        "{after}"
    );
    assert!(
        after.contains("Of before it isn’t known") && !after.contains('✓'),
        "{after}"
    );
}

#[test]
fn what_is_not_known_is_told() {
    let mut record = record();
    for block in &mut record.blocks {
        if let Some(stalls) = &mut block.stalls {
            stalls.blame.clear();
            stalls.unplaced = 12;
            stalls.placed = 0;
            // As `ab` writes it of a service with another clock.
            stalls.by_second_us.clear();
            stalls.requests_untold = 3;
            stalls.blame_others_us = 5_000;
            stalls.loops = 2;
        }
    }
    let page = html_of(&record).replace('\u{202F}', " ");
    for words in [
        "Nobody can be told from what is known",
        "120 of 120 long holds are not placed in time",
        "30 requests were not kept",
        "several event loops",
        "come to 50.0 ms together",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let whole = html::render(&report(&record));
    assert!(!whole.contains("a loop was held"), "no course of zeros");
    let text = said(&markdown::render(
        &report(&record),
        markdown::Placement::FILE,
    ));
    assert!(
        text.contains("not known") && text.contains("Warning"),
        "{text}"
    );
}

#[test]
fn many_pairs_are_capped_and_counted() {
    let mut record = record();
    for block in &mut record.blocks {
        if let Some(stalls) = &mut block.stalls {
            let pairs = (0..12).flat_map(|culprit| (0..12).map(move |victim| (culprit, victim)));
            stalls.blame = pairs
                .map(|(culprit, victim)| {
                    let us = 1_000_000 - culprit * 1_000 - victim;
                    blame(&format!("GET c{culprit}"), &format!("GET v{victim}"), us)
                })
                .collect();
            let victim = UnderWay {
                requests: 100,
                under_way_us: 9_000_000,
            };
            stalls.victims = (0..12)
                .map(|v| (format!("GET v{v}"), victim.clone()))
                .collect();
        }
    }
    let page = html_of(&record);
    assert!(
        page.contains("And 4 more rows and 4 more columns"),
        "{page}"
    );
    let matrix = section(&page, "<table class=\"blame\">", "</table>");
    assert_eq!(matrix.matches("<th scope=\"row\">").count(), 8);
    // The pairs are made in the order of their time.
    let first = matrix.split("<td class=\"n\">").nth(1).expect("a cell");
    assert!(first.starts_with("10\u{202F}s"), "{first:.60}");
    for shown in ["GET c0", "GET c7", "GET v0", "GET v7"] {
        assert!(matrix.contains(&format!("<bdi>{shown}</bdi>")), "{shown}");
    }
    assert!(!matrix.contains("GET c8<") && !matrix.contains("GET v8<"));
    assert!(
        page.contains("And 228 more, none longer than these"),
        "{page}"
    );
}

#[test]
fn hostile_names_stay_names() {
    let mut record = record();
    for block in &mut record.blocks {
        if let Some(stalls) = &mut block.stalls {
            for name in fixture::HOSTILE {
                let mut hostile = blame(name, "POST message", u64::MAX);
                hostile.line = Some(name.to_owned());
                stalls.blame.push(hostile);
            }
        }
    }
    let page = html_of(&record);
    for element in ["<script", "<img", "<testcase", "</system-out", "<style"] {
        assert!(!page.contains(element), "{element}");
    }
    assert!(
        page.chars()
            .all(|letter| letter == '\n' || !letter.is_control())
    );
    let report = report(&record);
    for text in [
        markdown::render(&report, markdown::Placement::FILE),
        terminal::render(&report, Style::default()),
    ] {
        assert!(
            text.chars()
                .all(|letter| letter == '\n' || !letter.is_control())
        );
    }
}

#[test]
fn a_record_without_stalls_has_no_such_part() {
    let mut record = record();
    for block in &mut record.blocks {
        block.stalls = None;
    }
    let report = report(&record);
    assert!(!html::render(&report).contains("stalls kept waiting"));
    assert!(!markdown::render(&report, markdown::Placement::FILE).contains("Kept waiting"));
}
