//! The matrix for people, in Markdown that also reads well in a terminal.

use super::canary::Nature;
use super::cell::{Cell, Recall, State};
use super::column::{Column, Program};
use super::judge::Bar;
use super::markdown::{aligned, list};
use super::suite::Findings;

/// Tables, what was named, what wasn't run, and what isn't met.
pub(crate) fn render(findings: &Findings) -> String {
    let mut text = String::new();
    let mut programs: Vec<Program> = Vec::new();
    for cell in &findings.cells {
        if !programs.contains(&cell.column.program) {
            programs.push(cell.column.program);
        }
    }
    for program in programs {
        let cells = findings.cells.iter();
        let own: Vec<&Cell> = cells
            .filter(|cell| cell.column.program == program)
            .collect();
        text.push_str(&format!("## {}\n\n", program.title()));
        if !own
            .iter()
            .all(|cell| matches!(cell.state, State::NotRun(_)))
        {
            text.push_str(&format!("{}\n", matrix(&own)));
        }
        text.push_str(&list("Named", named(&own)));
        text.push_str(&list("Not run, and why", not_run(&own)));
    }
    text.push_str(&list("Bars that are not met", findings.complaints()));
    text
}

fn matrix(cells: &[&Cell]) -> String {
    let mut columns: Vec<Column> = Vec::new();
    let mut canaries = Vec::new();
    for cell in cells {
        if !columns.contains(&cell.column) {
            columns.push(cell.column);
        }
        if !canaries.contains(&cell.canary) {
            canaries.push(cell.canary);
        }
    }
    let title = |column: &Column| format!("{}: {}", column.tier(), column.title());
    let mut rows = vec![header(columns.iter().map(title))];
    for canary in canaries {
        let mut row = vec![canary.name().to_owned()];
        for column in &columns {
            let mut own = cells.iter();
            let cell = own.find(|cell| cell.column == *column && cell.canary == canary);
            row.push(cell.map_or_else(String::new, |cell| shown(cell)));
        }
        rows.push(row);
    }
    let of = |column: &Column| {
        let own = cells.iter().filter(|cell| cell.column == *column);
        Recall::of(own.copied())
    };
    let recalls: Vec<Recall> = columns.iter().map(of).collect();
    let recall = recalls.iter().map(|recall| match recall.expected {
        0 => "–".to_owned(),
        expected => format!("{}/{expected}", recall.found),
    });
    rows.push(row_of("**found, of what had to be**", recall));
    let alarms = recalls.iter().map(|recall| match recall.clean_calls {
        0 => "–".to_owned(),
        calls => format!("{} in {calls}", recall.false_alarms),
    });
    rows.push(row_of("**false alarms**", alarms));
    aligned(&rows)
}

fn header(titles: impl Iterator<Item = String>) -> Vec<String> {
    row_of("canary", titles)
}

fn row_of(first: &str, others: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// What a cell says in a few letters; the reasons stand below the table.
fn shown(cell: &Cell) -> String {
    let is_clean = cell.canary.nature() == Nature::Clean;
    let numbers = if is_clean {
        format!("{} false", cell.false_alarms)
    } else if cell.column.bar() == Bar::NamesLongSleeps {
        format!("named {}×", cell.found)
    } else {
        format!("{}/{}", cell.found.min(cell.expected), cell.expected)
    };
    match &cell.state {
        State::Met => format!("✓ {numbers}"),
        State::Missed(_) if cell.calls == 0 => "✗ failed".to_owned(),
        State::Missed(_) => format!("✗ {numbers}"),
        State::NotJudged(_) => "–".to_owned(),
        State::NotRun(_) => "not run".to_owned(),
    }
}

fn named(cells: &[&Cell]) -> Vec<String> {
    let named = cells.iter().filter_map(|cell| {
        let name = cell.named.as_ref()?;
        let (canary, title) = (cell.canary.name(), cell.column.title());
        Some(format!("`{canary}`, {title}: {name}"))
    });
    named.collect()
}

/// Each reason once, with the columns and canaries that it is about, unless it is about all.
fn not_run(cells: &[&Cell]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        if let State::NotRun(reason) = &cell.state {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, about)) => about.push(cell),
                None => reasons.push((reason, vec![cell])),
            }
        }
    }
    let line = |(reason, about): (&str, Vec<&Cell>)| {
        if about.len() == cells.len() {
            return format!("all: {reason}");
        }
        let columns = about.chunk_by(|one, next| one.column == next.column);
        let places: Vec<String> = columns.map(|of_one| place(of_one, cells)).collect();
        format!("{}: {reason}", places.join("; "))
    };
    reasons.into_iter().map(line).collect()
}

/// A column, with its canaries unless they are all that it has.
fn place(of_one: &[&Cell], cells: &[&Cell]) -> String {
    let column = of_one[0].column;
    let in_column = cells.iter().filter(|cell| cell.column == column).count();
    if of_one.len() == in_column {
        return column.title().to_owned();
    }
    let canaries: Vec<&str> = of_one.iter().map(|cell| cell.canary.name()).collect();
    format!("{}, {}", column.title(), canaries.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::canary::Canary;
    use crate::selftest::column;

    fn cell(canary: Canary, expected: u64, found: u64, false_alarms: u64, state: State) -> Cell {
        Cell {
            calls: 10,
            expected,
            found,
            false_alarms,
            ..Cell::without_run(column::ALL[0], canary, state)
        }
    }

    #[test]
    fn the_matrix_tells_what_was_found_and_what_was_not_run() {
        let missed = State::Missed("1 false alarms in 10 requests: blocked time".to_owned());
        let reason = "no quota of CPU time can be set here".to_owned();
        let cells = vec![
            cell(Canary::Sleep, 10, 12, 0, State::Met),
            cell(
                Canary::Dns,
                0,
                0,
                0,
                State::NotJudged("too short".to_owned()),
            ),
            cell(Canary::Spin, 0, 0, 1, missed),
            Cell::without_run(column::ALL[0], Canary::SpinThrottled, State::NotRun(reason)),
        ];
        let shown = "\
## Rust, Tokio

| canary                       | 1: counters |
|------------------------------|-------------|
| sleep                        | ✓ 10/10     |
| dns                          | –           |
| spin                         | ✗ 1 false   |
| spin-throttled               | not run     |
| **found, of what had to be** | 10/10       |
| **false alarms**             | 1 in 10     |

Not run, and why:

- counters, spin-throttled: no quota of CPU time can be set here

Bars that are not met:

- Rust, Tokio, counters: spin: 1 false alarms in 10 requests: blocked time

";
        assert_eq!(render(&Findings { cells }), shown);
    }

    #[test]
    fn a_reason_for_everything_is_told_once() {
        let reason = || State::NotRun("no interpreter".to_owned());
        let of = |canary| Cell::without_run(column::ALL[0], canary, reason());
        let cells = vec![of(Canary::Sleep), of(Canary::Dns)];
        let shown = "## Rust, Tokio\n\nNot run, and why:\n\n- all: no interpreter\n\n";
        assert_eq!(render(&Findings { cells }), shown);
    }
}
