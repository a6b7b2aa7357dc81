//! CSV as its readers take it: parsed again, every field is what it was or says why not.

use unstall_reports::{Entry, Report, csv};
use unstall_results::comparison::Comparison;
use unstall_results::record::RunRecord;

use crate::fixture;

fn report<'a>(record: &'a RunRecord, comparison: Option<&'a Comparison>) -> Report<'a> {
    Report {
        title: "Cells".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report ab.json --format csv".to_owned(),
        entries: vec![Entry { record, comparison }],
        certificate: None,
        last_state: None,
        left_open: None,
    }
}

/// Rows by column, of a strict reader.
fn rows(text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows = reader.deserialize();
    rows.map(|row| row.expect("as many fields as columns"))
        .collect()
}

#[test]
fn every_cell_is_a_row_with_its_numbers() {
    let (record, comparison) = fixture::regressing();
    let text = csv::render(&report(&record, Some(&comparison)));
    assert!(text.ends_with("\r\n"));
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    insta::assert_snapshot!(text.replace("\r\n", "\n"));
    let rows = rows(&text);
    assert_eq!(rows.len(), comparison.cells.len());
    for (row, cell) in rows.iter().zip(&comparison.cells) {
        assert_eq!(row["endpoint"], cell.endpoint.clone().unwrap_or_default());
        assert_eq!(row["metric"], cell.metric.name());
        let number = |column: &str| row[column].parse::<f64>().ok();
        assert_eq!(number("before"), cell.before.value);
        assert_eq!(number("after_high"), cell.after.high);
        let change = cell.change.as_ref();
        assert_eq!(number("change_low"), change.map(|change| change.low));
    }
    let columns: Vec<String> = csv::COLUMNS.map(str::to_owned).to_vec();
    assert_eq!(text.lines().next(), Some(columns.join(",").as_str()));
}

#[test]
fn no_name_is_a_formula_and_none_is_lost() {
    let names = [
        "=HYPERLINK(\"x\")",
        "+1",
        "-1",
        "@SUM(A1)",
        " =1",
        "\t=1",
        "a,\"b\"\r\nc",
        "plain",
    ];
    let (mut record, mut comparison) = fixture::regressing();
    record.label = "=cmd|' /C calc'!A0".to_owned();
    for (cell, name) in comparison.cells.iter_mut().zip(names) {
        cell.endpoint = Some(name.to_owned());
        cell.note = Some(name.to_owned());
    }
    let text = csv::render(&report(&record, Some(&comparison)));
    let rows = rows(&text);
    let numbers = [
        "before",
        "after",
        "change",
        "bound",
        "p_",
        "minimum",
        "confidence",
    ];
    for row in &rows {
        for (column, field) in row {
            let is_number = numbers.iter().any(|of| column.contains(of));
            let begins = field.trim_start().chars().next();
            let is_formula = begins.is_some_and(|first| "=+-@".contains(first));
            assert!(
                !is_formula || is_number && field.parse::<f64>().is_ok(),
                "{column}: {field}"
            );
        }
    }
    let named: Vec<&str> = rows
        .iter()
        .take(names.len())
        .map(|row| row["endpoint"].as_str())
        .collect();
    let expected = [
        "'=HYPERLINK(\"x\")",
        "'+1",
        "'-1",
        "'@SUM(A1)",
        "' =1",
        "' =1",
        "a,\"b\"  c",
        "plain",
    ];
    assert_eq!(named, expected);
    assert_eq!(rows[0]["label"], "'=cmd|' /C calc'!A0");
}

#[test]
fn one_version_fills_the_columns_of_the_second() {
    let record = fixture::observed();
    let rows = rows(&csv::render(&report(&record, None)));
    assert_eq!(rows.len(), 2 * 3, "p50, p95 and p99 of two endpoints");
    for row in &rows {
        assert_eq!((row["verdict"].as_str(), row["before"].as_str()), ("", ""));
        let p99 = row["metric"] == "response_p99";
        assert_eq!(row["outcome"] == "insufficient", p99, "{row:?}");
        assert_eq!(row["users"], "20");
    }
}
