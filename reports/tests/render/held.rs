//! Streams held open beside the load: the page says how many each version took.

use unstall_reports::{Entry, Report, html};
use unstall_results::record::{BackgroundSamples, ErrorKind, RunRecord};
use unstall_results::synthetic::{EndpointSpec, record};

fn report(record: &RunRecord) -> Report<'_> {
    Report {
        title: "Held".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report a.json".to_owned(),
        certificate: None,
        last_state: None,
        left_open: None,
        entries: vec![Entry {
            record,
            comparison: None,
        }],
    }
}

#[test]
fn the_environment_says_how_many_streams_each_version_held() {
    let mut record = record(1, 10, 400, &[EndpointSpec::new("GET a", 40.0)]);
    for (index, block) in record.blocks.iter_mut().enumerate() {
        let open = match block.arm.as_str() {
            "before" if index < 2 => 38,
            "before" => 41,
            _ => 1_000,
        };
        block.background = Some(BackgroundSamples {
            users: 1_000,
            open_at_begin: open,
            open_at_end: open,
            errors: [(ErrorKind::Timeout, 3)].into(),
            ..BackgroundSamples::default()
        });
    }
    let page = html::render(&report(&record));
    let fact = "Streams held open</dt><dd>1\u{202F}000 asked for; open: before 38 to 41, after 1\u{202F}000";
    assert!(page.contains(fact), "{page}");
    record
        .blocks
        .iter_mut()
        .for_each(|block| block.background = None);
    let page = html::render(&report(&record));
    assert!(!page.contains("Streams held open"));
}
