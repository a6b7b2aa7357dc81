//! How often the comparison is right on sessions of which the truth is known: the tables behind
//! every rate that the documentation quotes.
//!
//! `cargo run --release -p unstall-results --example simulate -- [--repetitions 2000] [--write]`
//!
//! With `--write` the tables go into `docs/statistics.md`, between its markers, else to stdout.
//! The seeds are always the same, and so are the counts.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints tables"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use unstall_results::policy::Policy;
use unstall_results::synthetic::naive::Rule;
use unstall_results::synthetic::simulation::{Plan, Simulation, Tally, Truth};

const PAGE: &str = "../docs/statistics.md";
const BEGIN: &str = "<!-- simulation begin -->\n";
const END: &str = "<!-- simulation end -->\n";

fn main() -> Result<(), Box<dyn Error>> {
    let mut repetitions = 200;
    let mut write = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--repetitions" => {
                let number = arguments.next().ok_or("--repetitions takes a number")?;
                repetitions = number.parse()?;
            }
            "--write" => write = true,
            other => return Err(format!("{other}: use --repetitions N or --write").into()),
        }
    }
    let start = Instant::now();
    let tables = [
        shipped(repetitions)?,
        looks(repetitions)?,
        others(repetitions)?,
    ]
    .join("\n");
    eprintln!("{repetitions} repetitions in {:?}", start.elapsed());
    if !write {
        println!("{tables}");
        return Ok(());
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let text = std::fs::read_to_string(&page)?;
    let (head, rest) = text
        .split_once(BEGIN)
        .ok_or("the page has no first marker")?;
    let (_, tail) = rest
        .split_once(END)
        .ok_or("the page has no second marker")?;
    std::fs::write(&page, format!("{head}{BEGIN}\n{tables}\n{END}{tail}"))?;
    eprintln!("written to {}", page.display());
    Ok(())
}

fn run(
    looks: &[u32],
    requests: u64,
    endpoints: usize,
    truth: Truth,
    policy: &Policy,
    repetitions: u32,
) -> Result<Tally, Box<dyn Error>> {
    let simulation = Simulation {
        plan: Plan {
            looks: looks.to_vec(),
            requests,
            endpoints,
        },
        truth,
        policy: policy.clone(),
        with_other_rules: false,
    };
    let start = Instant::now();
    let tally = simulation.run(repetitions)?;
    eprintln!(
        "{looks:?} × {requests}, {endpoints}, {}: {:?}",
        truth.describe(),
        start.elapsed()
    );
    Ok(tally)
}

fn percent(count: u32, tally: &Tally) -> String {
    format!(
        "{:.1}",
        f64::from(count) * 100.0 / f64::from(tally.sessions)
    )
}

/// `0.3 / 99.2`, and what was invalid.
fn cell(tally: &Tally) -> String {
    let mut text = format!(
        "{} / {}",
        percent(tally.regressions, tally),
        percent(tally.passes, tally)
    );
    if tally.invalid > 0 {
        text += &format!(" (invalid {})", percent(tally.invalid, tally));
    }
    text
}

const TRUTHS: [Truth; 4] = [
    Truth::Same,
    Truth::AtMargin,
    Truth::OneSlower(10),
    Truth::OneSlower(20),
];

fn shipped(repetitions: u32) -> Result<String, Box<dyn Error>> {
    let mut text = format!(
        "The shipped rule, regressions % / passes % of {repetitions} sessions in each field:\n\n\
         | pairs × requests | endpoints |"
    );
    for truth in TRUTHS {
        write!(text, " {} |", truth.describe())?;
    }
    text += "\n|---|---|---|---|---|---|\n";
    let strict = Policy {
        alpha: 0.01,
        ..Policy::default()
    };
    let usual = Policy::default();
    let plans = [
        (7, 400, &usual),
        (10, 400, &usual),
        (10, 2_000, &usual),
        (10, 2_000, &strict),
        (16, 2_000, &usual),
    ];
    for (pairs, requests, policy) in plans {
        for endpoints in [2, 6] {
            let alpha = if policy.alpha < 0.05 {
                ", α = 0.01"
            } else {
                ""
            };
            write!(text, "| {pairs} × {requests}{alpha} | {endpoints} |")?;
            for truth in TRUTHS {
                let tally = run(&[pairs], requests, endpoints, truth, policy, repetitions)?;
                write!(text, " {} |", cell(&tally))?;
            }
            text += "\n";
        }
    }
    Ok(text)
}

fn looks(repetitions: u32) -> Result<String, Box<dyn Error>> {
    let mut text = "The same with looks, and the pairs that a session took on average:\n\n\
                    | looks × requests | endpoints |"
        .to_owned();
    for truth in TRUTHS {
        write!(text, " {} |", truth.describe())?;
    }
    text += "\n|---|---|---|---|---|---|\n";
    for endpoints in [2, 6] {
        write!(text, "| 10, 16, 24 × 2000 | {endpoints} |")?;
        for truth in TRUTHS {
            let policy = Policy::default();
            let tally = run(&[10, 16, 24], 2_000, endpoints, truth, &policy, repetitions)?;
            let pairs = tally.pairs as f64 / f64::from(tally.sessions);
            write!(text, " {}, {pairs:.1} pairs |", cell(&tally))?;
        }
        text += "\n";
    }
    Ok(text)
}

/// Of the same sessions, what each rule says.
fn others(repetitions: u32) -> Result<String, Box<dyn Error>> {
    let truths = [
        Truth::Same,
        Truth::AtMargin,
        Truth::OneSlower(20),
        Truth::OneSlowerOthersFaster(20),
    ];
    let mut text = "Other rules on the same sessions of 10 × 2000 with 6 endpoints, alarms %:\n\n\
                    | rule |"
        .to_owned();
    let mut tallies = Vec::new();
    for truth in truths {
        write!(text, " {} |", truth.describe())?;
        let simulation = Simulation {
            plan: Plan {
                looks: vec![10],
                requests: 2_000,
                endpoints: 6,
            },
            truth,
            policy: Policy::default(),
            with_other_rules: true,
        };
        tallies.push(simulation.run(repetitions)?);
    }
    text += "\n|---|---|---|---|---|\n";
    let mut row = |name: &str, of: &dyn Fn(&Tally) -> String| {
        let cells: Vec<String> = tallies.iter().map(of).collect();
        text += &format!("| {name} | {} |\n", cells.join(" | "));
    };
    row("**this rule**", &|tally| percent(tally.regressions, tally));
    for rule in Rule::ALL {
        row(rule.describe(), &|tally| {
            let alarms = tally.alarms.get(&rule).copied().unwrap_or(0);
            percent(alarms, tally)
        });
    }
    row("this rule: passes", &|tally| percent(tally.passes, tally));
    row("passes, if they asked for δ instead of Δ", &|tally| {
        percent(tally.passes_at_margin, tally)
    });
    Ok(text)
}
