//! The arguments of `unstall capacity`, in their raw form.

use std::time::Duration;

use clap::Args;

use super::{AccessArguments, BlockStartArguments, ScenarioArguments, Spread, duration};

/// The lowest rate: one arrival in the longest block.
pub(crate) const RATE_MIN: f64 = 0.02;

/// `unstall capacity`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall capacity my.toml --target http://127.0.0.1:8000 \
                        --slo 'p95<200ms,errors<0.1%'\n  \
                        unstall capacity my.toml --before 'old --port {port}' \
                        --after 'new --port {port}' --slo 'POST message:ttft.p95<1s'\n\n\
                        Measures of an objective: p50, p95, p99.9, max; ttft.p95 of streams; \
                        errors. Without an endpoint, times are those of each endpoint by itself.\n\
                        A rate is the number of arrivals per second; each is one pass through the \
                        scenario. With two versions it exits 1 if the new one can take less."
)]
pub(crate) struct CapacityArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    /// What must hold, like 'p95<200ms,errors<0.1%'
    #[arg(long, value_name = "SLO")]
    pub(crate) slo: String,
    /// The service: a URL, or a command that starts it
    #[arg(long, value_name = "X", required_unless_present_any = ["before", "after"])]
    #[arg(conflicts_with_all = ["before", "after"])]
    pub(crate) target: Option<String>,
    /// Instead: the old version, a URL or a command
    #[arg(long, value_name = "X", requires = "after")]
    pub(crate) before: Option<String>,
    /// The new version, a URL or a command
    #[arg(long, value_name = "Y", requires = "before")]
    pub(crate) after: Option<String>,
    /// First rate, arrivals per second
    #[arg(long, value_name = "RATE", default_value_t = 10.0, value_parser = rate)]
    pub(crate) from: f64,
    /// No higher rate than this
    #[arg(long, value_name = "RATE", default_value_t = 50_000.0, value_parser = rate)]
    pub(crate) to: f64,
    /// Half the width of the interval to aim at
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) precision: f64,
    /// Length of a block; near the capacity longer if a percentile needs more requests
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) block: Duration,
    /// Blocks of each version at most
    #[arg(long, value_name = "N", default_value_t = 40)]
    #[arg(value_parser = clap::value_parser!(u32).range(4..=400))]
    pub(crate) blocks: u32,
    /// How arrivals are spread [default: the scenario's, or poisson]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) arrivals: Option<Spread>,
    /// Arrivals served at the same time; later ones wait, and their wait counts [default: 1000, or
    /// 100 where the scenario sets up each user]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) in_flight: Option<u32>,
    #[command(flatten)]
    pub(crate) start: BlockStartArguments,
}

/// A share as people write it: `5%`
fn share(text: &str) -> Result<f64, String> {
    let Some(number) = text.strip_suffix('%') else {
        return Err(format!("`{text}` is no share in percent; write {text}%"));
    };
    match number.trim().parse::<f64>() {
        Ok(percent) if (1.0..=50.0).contains(&percent) => Ok(percent / 100.0),
        Ok(_) => Err("a precision is between 1% and 50%".to_owned()),
        Err(_) => Err(format!("`{number}` is no number")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (RATE_MIN..=1_000_000.0).contains(&rate) => Ok(rate),
        Ok(_) => Err(format!(
            "a rate is between {RATE_MIN} and 1000000 per second"
        )),
        Err(_) => Err(format!(
            "`{text}` is no rate; write arrivals per second, like 50"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_are_bounded() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["5", "0%", "60%", "x%", "%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert_eq!(rate("0.02"), Ok(RATE_MIN));
        for wrong in ["0", "0.01", "-1", "nan", "inf", "10/s", "1e9"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
