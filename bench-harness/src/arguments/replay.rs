//! The command line of `unstall replay`.

use std::path::PathBuf;

use clap::Args;

/// Fewer triples can show nothing at the usual significance level.
const TRIPLES_MIN: i64 = 5;

/// `unstall replay`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall replay\n  unstall replay --quick --out /tmp/replay\n  \
                  unstall replay --steps 1,2a,3      the steps between them count as landed\n\n\
                  Each step is measured in triples of blocks: the start of the migration, the \
                  version before the step and the one behind it. A step that regresses is named and \
                  left out of all later versions. In the same --out a replay that was interrupted \
                  goes on, and what is whole there counts. Exits by the worst verdict: 0 pass, 1 a \
                  step regressed or the last version isn't proven, 3 invalid, 4 inconclusive."
)]
pub(crate) struct ReplayArguments {
    /// Eight minutes instead of sixty: steps 1, 2a, 3 and 6, fewer triples, a short warm-up, no
    /// capacity; says what it can't see
    #[arg(long)]
    pub(crate) quick: bool,
    /// Steps to replay, in the plan's order [default: all; with --quick 1,2a,3,6]
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    steps: Option<Vec<String>>,
    /// Folder for the records, the ledger and report.html
    #[arg(long, value_name = "DIR", default_value = "unstall-replay")]
    pub(crate) out: PathBuf,
    /// Blocks of each version and step [default: 10; with --quick 6]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(TRIPLES_MIN..=1_000))]
    triples: Option<u32>,
    /// Users at once, one level after the other [default: of the scenario's levels the one nearest
    /// to 20]
    #[arg(short = 'c', long, value_name = "N,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: Vec<u32>,
    /// Another plan of the reference service's steps than the shipped one
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Seed of the block order and of random values; another one each time by default
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl ReplayArguments {
    /// The steps that were asked for; `None` for all of the plan.
    pub(crate) fn steps(&self) -> Option<Vec<String>> {
        const QUICK: [&str; 4] = ["1", "2a", "3", "6"];
        // Another plan has other steps.
        let is_quick = self.quick && self.plan.is_none();
        let quick = || QUICK.iter().map(ToString::to_string).collect();
        self.steps.clone().or_else(|| is_quick.then(quick))
    }

    /// Triples of blocks per step.
    pub(crate) fn triples(&self) -> u32 {
        const USUAL: u32 = 10;
        const QUICK: u32 = 6;
        self.triples
            .unwrap_or(if self.quick { QUICK } else { USUAL })
    }

    /// The same command again.
    pub(crate) fn command_line(&self) -> String {
        let mut line = "unstall replay".to_owned();
        if self.quick {
            line.push_str(" --quick");
        }
        if let Some(steps) = &self.steps {
            line.push_str(&format!(" --steps {}", steps.join(",")));
        }
        if let Some(triples) = self.triples {
            line.push_str(&format!(" --triples {triples}"));
        }
        if !self.concurrency.is_empty() {
            let levels: Vec<String> = self.concurrency.iter().map(u32::to_string).collect();
            line.push_str(&format!(" -c {}", levels.join(",")));
        }
        if let Some(plan) = &self.plan {
            line.push_str(&format!(" --plan {}", plan.display()));
        }
        if let Some(seed) = self.seed {
            line.push_str(&format!(" --seed {seed}"));
        }
        line
    }
}
