//! The command line of an open load, for the commands that measure.

use clap::Args;
use unstall_scenarios::plan::Arrivals;

/// Arrivals at their own times instead of users who wait for their answers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OpenArguments {
    /// Open load: arrivals per second, whatever the answers do; one level after the other. An
    /// arrival is one pass through the scenario
    #[arg(long, value_name = "R,…", value_delimiter = ',', value_parser = rate)]
    #[arg(conflicts_with_all = ["concurrency", "requests"])]
    pub(crate) rate: Vec<f64>,
    /// The scenario's own open load instead of its closed one
    #[arg(long, conflicts_with_all = ["rate", "concurrency", "requests"])]
    pub(crate) open: bool,
    /// How arrivals are spread [default: the scenario's, or poisson]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) arrivals: Option<Spread>,
    /// Arrivals served at the same time; later ones wait, and their wait counts [default: 1000, or
    /// 100 where the scenario sets up each user]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) in_flight: Option<u32>,
}

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Spread {
    /// Exponential gaps, as independent clients make them
    Poisson,
    /// Equal gaps
    Constant,
}

impl From<Spread> for Arrivals {
    fn from(spread: Spread) -> Self {
        match spread {
            Spread::Poisson => Self::Poisson,
            Spread::Constant => Self::Constant,
        }
    }
}

/// `50`, `0.5`
fn rate(text: &str) -> Result<f64, String> {
    const RATE_MIN: f64 = 0.001;
    const RATE_MAX: f64 = 1e6;
    let rate: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number of arrivals per second, like 50"))?;
    if (RATE_MIN..=RATE_MAX).contains(&rate) {
        Ok(rate)
    } else {
        Err("a rate is between 0.001 and 1000000 arrivals per second".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_within_bounds() {
        assert_eq!(rate("50"), Ok(50.0));
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "fast", "NaN", "inf", "1e7", "50/s", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
