//! Histograms as HdrHistogram's interval log, version 1.3: what HistogramLogAnalyzer, the log
//! processors of the Java, Python and JavaScript libraries and many plotting tools read.
//!
//! Values are nanoseconds, as those tools take for granted; the column of maxima is in
//! milliseconds, as they print it. A tag tells endpoint, version and level apart.

use std::fmt::Write as _;

use anyhow::Context;
use jiff::Timestamp;
use unstall_results::level::Level;

use super::Row;

pub(super) fn head(now: Timestamp) -> String {
    let seconds = epoch_seconds(now);
    format!(
        "#[Written by unstall: response times from the intended moment, in nanoseconds]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {seconds:.3} (seconds since epoch), {now}]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    )
}

pub(super) fn rows(rows: &[Row<'_>]) -> anyhow::Result<String> {
    let mut text = String::new();
    // A block that our own side spoilt is measured again, and nothing here would tell them apart.
    let sound = rows.iter().filter(|row| row.is_valid);
    for row in sound.filter(|row| !row.second.response.is_empty()) {
        let response = &row.second.response;
        let histogram = response
            .encode_ns()
            .context("a histogram could not be written; this is a fault of unstall")?;
        let longest_us = response.max_us().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "printed with three decimals")]
        let longest_ms = longest_us as f64 / 1e3;
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "Tag={},{:.3},{:.3},{longest_ms:.3},{histogram}",
            tag(row),
            epoch_seconds(row.begun),
            row.whole.unwrap_or(1.0)
        );
    }
    Ok(text)
}

/// `GET_usage`, `before:GET_usage@c=20`. A tag ends at a comma, and readers split at blanks.
fn tag(row: &Row<'_>) -> String {
    let mut tag = String::new();
    if row.compares {
        tag = format!("{}:", row.arm);
    }
    tag.push_str(row.endpoint);
    if row.several_levels {
        match row.level {
            Level::Users(users) => tag.push_str(&format!("@c={users}")),
            rate @ Level::MilliRate(_) => tag.push_str(&format!("@{rate}")),
            Level::Unknown => {}
        }
    }
    let plain = |c: char| c != ',' && c != '"' && !c.is_whitespace() && !c.is_control();
    tag.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}

fn epoch_seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}
