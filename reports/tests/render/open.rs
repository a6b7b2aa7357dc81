//! Open loads in every format: levels are rates, and who can't keep up is told before anything else.

use unstall_reports::terminal::Style;
use unstall_reports::{Entry, Report, annotations, html, junit, markdown, terminal};
use unstall_results::compare::compare;
use unstall_results::comparison::Comparison;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{EndpointSpec, add_open, record, run_record};

fn saturated() -> (RunRecord, Comparison) {
    let mut record = record(1, 10, 400, &[EndpointSpec::new("GET a", 40.0)]);
    add_open(&mut record, 200, [false, true]);
    record.step = None;
    let comparison = compare(&record, &Policy::default()).expect("both arms");
    (record, comparison)
}

fn report<'r>(record: &'r RunRecord, comparison: Option<&'r Comparison>) -> Report<'r> {
    Report {
        title: "Open load".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report a.json".to_owned(),
        certificate: None,
        last_state: None,
        left_open: None,
        entries: vec![Entry { record, comparison }],
    }
}

const WIDE: Style = Style {
    colour: false,
    width: 130,
};

#[test]
fn a_version_that_can_not_keep_up_is_told_in_the_terminal() {
    let (record, comparison) = saturated();
    insta::assert_snapshot!(terminal::render(&report(&record, Some(&comparison)), WIDE));
}

#[test]
fn one_version_shows_its_rate_and_what_became_of_arrivals() {
    let mut record = run_record(1, 400, &[EndpointSpec::new("GET a", 40.0)]);
    add_open(&mut record, 200, [true, true]);
    let shown = terminal::render(&report(&record, None), WIDE);
    assert!(!shown.contains("Closed load"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn every_format_names_rate_and_saturation() {
    let (record, comparison) = saturated();
    let report = report(&record, Some(&comparison));
    let xml = junit::render(&report);
    let tree = roxmltree::Document::parse(&xml).expect("XML");
    let case = |name: &str| {
        let mut cases = tree
            .descendants()
            .filter(|node| node.has_tag_name("testcase"));
        let found = cases.find(|case| case.attribute("name").is_some_and(|of| of.contains(name)));
        found.unwrap_or_else(|| panic!("no case {name} in {xml}"))
    };
    let has = |name: &str, tag: &str| case(name).children().any(|child| child.has_tag_name(tag));
    assert!(has("200/s throughput", "failure"), "{xml}");
    // What isn't judged is no case.
    assert!(!xml.contains("GET a 200/s p95"), "{xml}");
    assert!(!has("GET a 200/s errors", "failure"), "{xml}");

    let keeps_up = "keep up with 200 arrivals per second";
    for text in [
        markdown::render(&report, markdown::Placement::FILE),
        annotations::render(&report, &|_| None),
        html::render(&report),
    ] {
        assert!(text.contains(keeps_up), "{text}");
        assert!(
            text.contains("200/s") || text.contains("200\u{202F}/s"),
            "{text}"
        );
    }
    let page = html::render(&report);
    assert!(page.contains("poisson arrivals at 200/s"), "how they came");
    assert!(page.contains(" saturated"), "what follows for the latency");
}
