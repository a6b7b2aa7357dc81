//! Numbers and small phrases as the comparison's sentences use them: plain text,
//! a true minus, digits grouped by a no-break space.

use crate::comparison::Metric;

/// `2000` → `2 000`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() <= 3 {
        return digits;
    }
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A measured value with about three significant digits: `41.2`, `0.43`, `1 203`.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let text = if size == 0.0 {
        "0".to_owned()
    } else if size < 0.1 {
        format!("{size:.3}")
    } else if size < 1.0 {
        format!("{size:.2}")
    } else if size < 99.95 {
        format!("{size:.1}")
    } else {
        count(size.round() as u64)
    };
    let text = match text.split_once('.') {
        Some((whole, tail)) if tail.bytes().all(|digit| digit == b'0') => whole.to_owned(),
        _ => text,
    };
    if value < 0.0 && text != "0" {
        format!("−{text}")
    } else {
        text
    }
}

/// A ratio as a signed change: `0.17` → `−83 %`.
pub(crate) fn change_of_ratio(ratio: f64) -> String {
    signed((ratio - 1.0) * 100.0, " %")
}

/// A bound as a signed change: `0.174` → `−82 %`. Digits are cut, not rounded, since "at
/// least" must not say more than was found.
pub(crate) fn bound_of_ratio(ratio: f64) -> String {
    signed_bound((ratio - 1.0) * 100.0, " %")
}

/// A signed number with a unit, cut to the digits that are shown.
pub(crate) fn signed_bound(value: f64, unit: &str) -> String {
    // What is only a rounding error of binary fractions below 8.6 is 8.6.
    let size = value.abs() * (1.0 + 1e-12);
    let cut = if size < 10.0 {
        (size * 10.0).floor() / 10.0
    } else {
        size.floor()
    };
    signed(cut.copysign(value), unit)
}

/// A signed number with a unit.
pub(crate) fn signed(value: f64, unit: &str) -> String {
    let text = if value.abs() < 9.95 {
        format!("{:.1}", value.abs())
    } else {
        count(value.abs().round() as u64)
    };
    let text = text.strip_suffix(".0").unwrap_or(&text);
    let sign = match value {
        _ if text == "0" => "±",
        v if v < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{text}{unit}")
}

/// Name of a metric within a sentence.
pub(crate) fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::ResponseP50 => "p50",
        Metric::ResponseP95 => "p95",
        Metric::ResponseP99 => "p99",
        Metric::TtftP50 => "first item p50",
        Metric::TtftP95 => "first item p95",
        Metric::ErrorRate => "errors",
        Metric::BlockedMsPer1000 => "blocked",
        Metric::Threads => "threads",
        Metric::CpuUsPerRequest => "CPU per request",
        Metric::Throughput => "throughput",
        Metric::RssMib => "memory",
        Metric::ProbeP90 => "bystander p90",
    }
}

/// Its unit with a leading space, or nothing.
pub(crate) fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::ResponseP50
        | Metric::ResponseP95
        | Metric::ResponseP99
        | Metric::TtftP50
        | Metric::TtftP95
        | Metric::ProbeP90 => " ms",
        Metric::ErrorRate => " %",
        Metric::BlockedMsPer1000 => " ms per 1\u{a0}000 requests",
        Metric::Threads => "",
        Metric::CpuUsPerRequest => " µs",
        Metric::Throughput => " per second",
        Metric::RssMib => " MiB",
    }
}

/// `1 pair`, `2 pairs`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let shown: Vec<String> = [
            0.0, 0.0004, 0.043, 0.43, 6.1, 6.04, 41.2, 99.97, 220.4, 1_203.0, 2e6, -3.25,
        ]
        .map(number)
        .into();
        assert_eq!(
            shown.join(" | ").replace('\u{a0}', "_"),
            "0 | 0 | 0.043 | 0.43 | 6.1 | 6 | 41.2 | 100 | 220 | 1_203 | 2_000_000 | −3.2"
        );
        let changes: Vec<String> = [0.17, 1.04, 1.0, 0.9999, 12.0, 1.124]
            .map(change_of_ratio)
            .into();
        assert_eq!(
            changes.join(" | ").replace('\u{a0}', "_"),
            "−83 % | +4 % | ±0 % | ±0 % | +1_100 % | +12 %"
        );
    }

    #[test]
    fn bounds_claim_no_more_than_was_found() {
        let shown: Vec<String> = [0.174, 0.0001, 1.096, 1.0999, 1.109, 1.0, 0.9999, 12.349]
            .map(bound_of_ratio)
            .into();
        assert_eq!(
            shown.join(" | ").replace('\u{a0}', "_"),
            "−82 % | −99 % | +9.6 % | +9.9 % | +10 % | ±0 % | ±0 % | +1_134 %"
        );
        assert_eq!(signed_bound(8.6, " points"), "+8.6 points");
    }
}
