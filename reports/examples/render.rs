//! Renders a made-up measurement, to look at the page without measuring.
//!
//!     cargo run -p unstall-reports --example render -- report.html
//!
//! The ending chooses the format: `.html`, `.md`, `.csv`, `.xml` (JUnit) or `.txt`
//! (terminal). A second word chooses what is shown: `steps` (default), `judged`
//! (by the real comparison), `lasting`, `objectives`, `pass`, `inconclusive`, `invalid`, `run`, `capacity`, `migration`, `large`, `many`, `edges` or
//! `hostile`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use unstall_reports::terminal::Style;
use unstall_reports::{Entry, Report, csv, html, junit, markdown, terminal};

#[path = "../tests/render/fixture/mod.rs"]
mod fixture;

/// What can be shown.
const SHOWN: &str = "steps, judged, lasting, objectives, pass, inconclusive, invalid, run, capacity, migration, \
    large, many, edges, hostile";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or(format!(
        "usage: render FILE.(html|md|csv|xml|txt) [one of {SHOWN}]"
    ))?);
    let shown = arguments.next().unwrap_or_else(|| "steps".to_owned());
    let compared = match shown.as_str() {
        "steps" => vec![fixture::passing(), fixture::regressing()],
        "judged" => vec![fixture::judged()],
        "objectives" => vec![fixture::with_objectives()],
        "lasting" => vec![fixture::lasting()],
        "pass" => vec![fixture::passing()],
        "inconclusive" => vec![fixture::inconclusive()],
        "invalid" => vec![fixture::invalid()],
        "large" => vec![fixture::large()],
        "many" => vec![fixture::many(25_000)],
        "edges" => fixture::edges().into(),
        "hostile" => vec![fixture::hostile()],
        "migration" => fixture::migration(),
        "run" | "capacity" => Vec::new(),
        other => return Err(format!("`{other}` is none of {SHOWN}").into()),
    };
    let observed = match shown.as_str() {
        "capacity" | "migration" => fixture::searched(Some(600.0)),
        _ => fixture::observed(),
    };
    let mut entries: Vec<Entry<'_>> = compared
        .iter()
        .map(|(record, comparison)| Entry {
            record,
            comparison: Some(comparison),
        })
        .collect();
    if entries.is_empty() || shown == "migration" {
        entries.push(Entry {
            record: &observed,
            comparison: None,
        });
    }
    let report = Report {
        title: "Async migration: usage check and tunnel".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: format!(
            "cargo run -p unstall-reports --example render -- {} {shown}",
            path.display()
        ),
        certificate: None,
        last_state: (shown == "migration").then(fixture::last_state),
        left_open: None,
        entries,
    };
    let begin = Instant::now();
    let text = rendered(&report, &path)?;
    eprintln!(
        "{}: {} bytes, rendered in {:.1} ms",
        path.display(),
        text.len(),
        begin.elapsed().as_secs_f64() * 1_000.0
    );
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

/// The form that the file's suffix says.
fn rendered(report: &Report<'_>, path: &Path) -> Result<String, String> {
    let style = Style {
        colour: false,
        width: 110,
    };
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    Ok(match suffix {
        Some("html") => html::render(report),
        Some("md") => markdown::render(report, markdown::Placement::FILE),
        Some("csv") => csv::render(report),
        Some("xml") => junit::render(report),
        Some("txt") => terminal::render(report, style),
        _ => {
            let forms = "expected .html, .md, .csv, .xml or .txt";
            return Err(format!("{}: {forms}", path.display()));
        }
    })
}
