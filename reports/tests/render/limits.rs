//! Pages of many names stay pages, and percentiles of few requests stay unsaid.

use crate::browser::page;
use crate::fixture;

use unstall_reports::html;
use unstall_results::histogram::LatencyHistogram;

#[test]
fn a_hundred_endpoints_in_24_pairs_are_less_than_two_megabytes() {
    let page = page(&[fixture::large()]);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    // Every cell has its row.
    for name in ["GET resource-000", "GET resource-099"] {
        assert!(page.contains(&format!("<bdi>{name}</bdi></th>")), "{name}");
    }
    assert!(!page.contains("more cells"));
}

#[test]
fn an_hour_has_as_many_points_as_two_minutes() {
    let (mut record, comparison) = fixture::lasting();
    fixture::last_for(&mut record, 3_600);
    let page = page(&[(record, comparison)]);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let course = page.split("id=\"m1-course\"").nth(1).expect("the part");
    let table = course
        .split("Table: second by second")
        .nth(1)
        .expect("a table");
    let table = table.split("</table>").next().expect("its end");
    assert_eq!(table.matches("<tr data-k=").count(), 240);
    assert!(table.contains("Means over 30 seconds each"), "{table:.400}");
    assert!(course.contains("each point 30\u{202F}s, "));
    // Every mark has its row.
    assert!(!course.contains("data-k=\"241\""));
}

#[test]
fn objectives_on_thousands_of_endpoints_are_cut_and_counted() {
    let (record, mut comparison) = fixture::with_objectives();
    let one = comparison.slos[0].clone();
    comparison.slos.extend(std::iter::repeat_n(one, 5_000));
    let page = page(&[(record, comparison)]);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains(" more objectives, none worse than these."));
}

#[test]
fn twenty_five_thousand_names_are_grouped_and_cut() {
    let (record, comparison) = fixture::many(25_000);
    let cells = comparison.cells.len();
    let page = page(&[(record, comparison)]);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let rows = page.matches(" data-o=\"").count();
    assert_eq!(rows, 800);
    // The one that is worse is the first, whatever its place among the others.
    let first = page.split(" data-o=\"").nth(1).expect("a row");
    assert!(
        first.starts_with("worse\"><th scope=\"row\"><bdi>GET item-17000</bdi>"),
        "{first:.90}"
    );
    let left = format!("… and {} more cells", group(cells - rows));
    assert!(page.contains(&left), "{left}");
    for cut in ["24\u{202F}800 more", "24\u{202F}984 more have no chart"] {
        assert!(page.contains(cut), "{cut}");
    }
}

#[test]
fn one_version_of_many_names_is_cut_too() {
    let (record, _) = fixture::many(3_000);
    let entry = unstall_reports::Entry {
        record: &record,
        comparison: None,
    };
    let page = html::render(&crate::browser::report(vec![entry]));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("… and 5\u{202F}600 more."));
}

#[test]
fn a_percentile_needs_five_requests_beyond_it() {
    let p999_of = |requests: u64| {
        let mut record = fixture::observed();
        for samples in record.blocks[0].endpoints.values_mut() {
            let mut response = LatencyHistogram::new();
            for us in 0..requests {
                response.record_us(20_000 + us);
            }
            samples.response = response;
            samples.completed = requests;
        }
        record.blocks.truncate(1);
        let entry = unstall_reports::Entry {
            record: &record,
            comparison: None,
        };
        let page = html::render(&crate::browser::report(vec![entry]));
        let charts = page.split("id=\"m1-times\"").nth(1).expect("the part");
        let row = charts
            .split("<tr data-k=\"1\">")
            .nth(1)
            .expect("the table's row");
        let cells: Vec<&str> = row.split("<td class=\"n\">").collect();
        // n, failed, p50, p75, p90, p95, p99, p99.9, max.
        (cells[8].starts_with('–'), charts.contains(">p99.9</text>"))
    };
    assert_eq!(p999_of(4_999), (true, false));
    assert_eq!(p999_of(5_000), (false, true));
}

/// Thousands apart, as the page has them.
fn group(count: usize) -> String {
    let digits = count.to_string();
    let (thousands, rest) = digits.split_at(digits.len() - 3);
    format!("{thousands}\u{202F}{rest}")
}
