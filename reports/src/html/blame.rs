//! Whom the stalls kept waiting: culprit × victim before and after beside each other.

use std::fmt::Write as _;

use unstall_results::blame::{BlamedArm, blamed};
use unstall_results::comparison::Metric;
use unstall_results::record::RunRecord;

use super::table;
use crate::blame::{self, Pair, pairs};
use crate::{escape, numbers, observed};

/// Rows and columns of the matrix: the worst ones.
const SIDE_MAX: usize = 8;
/// Rows of the table behind it.
const ROWS_MAX: usize = 60;
/// Sentences about single pairs.
const SENTENCES_MAX: usize = 3;

/// Writes who kept whom waiting, if a monitor told stalls.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let arms = blamed(record);
    let Some(first) = arms.first() else {
        return Ok(());
    };
    let threshold = numbers::ms_from_us(first.sum.threshold_us);
    writeln!(out, "<h4>Whom the stalls kept waiting</h4>")?;
    let pairs = pairs(&arms);
    let worst: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.worst() > 0.0).collect();
    if worst.is_empty() {
        let text = match blame::nobody(record, &arms) {
            Some(nobody) => {
                let sign = if nobody.is_of_all { "✓ " } else { "" };
                format!("{sign}No other request was kept waiting {}.", nobody.by)
            }
            None => "Nobody can be told from what is known.".to_owned(),
        };
        writeln!(out, "<p class=\"note\">{}</p>", escape::markup_prose(&text))?;
    } else {
        sentences(out, record, &arms, &worst)?;
        matrix(out, &arms, &worst)?;
        pair_table(out, &arms, &threshold)?;
    }
    notes(out, &arms)
}

fn sentences(
    out: &mut String,
    record: &RunRecord,
    arms: &[BlamedArm],
    worst: &[&Pair<'_>],
) -> std::fmt::Result {
    for pair in worst.iter().take(SENTENCES_MAX) {
        let sentence = blame::sentence(record, arms, pair);
        writeln!(
            out,
            "<p class=\"others\">{}.</p>",
            escape::markup_prose(&sentence)
        )?;
    }
    Ok(())
}

/// Names in the order in which they come up, the worst pair's first.
fn names<'p>(
    worst: &[&'p Pair<'p>],
    of: impl Fn(&'p Pair<'p>) -> &'p str,
) -> (Vec<&'p str>, usize) {
    let mut names: Vec<&str> = Vec::new();
    for pair in worst {
        let name = of(pair);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(SIDE_MAX);
    names.truncate(SIDE_MAX);
    (names, more)
}

fn matrix(out: &mut String, arms: &[BlamedArm], worst: &[&Pair<'_>]) -> std::fmt::Result {
    let (culprits, more_culprits) = names(worst, |pair| pair.culprit);
    let (victims, more_victims) = names(worst, |pair| pair.victim);
    let order = match arms {
        [before, after] => format!(
            ", {} → {}",
            escape::markup(&before.arm),
            escape::markup(&after.arm)
        ),
        _ => String::new(),
    };
    write!(
        out,
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Table\"><table class=\"blame\">\
         <caption><span>For how long a request of each column was under way while each row held the loop, all levels \
         together: ms per 1\u{202F}000 requests of the column{order}. At most so long did it wait for the row. The \
         request that holds the loop isn’t its own victim.</span>\
         </caption><thead><tr><th scope=\"col\">Held the loop</th>"
    )?;
    for victim in &victims {
        write!(
            out,
            "<th scope=\"col\" class=\"n\"><bdi>{}</bdi></th>",
            escape::markup(victim)
        )?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for culprit in &culprits {
        write!(
            out,
            "<tr><th scope=\"row\"><bdi>{}</bdi></th>",
            escape::markup(culprit)
        )?;
        for victim in &victims {
            let same = |pair: &&&Pair<'_>| pair.culprit == *culprit && pair.victim == *victim;
            let cell = worst.iter().find(same);
            let cell = cell.map_or_else(|| "–".to_owned(), |pair| cell_text(pair));
            write!(out, "<td class=\"n\">{cell}</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    table::close(out)?;
    if more_culprits + more_victims > 0 {
        writeln!(
            out,
            "<p class=\"note\">And {more_culprits} more rows and {more_victims} more columns, none with a pair worse \
             than these: see the table.</p>"
        )?;
    }
    Ok(())
}

fn cell_text(pair: &Pair<'_>) -> String {
    pair.rates().join(" <span class=\"arrow\">→</span> ")
}

fn pair_table(out: &mut String, arms: &[BlamedArm], threshold: &str) -> std::fmt::Result {
    let columns = [
        table::text("Held the loop"),
        table::text("Kept waiting"),
        table::text("Arm"),
        table::number("Requests"),
        table::number("Waited at most, per 1\u{202F}000"),
        table::number("Share of their time"),
        table::text("Last seen in"),
    ];
    writeln!(
        out,
        "<details><summary>Table: who kept whom waiting</summary>"
    )?;
    let caption = format!(
        "Holds of the loop longer than {threshold}, laid over the time of each request from its first written byte to \
         its end. Requests: those that at least one hold overlapped."
    );
    table::open(out, &caption, &columns)?;
    let mut rows: Vec<_> = arms
        .iter()
        .flat_map(|arm| arm.sum.blame.iter().map(move |blame| (arm, blame)))
        .collect();
    rows.sort_by_key(|(_, blame)| std::cmp::Reverse(blame.overlapped_us));
    for (arm, blame) in rows.iter().take(ROWS_MAX) {
        let us = blame.overlapped_us;
        let rate = arm.ms_per_1000(us, &blame.victim);
        let share = arm.share(us, &blame.victim);
        let dash = || "–".to_owned();
        let line = blame.line.as_deref();
        table::row(
            out,
            &columns,
            &[
                format!("<bdi>{}</bdi>", escape::markup(&blame.culprit)),
                format!("<bdi>{}</bdi>", escape::markup(&blame.victim)),
                escape::markup(&arm.arm),
                numbers::count(blame.requests),
                rate.map_or_else(dash, |rate| numbers::value(Metric::BlockedMsPer1000, rate)),
                share.map_or_else(dash, numbers::share),
                line.map_or_else(dash, |line| {
                    format!("<code>{}</code>", escape::markup(line))
                }),
            ],
        )?;
    }
    table::close(out)?;
    let more = rows.len().saturating_sub(ROWS_MAX);
    if more > 0 {
        writeln!(
            out,
            "<p class=\"note\">And {more} more, none longer than these.</p>"
        )?;
    }
    writeln!(out, "</details>")
}

/// What isn't in the numbers.
fn notes(out: &mut String, arms: &[BlamedArm]) -> std::fmt::Result {
    let mut notes = Vec::new();
    notes.extend(blame::doubt(arms).map(|doubt| format!("Not everything is known: {doubt}.")));
    if !arms.iter().all(BlamedArm::is_certain) {
        notes.push(
            "The service has several event loops: a request that was under way may have been served by another one \
             than that which was held."
                .to_owned(),
        );
    }
    let others = observed::total(arms.iter().map(|arm| arm.sum.blame_others_us));
    if others > 0 {
        notes.push(format!(
            "Pairs beyond those that a block keeps come to {} together.",
            numbers::ms_from_us(others)
        ));
    }
    for note in notes {
        writeln!(out, "<p class=\"note\">{}</p>", escape::markup_prose(&note))?;
    }
    Ok(())
}
