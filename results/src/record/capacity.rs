//! What a record keeps of a search for capacity: the question, and none of the answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capacity::{Bounds, PROMISED_PERCENT};
use crate::slo::Slo;
use crate::validate::Violation;

/// A search over all rates between these takes no more memory than it should.
const RATE_MIN: f64 = 1e-4;
const RATE_MAX: f64 = 1e7;

/// The question of `unstall capacity`. Its blocks are at rates of their own, one level each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityLoad {
    /// What had to hold, as [`crate::slo::Slo::parse`] reads it.
    pub slo: String,
    /// First rate, arrivals per second.
    pub from_per_second: f64,
    /// No rate below this was tried.
    pub lowest_per_second: f64,
    /// No rate above this was tried.
    pub highest_per_second: f64,
    /// Half the width of the interval that was aimed at, as a share.
    pub precision: f64,
    /// Blocks per version at most.
    pub blocks_max: u32,
    /// How much more the new version was to bear than the old one, in percent, from which to which;
    /// earlier records don't say, and meant
    /// the default.
    #[serde(default = "promised_percent")]
    pub promised_percent: [u32; 2],
}

fn promised_percent() -> [u32; 2] {
    PROMISED_PERCENT
}

impl CapacityLoad {
    /// Checks that there is something to search and a way to.
    ///
    /// # Errors
    /// The first [`Violation`], with its place below `place`.
    pub(crate) fn validate(&self, place: &str) -> Result<(), Violation> {
        let wrong = |field: &str, message: String| {
            Err(Violation {
                json_path: format!("{place}.{field}"),
                message,
            })
        };
        if let Err(error) = Slo::parse(&self.slo) {
            return wrong("slo", format!("no objective: {error}"));
        }
        let rates = [
            ("lowest_per_second", self.lowest_per_second),
            ("from_per_second", self.from_per_second),
            ("highest_per_second", self.highest_per_second),
        ];
        for (field, rate) in rates {
            if !(RATE_MIN..=RATE_MAX).contains(&rate) {
                let expected = format!("{rate}, expected a rate between {RATE_MIN} and {RATE_MAX}");
                return wrong(field, expected);
            }
        }
        if !rates.is_sorted_by(|left, right| left.1 <= right.1) {
            return wrong(
                "from_per_second",
                format!(
                    "{}, expected one between the lowest and the highest, {} and {}",
                    self.from_per_second, self.lowest_per_second, self.highest_per_second
                ),
            );
        }
        if !(0.005..=1.0).contains(&self.precision) {
            let expected = format!("{}, expected a share between 0.005 and 1", self.precision);
            return wrong("precision", expected);
        }
        let [least, most] = self.promised_percent;
        if least > most {
            let expected = format!("{least} to {most}, expected the smaller number first");
            return wrong("promised_percent", expected);
        }
        Ok(())
    }

    /// How late the load generator may be in a block (99th percentile): a twentieth of the lowest
    /// limit of time, and no less than half a millisecond. `None` without such a limit.
    pub fn lag_p99_max(&self) -> Option<Duration> {
        const SHARE: f64 = 0.05;
        const LEAST: Duration = Duration::from_micros(500);
        // An objective that can't be read limits nothing; whoever reads the record is told.
        let limit = Slo::parse(&self.slo).ok()?.tightest_limit()?;
        Some(limit.mul_f64(SHARE).max(LEAST))
    }

    /// The same for the search.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            from: self.from_per_second,
            lowest: self.lowest_per_second,
            highest: self.highest_per_second,
            precision: self.precision,
            trials_max: self.blocks_max as usize,
        }
    }
}
