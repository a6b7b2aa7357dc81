//! Names that try to leave the syntax they are written in.

use crate::{fixture, junit_rules};

use unstall_reports::markdown::{self, Placement};
use unstall_reports::terminal::Style;
use unstall_reports::{Entry, Report, annotations, html, junit, terminal};
use unstall_results::comparison::Comparison;
use unstall_results::record::RunRecord;

fn report(compared: &(RunRecord, Comparison)) -> Report<'_> {
    let all = fixture::HOSTILE.join(" ");
    Report {
        title: all.clone(),
        generated_utc: all.clone(),
        command: all,
        certificate: None,
        last_state: None,
        left_open: None,
        entries: vec![
            Entry {
                record: &compared.0,
                comparison: Some(&compared.1),
            },
            Entry {
                record: &compared.0,
                comparison: None,
            },
        ],
    }
}

/// No control character but line feed, and nothing that reorders text.
fn assert_printable(text: &str) {
    for character in text.chars() {
        let allowed = character == '\n' || !character.is_control();
        let reorders = matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
        assert!(allowed && !reorders, "U+{:04X}", character as u32);
    }
}

#[test]
fn html_has_no_foreign_element() {
    let hostile = fixture::hostile();
    let page = html::render(&report(&hostile));
    assert_printable(&page);
    for element in ["<img", "<testcase", "</system-out"] {
        assert!(!page.contains(element), "{element}");
    }
    assert_eq!(page.matches("<style>").count(), 1);
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    // Still readable: the name is there, quoted.
    assert!(page.contains("&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;"));
}

#[test]
fn junit_stays_well_formed_and_complete() {
    let hostile = fixture::hostile();
    let xml = junit::render(&report(&hostile));
    assert_printable(&xml);
    assert_eq!(junit_rules::violations(&xml), [""; 0]);
    let document = roxmltree::Document::parse(&xml).expect("well-formed XML");
    let cases = document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
        .count();
    let judged = hostile.1.cells.iter().filter(|cell| cell.judged).count();
    let asked = hostile.1.criteria.len() + hostile.1.slos.len();
    assert_eq!(cases, 1 + judged + asked);
    let names: Vec<&str> = document
        .descendants()
        .filter_map(|node| {
            node.has_tag_name("testcase")
                .then(|| node.attribute("name"))?
        })
        .collect();
    assert!(
        names.iter().any(|name| name.contains("<script>")),
        "{names:?}"
    );
}

#[test]
fn annotations_are_one_command_a_line() {
    let hostile = fixture::hostile();
    let text = annotations::render(&report(&hostile), &anywhere);
    assert_printable(&text);
    for line in text.lines() {
        let rest = ["error", "warning", "notice"]
            .iter()
            .find_map(|level| line.strip_prefix(&format!("::{level} ")))
            .unwrap_or_else(|| panic!("not a command: {line}"));
        let (properties, message) = rest.split_once("::").expect("a message");
        for property in properties.split(',') {
            let (name, value) = property.split_once('=').expect("NAME=VALUE");
            assert!(["file", "line", "title"].contains(&name), "{name}");
            assert!(!value.contains(':'), "{value}");
        }
        let percents = message.matches('%').count();
        let escapes = message.matches("%25").count() + message.matches("%0A").count();
        assert_eq!(percents, escapes, "{message}");
    }
}

/// A checkout that has whatever is asked for.
fn anywhere(file: &str) -> Option<String> {
    Some(file.to_owned())
}

#[test]
fn markdown_tables_keep_their_columns() {
    let hostile = fixture::hostile();
    let text = markdown::render(&report(&hostile), Placement::FILE);
    assert_printable(&text);
    for element in ["<script", "<img", "</style"] {
        // Inside a code span a `<` is text; outside it must be an entity.
        for line in text.lines().filter(|line| line.contains(element)) {
            let before = &line[..line.find(element).expect("just found")];
            assert_eq!(before.matches('`').count() % 2, 1, "outside code: {line}");
        }
    }
    let mut columns = None;
    for line in text.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells = line.replace("\\|", "").matches('|').count();
        assert_eq!(*columns.get_or_insert(cells), cells, "{line}");
    }
    assert!(!text.contains("@everyone"), "a mention would notify people");
}

#[test]
fn a_terminal_gets_no_sequence_from_a_name() {
    let hostile = fixture::hostile();
    let style = Style {
        colour: false,
        width: 80,
    };
    assert_printable(&terminal::render(&report(&hostile), style));
    let coloured = terminal::render(
        &report(&hostile),
        Style {
            colour: true,
            ..style
        },
    );
    // Our own sequences only: select graphic rendition.
    for sequence in coloured.split('\u{1b}').skip(1) {
        let code: String = sequence.chars().take_while(|c| *c != 'm').collect();
        assert!(
            code.starts_with('[') && code[1..].chars().all(|c| c.is_ascii_digit() || c == ';'),
            "{code}"
        );
    }
}
