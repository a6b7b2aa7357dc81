//! How old something was when something else happened, the same way everywhere.

use jiff::Timestamp;

/// From so many days on a machine may well have become another one.
pub const DAYS_OLD: i64 = 30;

const SECONDS_OF_DAY: i64 = 86_400;

/// Days of the calendar (UTC) from one RFC 3339 date to another, negative if it is the earlier one;
/// `None` if one is no date.
pub fn days_between(from: &str, to: &str) -> Option<i64> {
    let day = |utc: &str| {
        let time: Timestamp = utc.parse().ok()?; // what is no date has no day
        Some(time.as_second().div_euclid(SECONDS_OF_DAY))
    };
    Some(day(to)? - day(from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_days_of_the_calendar() {
        for (from, to, days) in [
            ("2026-11-30T23:59:59Z", "2026-11-30T00:00:00Z", 0),
            ("2026-11-30T23:59:59.5Z", "2026-12-01T00:00:00Z", 1),
            ("2024-02-28T00:00:00Z", "2024-03-01T00:00:00Z", 2),
            ("2025-12-31T00:00:00Z", "2027-01-01T00:00:00Z", 366),
            ("2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z", -31),
        ] {
            assert_eq!(days_between(from, to), Some(days), "{from} {to}");
        }
        for wrong in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-xx"] {
            assert_eq!(days_between(wrong, "2026-01-01T00:00:00Z"), None, "{wrong}");
        }
    }
}
