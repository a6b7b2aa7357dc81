//! What the page says of a certificate: one that fits, one of something else, none, and one that
//! nobody should trust.

use std::sync::OnceLock;

use unstall_reports::{Entry, Report, html};
use unstall_results::calibration::{Certificate, certify};
use unstall_results::compare::compare;
use unstall_results::comparison::Comparison;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{self, EndpointSpec};

use crate::fixture::HOSTILE;

/// One version against itself, as often as asked.
fn sessions(count: u64) -> Vec<RunRecord> {
    let endpoint = [EndpointSpec::new("GET a", 20.0)];
    let of_seed = |seed| {
        let mut record = synthetic::record(seed, 6, 400, &endpoint);
        let before = record.arms["before"].clone();
        record.arms.insert("after".to_owned(), before);
        record
    };
    (5_000..5_000 + count).map(of_seed).collect()
}

fn certificate() -> Certificate {
    static CERTIFICATE: OnceLock<Certificate> = OnceLock::new();
    let made = || certify(&sessions(2), &Policy::default(), 0).expect("sessions of one kind");
    CERTIFICATE.get_or_init(made).clone()
}

fn measured() -> (RunRecord, Comparison) {
    let record = synthetic::record(9, 6, 400, &[EndpointSpec::new("GET a", 20.0)]);
    let comparison = compare(&record, &Policy::default()).expect("a comparable record");
    (record, comparison)
}

fn page(
    (record, comparison): &(RunRecord, Comparison),
    certificate: Option<&Certificate>,
) -> String {
    let report = Report {
        title: "Report".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report a.json".to_owned(),
        certificate,
        last_state: None,
        left_open: None,
        entries: vec![Entry {
            record,
            comparison: Some(comparison),
        }],
    };
    html::render(&report).replace('\u{202F}', " ")
}

#[test]
fn a_certificate_that_fits_is_told_at_the_top_and_in_full_below() {
    let page = page(&measured(), Some(&certificate()));
    let alarms = "identical versions alarmed in 0 of 2 sessions here";
    assert!(
        page.split("<h2")
            .next()
            .is_some_and(|top| top.contains(alarms)),
        "{page}"
    );
    assert!(page.contains(
        "<strong>0 of 2 sessions</strong> of a version against itself were called worse"
    ));
    assert!(page.contains("Table: noise of identical versions"));
    assert!(!page.contains("Not calibrated"));
    // Its chance of no alarm in two is far from a promise, and the interval says so.
    assert!(page.contains("interval of that share: 0 % to 84"), "{page}");
}

#[test]
fn without_one_that_fits_the_page_says_how_to_get_it() {
    let none = page(&measured(), None);
    assert!(none.contains("<strong>Not calibrated.</strong>"));
    assert!(none.contains("<code>unstall calibrate synthetic</code>"));
    let mut measured = measured();
    measured.0.machine.class = "another/machine".to_owned();
    let foreign = page(&measured, Some(&certificate()));
    assert!(foreign.contains("was measured for something else"));
    assert!(foreign.contains("another/machine"), "what differs is named");
    assert!(!foreign.contains("identical versions alarmed"));
}

#[test]
fn a_machine_that_alarms_too_often_is_not_trusted() {
    let mut certificate = certificate();
    (certificate.false_alarms.count, certificate.false_alarms.of) = (4, 4);
    certificate.false_alarms.low = 0.4;
    certificate.target = HOSTILE.join(" ");
    let page = page(&measured(), Some(&certificate));
    assert!(
        page.contains(
            "<strong>Don’t trust.</strong> A version against itself alarmed here in 4 of 4"
        )
    );
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img"));
}
