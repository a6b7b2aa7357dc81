//! What a level is: users at once, or arrivals per second. One number of the record means either,
//! and every sentence and label must say which.

use std::fmt;

use crate::record::Load;

/// Model of [`Load::model`] in which arrivals don't wait for answers.
pub const OPEN: &str = "open";
/// Model of [`Load::model`] in which users wait for their answers.
pub const CLOSED: &str = "closed";
/// Model of [`Load::model`] where another tool measured and didn't tell.
pub const UNKNOWN: &str = "unknown";

/// What a closed load can't show, for whoever reads its percentiles; `None` for an open one.
pub fn blindness(load: &Load) -> Option<&'static str> {
    if load.model == UNKNOWN {
        return Some(
            "It is not known whether users waited for their answers: if they did, a stall of the \
             service also kept back the requests that would have met it.",
        );
    }
    (load.model != OPEN).then_some(
        "Closed load: users wait for their answers, so a stall of the service also keeps back the \
         requests that would have met it, and percentiles show little of it. An open load (--rate) \
         shows what arrivals would have waited.",
    )
}

/// A level of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Users at the same time.
    Users(u32),
    /// Thousandths of an arrival per second.
    MilliRate(u32),
    /// Another tool measured, and didn't tell.
    Unknown,
}

impl Level {
    /// What `level`, one of the record's, means under this load.
    pub fn of(load: &Load, level: u32) -> Self {
        Self::of_model(&load.model, level)
    }

    /// The same under a load of this [`Load::model`].
    pub fn of_model(model: &str, level: u32) -> Self {
        match model {
            OPEN => Self::MilliRate(level),
            UNKNOWN => Self::Unknown,
            _ => Self::Users(level),
        }
    }

    /// A rate, rounded to a thousandth per second and never below that.
    pub fn of_rate(per_second: f64) -> Self {
        // A float beyond its range becomes the largest number.
        Self::MilliRate(((per_second * 1_000.0).round() as u32).max(1))
    }

    /// The number that a record has for it.
    pub fn key(self) -> u32 {
        match self {
            Self::Users(number) | Self::MilliRate(number) => number,
            Self::Unknown => 0,
        }
    }

    /// Arrivals per second of an open load.
    pub fn rate_per_second(self) -> Option<f64> {
        match self {
            Self::Users(_) | Self::Unknown => None,
            Self::MilliRate(milli) => Some(f64::from(milli) / 1_000.0),
        }
    }
}

/// `c = 20`, `50/s`, `0.5/s`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users(users) => write!(f, "c = {users}"),
            Self::MilliRate(milli) => write!(f, "{}/s", f64::from(*milli) / 1_000.0),
            Self::Unknown => f.write_str("load unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_says_what_it_counts() {
        let shown: Vec<String> = [
            Level::Users(20),
            Level::of_rate(50.0),
            Level::of_rate(0.5),
            Level::of_rate(1_234.567_8),
            Level::of_rate(0.0),
        ]
        .iter()
        .map(Level::to_string)
        .collect();
        assert_eq!(shown, ["c = 20", "50/s", "0.5/s", "1234.568/s", "0.001/s"]);
        assert_eq!(Level::of_rate(12.5).rate_per_second(), Some(12.5));
        assert_eq!(Level::of_rate(12.5).key(), 12_500);
    }
}
