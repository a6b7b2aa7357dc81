//! The report in a terminal: per measurement the verdict, the sentence, a
//! compact aligned table with what failed first, and what to do next.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use unstall_results::comparison::{Cell, Comparison, Outcome, Verdict};
use unstall_results::level::{Level, blindness};
use unstall_results::summary::{Summary, near_the_floor, summarise};

use crate::ranking::Group;
use crate::{Entry, Report, asides, blame, capacity, escape, numbers, ranking, vocabulary};

pub mod certificate;
mod ledger;
mod objectives;
mod search;

/// How the terminal wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to send ANSI colours; they only repeat what signs and words say.
    pub colour: bool,
    /// Columns; text is wrapped and names are shortened to fit. At least 60 is used.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            colour: false,
            width: 100,
        }
    }
}

/// Renders the report as plain text with optional ANSI colours, ending in a newline.
pub fn render(report: &Report<'_>, style: Style) -> String {
    let style = Style {
        width: style.width.max(60),
        ..style
    };
    let mut page = Page {
        style,
        text: String::new(),
    };
    for entry in &report.entries {
        match entry.comparison {
            Some(comparison) => compared(&mut page, entry, comparison),
            None => match entry.capacity() {
                Some(finding) => search::write(&mut page, entry, &finding),
                None => single(&mut page, entry),
            },
        }
        page.blank();
    }
    ledger::write(&mut page, &report.ledger());
    let judged =
        |entry: &&Entry<'_>| entry.comparison.is_some() || capacity::verdict(entry).is_some();
    if report.entries.iter().filter(judged).count() > 1
        && let Some(verdict) = report.verdict()
    {
        page.line(&page.verdict(verdict, "Overall: "));
        page.wrapped("  ", vocabulary::verdict_meaning(verdict));
    }
    page.text
}

/// Collects lines.
struct Page {
    style: Style,
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(&escape::plain_spaces(line));
        self.text.push('\n');
    }

    fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A paragraph wrapped to the width, later lines indented to the text.
    fn wrapped(&mut self, label: &str, text: &str) {
        let text = escape::plain_spaces(&escape::visible_prose(text));
        let indent = " ".repeat(label.width());
        let room = self.style.width.saturating_sub(label.width()).max(20);
        for (index, line) in wrap(&text, room).iter().enumerate() {
            let lead = if index == 0 { label } else { &indent };
            self.line(&format!("{lead}{line}"));
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.style.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn verdict(&self, verdict: Verdict, before: &str) -> String {
        let code = match verdict {
            Verdict::Pass => "1;32",
            Verdict::Regression => "1;31",
            Verdict::Inconclusive => "1;33",
            Verdict::Invalid => "1;35",
        };
        let text = format!(
            "{} {before}{}",
            vocabulary::verdict_sign(verdict),
            vocabulary::verdict(verdict).to_uppercase()
        );
        self.paint(code, &text)
    }
}

fn compared(page: &mut Page, entry: &Entry<'_>, comparison: &Comparison) {
    let name = escape::visible(&entry.short_name());
    let title = match &comparison.step {
        Some(step) => format!("{name}  {}", escape::visible(&step.title)),
        None => name,
    };
    let title = shorten(&title, page.style.width.saturating_sub(18).max(20));
    page.line(&format!(
        "{}  {}",
        page.verdict(comparison.verdict, ""),
        page.paint("1", &title)
    ));
    page.wrapped("  ", &comparison.headline);
    for fault in &comparison.validity.faults {
        page.wrapped("  ⊘ ", fault);
    }
    for warning in &comparison.validity.warnings {
        page.wrapped("  ! ", warning);
    }
    // The reasons of an invalid measurement are its faults, which stand above.
    let faults = &comparison.validity.faults;
    let reasons = comparison.reasons.iter();
    for reason in reasons.filter(|reason| !faults.contains(reason)).take(3) {
        page.wrapped("  - ", reason);
    }
    page.blank();
    if objectives::write(page, comparison) {
        page.blank();
    }
    if !comparison.cells.is_empty() {
        cell_table(page, comparison);
        page.blank();
    }
    if write_asides(page, entry) {
        page.blank();
    }
    if comparison.is_only_warned() {
        page.wrapped(
            "  Only a warning: ",
            "the policy lets this end with exit code 0",
        );
    }
    page.wrapped("  Next: ", &comparison.next_action);
}

/// Bystanders and streams, a paragraph each; true if there were any.
fn write_asides(page: &mut Page, entry: &Entry<'_>) -> bool {
    let mut asides = asides::asides(entry.record);
    asides.extend(blame::aside(entry.record, 1));
    for aside in &asides {
        let label = format!("  {}: ", escape::visible(&aside.label));
        // A long name must leave room for what is said of it.
        let half = page.style.width / 2;
        let label = format!("{} ", shorten(label.trim_end(), half));
        page.wrapped(&label, &aside.text);
        if let Some(doubt) = &aside.doubt {
            page.wrapped("  ! ", doubt);
        }
    }
    !asides.is_empty()
}

/// Judged cells, then advisory ones, in one table with common columns.
fn cell_table(page: &mut Page, comparison: &Comparison) {
    let several_levels = ranking::several_levels(comparison);
    let interval = format!("{} % interval", numbers::confidence(comparison));
    let mut rows = vec![
        [
            "",
            "endpoint",
            "metric",
            "before → after",
            "change",
            interval.as_str(),
            "",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut styles = vec!["2"];
    for group in [Group::Judged, Group::Advisory] {
        for cell in ranking::cells(comparison, group) {
            rows.push(row(cell, group, several_levels));
            styles.push(colour_of(cell, group, comparison.verdict));
        }
    }
    let widths = fit(&rows, page.style.width);
    for (row, code) in rows.iter().zip(styles) {
        let line = align(row, &widths);
        let line = page.paint(code, &line);
        page.line(&line);
    }
    let unmeasured = ranking::cells(comparison, Group::Unmeasured).len();
    if unmeasured > 0 {
        page.line(&format!(
            "  {} without enough data to show",
            vocabulary::plural(numbers_u64(unmeasured), "cell", "cells")
        ));
    }
}

fn row(cell: &Cell, group: Group, several_levels: bool) -> Vec<String> {
    let (sign, words) = vocabulary::outcome(cell);
    let mut endpoint = escape::visible(vocabulary::cell_endpoint(cell));
    if several_levels {
        endpoint.push_str(&format!(" {}", compact(cell.level)));
    }
    let (change, interval) = match &cell.change {
        Some(change) => (
            numbers::change(cell.metric, change),
            numbers::interval(cell.metric, change),
        ),
        None if cell.outcome == Outcome::Pooled => (
            "–".to_owned(),
            numbers::intervals_of_both(&cell.before, &cell.after),
        ),
        None => ("–".to_owned(), "–".to_owned()),
    };
    let words = match (group, cell.outcome) {
        (_, Outcome::Pooled) => "pooled".to_owned(),
        (_, Outcome::Saturated) => words,
        (Group::Advisory, _) => "advisory".to_owned(),
        (_, Outcome::Insufficient { .. }) => "insufficient data".to_owned(),
        (
            _,
            Outcome::Inconclusive {
                pairs_needed: Some(pairs),
            },
        ) => format!("needs ~{pairs} pairs"),
        _ => words,
    };
    [
        format!("  {sign}"),
        endpoint,
        vocabulary::metric(cell.metric).replace(" per 1\u{202F}000", "/1000 req"),
        numbers::before_after(cell.metric, &cell.before, &cell.after),
        change,
        interval,
        words,
    ]
    .map(|text| escape::plain_spaces(&text))
    .to_vec()
}

/// Numbers of an invalid measurement get no colour: it would be a judgement.
fn colour_of(cell: &Cell, group: Group, verdict: Verdict) -> &'static str {
    match (group, cell.outcome) {
        _ if verdict == Verdict::Invalid => "2",
        (Group::Judged, Outcome::Regression) => "31",
        (Group::Judged, Outcome::Improvement) => "32",
        (Group::Judged, Outcome::Inconclusive { .. }) => "33",
        (Group::Judged, _) => "0",
        _ => "2",
    }
}

/// A record of one version: no verdict, a table of what was seen.
fn single(page: &mut Page, entry: &Entry<'_>) {
    let record = entry.record;
    let title = shorten(
        &format!(
            "{}  ({})",
            escape::visible(&record.label),
            escape::visible(&record.scenario.name)
        ),
        page.style.width,
    );
    let title = page.paint("1", &title);
    page.line(&title);
    let heads = [
        "  endpoint",
        numbers::level_head(&record.load),
        "requests",
        "errors",
        "p50",
        "p95",
        "p99",
        "max",
    ];
    let summaries = summarise(record);
    let table = |with_intervals: bool| -> Vec<Vec<String>> {
        let endpoints = summaries
            .iter()
            .filter(|summary| summary.endpoint.is_some());
        let rows = endpoints.map(|summary| single_row(summary, with_intervals));
        std::iter::once(heads.map(str::to_owned).to_vec())
            .chain(rows)
            .collect()
    };
    // A cut interval is worse than none, so it is all of them or none.
    let rows = Some(table(true))
        .filter(|rows| natural_width(rows) <= page.style.width)
        .unwrap_or_else(|| table(false));
    let widths = fit(&rows, page.style.width);
    for (index, row) in rows.iter().enumerate() {
        let line = page.paint(if index == 0 { "2" } else { "0" }, &align(row, &widths));
        page.line(&line);
    }
    if summaries.is_empty() {
        page.line("  no block may be used: a fault of the measurement spoilt each of them");
    }
    for service in summaries
        .iter()
        .filter(|summary| summary.endpoint.is_none())
    {
        let label = format!("  whole service, {}: ", compact(service.level));
        page.wrapped(&label, &vocabulary::whole_service(service));
        for (kind, count) in &service.errors {
            page.line(&format!(
                "  {}: {}",
                vocabulary::error_kind(*kind),
                numbers::count(*count)
            ));
        }
    }
    for near in near_the_floor(record) {
        page.wrapped("  ! ", &escape::visible(&near));
    }
    if let Some(blind) = blindness(&record.load) {
        page.wrapped("  not seen: ", blind);
    }
    write_asides(page, entry);
}

/// `c=20` or `50/s`.
fn compact(level: Level) -> String {
    level.to_string().replace(' ', "")
}

fn single_row(summary: &Summary, with_intervals: bool) -> Vec<String> {
    let endpoint = summary.endpoint.as_deref().unwrap_or_default();
    let mut row = vec![
        format!("  {}", escape::visible(endpoint)),
        numbers::level_number(summary.level),
        numbers::count(summary.requests),
        numbers::count(summary.requests - summary.completed),
    ];
    row.extend(summary.percentiles.iter().map(|percentile| {
        match numbers::percentile(&percentile.estimate) {
            Some((value, interval)) if with_intervals => format!("{value} ({interval})"),
            Some((value, _)) => value,
            None => "too few".to_owned(),
        }
    }));
    row.push(
        summary
            .response_us_max
            .map_or_else(|| "–".to_owned(), numbers::ms_from_us),
    );
    row.iter().map(|text| escape::plain_spaces(text)).collect()
}

/// What each column needs.
fn needed_widths(rows: &[Vec<String>]) -> Vec<usize> {
    (0..rows.first().map_or(0, Vec::len))
        .map(|column| {
            rows.iter()
                .map(|row| row[column].width())
                .max()
                .unwrap_or(0)
        })
        .collect()
}

/// What a table needs with two spaces between its columns.
fn natural_width(rows: &[Vec<String>]) -> usize {
    let widths = needed_widths(rows);
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Column widths: what each needs. Where that is too much, words and names are
/// shortened, then the interval goes, then names become stubs.
fn fit(rows: &[Vec<String>], width: usize) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let mut widths = needed_widths(rows);
    let name_column = usize::from(rows.first().is_some_and(|row| row[0].is_empty()));
    let last = columns.saturating_sub(1);
    let steps = [
        (last, 14),
        (name_column, 14),
        (5, 0),
        (name_column, 8),
        (2, 4),
        (last, 0),
    ];
    for (column, width_min) in steps {
        let total: usize = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
        if let Some(needed) = widths.get_mut(column) {
            let excess = total.saturating_sub(width);
            *needed = needed.saturating_sub(excess).max(width_min.min(*needed));
        }
    }
    widths
}

fn align(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (text, width) in row.iter().zip(widths) {
        if *width == 0 {
            continue;
        }
        if !line.is_empty() {
            line.push_str("  ");
        }
        let text = shorten(text, *width);
        line.push_str(&text);
        line.push_str(&" ".repeat(width.saturating_sub(text.width())));
    }
    line.trim_end().to_owned()
}

/// Cuts a text to a number of columns, with an ellipsis.
fn shorten(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        out.push(character);
    }
    out.push('…');
    out
}

/// Breaks at spaces; a word longer than the line is broken where the line ends.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let needed = word.width();
        if used > 0 && used + 1 + needed > columns {
            lines.push(String::new());
            used = 0;
        }
        if used > 0 {
            lines.last_mut().expect("one line at least").push(' ');
            used += 1;
        }
        for character in word.chars() {
            let wide = character.width().unwrap_or(0);
            if used + wide > columns {
                lines.push(String::new());
                used = 0;
            }
            lines.last_mut().expect("one line at least").push(character);
            used += wide;
        }
    }
    lines
}

fn numbers_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_by_display_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("漢字漢字", 4), ["漢字", "漢字"]);
        assert_eq!(shorten("漢字漢字", 5), "漢字…");
        assert_eq!(shorten("plain", 5), "plain");
    }
}
