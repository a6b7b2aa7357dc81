//! The arguments of `unstall calibrate`, in their raw form.

use std::path::PathBuf;

use clap::Args;

use super::{
    AbArguments, AccessArguments, BlockStartArguments, DesignArguments, PolicyArguments,
    ScenarioArguments, assignment,
};

/// `unstall calibrate`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall calibrate tunnel-github --target 'server --port {port}'\n  \
                        unstall calibrate my.toml --target http://127.0.0.1:8001 --pairs 16 \
                        --sessions 20 --out nightly\n  \
                        unstall gate ab.json --certificate unstall-calibration/calibration.json\n\n\
                        Each session is `unstall ab` with the same version twice; give the design \
                        that `ab` will have. Sessions that are in the folder already count, so that \
                        more can be added, and an interrupted calibration goes on.\n\
                        Exits 3 where the same version alarms more often than the rule allows, 4 if \
                        it was interrupted."
)]
pub(crate) struct CalibrateArguments {
    /// A scenario of the catalogue (`unstall scenarios list`) or the path of a scenario file
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    /// The version that is measured against itself: a URL, or a command that starts it
    #[arg(long, value_name = "X")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    /// Sessions in all, with those that are there [default: what fits into 10 minutes, 3 to 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) sessions: Option<u32>,
    /// Folder of the sessions' records and of calibration.json
    #[arg(long, value_name = "DIR", default_value = "unstall-calibration")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    /// Sets a variable of the scenario, over its environment variable and default
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) variables: Vec<(String, String)>,
    /// Warm-up rounds per user, at least 1 s in all; 0 for none
    #[arg(long, value_name = "N")]
    pub(crate) warmup: Option<u32>,
    #[command(flatten)]
    pub(crate) design: DesignArguments,
    #[command(flatten)]
    pub(crate) start: BlockStartArguments,
}

impl CalibrateArguments {
    /// The comparison of the version with itself; its place, label and seed are each session's.
    pub(crate) fn into_ab(self) -> AbArguments {
        AbArguments {
            scenario: ScenarioArguments {
                scenarios: vec![self.scenario],
                variables: self.variables,
                warmup: self.warmup,
                watch: false,
                label: None,
                out: None,
                exports: Vec::new(),
                // Only what an interrupted session has left is replaced.
                force: true,
            },
            before: self.target.clone(),
            after: self.target,
            access: self.access,
            design: self.design,
            start: self.start,
            certificate: None,
            policy: self.policy,
        }
    }
}
