//! Numbers as people read them: about three significant digits, a narrow
//! no-break space before the unit and between thousands, a true minus.

use unstall_results::comparison::{Cell, Change, Comparison, Estimate, Metric, Outcome, Scale};
use unstall_results::level::{Level, OPEN};
use unstall_results::record::Load;

/// Between a number and its unit, and between groups of three digits.
pub(crate) const NARROW: char = '\u{202F}';

/// A whole number with its thousands apart.
pub(crate) fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A value of a metric with its unit.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    if is_time(metric) && value.abs() >= 10_000.0 {
        return with_unit(&trimmed(value / 1_000.0), "s");
    }
    with_unit(&bare(metric, value), unit(metric))
}

/// An estimate with its unit; `> 10 s` where it is only a lower bound.
pub(crate) fn estimate(metric: Metric, estimate: &Estimate) -> String {
    match estimate.value {
        Some(measured) if estimate.at_least => format!(">{NARROW}{}", value(metric, measured)),
        Some(measured) => value(metric, measured),
        None => "–".to_owned(),
    }
}

/// A cell's estimate: a percentile of too few requests is none, unless it has an interval.
pub(crate) fn of_cell(cell: &Cell, of: &Estimate) -> String {
    let too_few = matches!(cell.outcome, Outcome::Insufficient { .. });
    if too_few && of.low.is_none() && !of.at_least {
        return "–".to_owned();
    }
    estimate(cell.metric, of)
}

/// A percentile in ms with its 95 % interval, `None` where the sample is too small
/// for an interval and so for the percentile. Where failures or requests without an answer reach
/// into the interval, it has no upper end.
pub(crate) fn percentile(estimated: &Estimate) -> Option<(String, String)> {
    let metric = Metric::ResponseP50;
    let low = bare(metric, estimated.low?);
    estimated.value?;
    let interval = match estimated.high {
        Some(high) => format!("{low} … {}", bare(metric, high)),
        None => format!("at least {low}"),
    };
    Some((estimate(metric, estimated), interval))
}

/// A percentile in ms with its interval as markup, or that there is none.
pub(crate) fn percentile_cell(estimated: &Estimate) -> String {
    match percentile(estimated) {
        Some((value, interval)) => format!("{value} <small>{interval}</small>"),
        None => "<small>insufficient data</small>".to_owned(),
    }
}

/// A time in ms, or a dash.
pub(crate) fn estimate_ms(estimated: &Estimate) -> String {
    estimate(Metric::ResponseP50, estimated)
}

/// A share as a percentage without a sign: `12 %`.
pub(crate) fn share(share: f64) -> String {
    value(Metric::ErrorRate, share * 100.0)
}

/// `41.2 → 6.1 ms`: both values, the unit once where both have the same.
pub(crate) fn before_after(metric: Metric, before: &Estimate, after: &Estimate) -> String {
    course(metric, [before, after])
}

/// The same of any number of values.
pub(crate) fn course<'e>(
    metric: Metric,
    estimates: impl IntoIterator<Item = &'e Estimate>,
) -> String {
    let values = estimates.into_iter().map(|of| estimate(metric, of));
    let mut values: Vec<String> = values.collect();
    let suffix = format!("{NARROW}{}", unit(metric));
    if !unit(metric).is_empty() && values.iter().all(|value| value.ends_with(&suffix)) {
        let count = values.len();
        for value in values.iter_mut().take(count.saturating_sub(1)) {
            value.truncate(value.len() - suffix.len());
        }
    }
    values.join(" → ")
}

/// The estimate of a change: `−83 %`, or in the metric's unit for a difference.
pub(crate) fn change(metric: Metric, change: &Change) -> String {
    scaled(metric, change.scale, change.estimate)
}

/// The interval of a change: `−85 … −81 %`.
pub(crate) fn interval(metric: Metric, change: &Change) -> String {
    let low = scaled(metric, change.scale, change.low);
    let high = scaled(metric, change.scale, change.high);
    for unit in ["%", "pp", "ms"] {
        let suffix = format!("{NARROW}{unit}");
        if let Some(number) = low.strip_suffix(&suffix)
            && high.ends_with(&suffix)
        {
            return format!("{number} … {high}");
        }
    }
    format!("{low} … {high}")
}

/// The intervals of two percentiles in ms: `7.1 … 9.8 → 2.0 … 3.1`.
pub(crate) fn intervals_of_both(before: &Estimate, after: &Estimate) -> String {
    let of = |estimate| percentile(estimate).map_or_else(|| "–".to_owned(), |(_, shown)| shown);
    format!("{} → {}", of(before), of(after))
}

/// What the intervals of a comparison cover at least, in percent without unit: `95`, or
/// `93.75` with five pairs. It is cut, not rounded.
pub(crate) fn confidence(comparison: &Comparison) -> String {
    let changes = comparison
        .cells
        .iter()
        .filter_map(|cell| cell.change.as_ref());
    let least = changes.map(|change| change.confidence).reduce(f64::min);
    let percent = least.unwrap_or(1.0 - comparison.alpha) * 100.0;
    // 95 is a little less in binary.
    let text = format!("{:.2}", ((percent + 1e-9) * 100.0).floor() / 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One number of a change on its scale, signed.
pub(crate) fn scaled(metric: Metric, scale: Scale, number: f64) -> String {
    match scale {
        Scale::Ratio => percent(number),
        Scale::Difference if metric == Metric::ErrorRate => {
            with_unit(&signed(&trimmed(number.abs()), number), "pp")
        }
        Scale::Difference => {
            let shown = value(metric, number.abs());
            signed(&shown, number)
        }
    }
}

/// A ratio as a signed percentage.
pub(crate) fn percent(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "–".to_owned();
    }
    let percent = (ratio - 1.0) * 100.0;
    if percent > 9_999.0 {
        return format!("×{NARROW}{}", group(&format!("{ratio:.0}")));
    }
    // Rounding to −100 % would claim that nothing is left.
    if percent < -99.95 && ratio > 0.0 {
        return format!("<{NARROW}−99.9{NARROW}%");
    }
    let decimals = usize::from(percent.abs() < 9.95 || (percent < -94.95 && ratio > 0.0));
    let text = format!("{:.decimals$}", percent.abs());
    let text = if decimals == 1 && text == "0.0" {
        "0".to_owned()
    } else {
        group(&text)
    };
    with_unit(&signed(&text, percent), "%")
}

/// Bytes in the decimal units in which networks count: `15 B`, `12.1 kB`.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB"];
    let mut number = bytes;
    let mut unit = units[0];
    for larger in &units[1..] {
        // What would be shown as 1 000 of the smaller one.
        if number < 999.5 {
            break;
        }
        number /= 1_000.0;
        unit = larger;
    }
    with_unit(&trimmed(number), unit)
}

/// Microseconds as milliseconds, with the unit.
pub(crate) fn ms_from_us(us: u64) -> String {
    value(Metric::ResponseP50, as_f64(us) / 1_000.0)
}

/// Milliseconds with the unit.
pub(crate) fn ms(ms: f64) -> String {
    value(Metric::ResponseP50, ms)
}

/// A count or a sum of microseconds as a float: exact below 2^53, which is
/// 285 years in microseconds.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
pub(crate) fn as_f64(value: u64) -> f64 {
    value as f64
}

/// Three significant digits without unit, for axis ticks.
pub(crate) fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    group(text.trim_end_matches('0').trim_end_matches('.'))
}

/// The unit as it stands behind a number.
pub(crate) fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::ErrorRate => "%",
        Metric::Threads => "",
        Metric::CpuUsPerRequest => "µs",
        Metric::Throughput => "/s",
        Metric::RssMib => "MiB",
        _ => "ms",
    }
}

fn is_time(metric: Metric) -> bool {
    unit(metric) == "ms"
}

fn bare(metric: Metric, number: f64) -> String {
    match metric {
        Metric::Threads | Metric::ErrorRate => trimmed(number),
        _ => digits(number),
    }
}

/// About three significant digits: 0.042, 0.42, 6.1, 41.2, 220, 1 234.
fn digits(number: f64) -> String {
    let magnitude = number.abs();
    let decimals = match magnitude {
        _ if magnitude == 0.0 => 0,
        _ if magnitude < 0.0995 => 3,
        _ if magnitude < 0.995 => 2,
        _ if magnitude < 99.95 => 1,
        _ => 0,
    };
    signed(&group(&format!("{magnitude:.decimals$}")), number.min(0.0))
}

/// The same, and no zeros behind the point: `5`, `0.25`.
fn trimmed(number: f64) -> String {
    let text = digits(number);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Puts `+` or a true minus before a magnitude; zero has no sign.
fn signed(magnitude: &str, number: f64) -> String {
    let is_zero = magnitude.chars().all(|c| !matches!(c, '1'..='9'));
    match number.partial_cmp(&0.0) {
        _ if is_zero => magnitude.to_owned(),
        Some(std::cmp::Ordering::Less) => format!("−{magnitude}"),
        Some(std::cmp::Ordering::Greater) => format!("+{magnitude}"),
        _ => magnitude.to_owned(),
    }
}

fn with_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() {
        number.to_owned()
    } else {
        format!("{number}{NARROW}{unit}")
    }
}

/// Groups the digits before the point by three, from 10 000 on or not at all
/// below 1 000.
fn group(digits: &str) -> String {
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::with_capacity(digits.len() + 4);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(NARROW);
        }
        out.push(digit);
    }
    out.push_str(rest);
    out
}

/// `c = 20` or `50/s`, kept together on a line.
pub(crate) fn level(level: Level) -> String {
    level.to_string().replace(' ', "\u{202F}")
}

/// The same in a column of its own, whose head is [`level_head`].
pub(crate) fn level_number(level: Level) -> String {
    match level {
        Level::Users(users) => users.to_string(),
        Level::MilliRate(_) => level.to_string(),
        Level::Unknown => "–".to_owned(),
    }
}

/// Head of a column of levels.
pub(crate) fn level_head(load: &Load) -> &'static str {
    if load.model == OPEN { "rate" } else { "c" }
}

/// `concurrency 20` or `50 arrivals per second`.
pub(crate) fn level_words(level: Level) -> String {
    match (level, level.rate_per_second()) {
        (_, Some(rate)) => format!("{rate} arrivals per second"),
        (Level::Unknown, None) => level.to_string(),
        (_, None) => format!("concurrency {}", level.key()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(NARROW, " ")
    }

    #[test]
    fn values_have_about_three_digits() {
        let ms = |number| plain(&value(Metric::ResponseP95, number));
        assert_eq!(ms(0.0), "0 ms");
        assert_eq!(ms(0.0421), "0.042 ms");
        assert_eq!(ms(0.4211), "0.42 ms");
        assert_eq!(ms(6.1), "6.1 ms");
        assert_eq!(ms(41.23), "41.2 ms");
        assert_eq!(ms(220.4), "220 ms");
        assert_eq!(ms(1_234.0), "1 234 ms");
        assert_eq!(ms(12_340.0), "12.3 s");
        assert_eq!(plain(&value(Metric::Threads, 4.0)), "4");
        assert_eq!(plain(&value(Metric::ErrorRate, 0.25)), "0.25 %");
        assert_eq!(plain(&value(Metric::Throughput, 1_840.4)), "1 840 /s");
    }

    #[test]
    fn bytes_are_in_the_unit_that_fits() {
        let of = |number| plain(&bytes(number));
        assert_eq!(of(0.0), "0 B");
        assert_eq!(of(15.0), "15 B");
        assert_eq!(of(999.4), "999 B");
        assert_eq!(of(999.6), "1 kB");
        assert_eq!(of(12_140.0), "12.1 kB");
        assert_eq!(of(3_400_000.0), "3.4 MB");
        assert_eq!(of(2.5e12), "2 500 GB");
    }

    #[test]
    fn bounds_and_gaps_are_never_made_up() {
        let bound = Estimate {
            value: Some(10_000.0),
            at_least: true,
            ..Estimate::default()
        };
        assert_eq!(plain(&estimate(Metric::ResponseP99, &bound)), "> 10 s");
        assert_eq!(estimate(Metric::ResponseP99, &Estimate::default()), "–");
    }

    #[test]
    fn an_interval_that_failures_reach_into_has_no_upper_end() {
        let shown = |low, high, at_least| {
            let estimated = Estimate {
                value: Some(40.0),
                low,
                high,
                at_least,
                ..Estimate::default()
            };
            percentile(&estimated).map(|(value, interval)| plain(&format!("{value}, {interval}")))
        };
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(
            shown(Some(30.0), Some(50.0), false),
            of("40.0 ms, 30.0 … 50.0")
        );
        assert_eq!(shown(Some(30.0), None, false), of("40.0 ms, at least 30.0"));
        assert_eq!(
            shown(Some(30.0), None, true),
            of("> 40.0 ms, at least 30.0")
        );
        assert_eq!(shown(None, None, true), None, "too few");
    }

    #[test]
    fn the_unit_stands_once_where_it_can() {
        let of = |number| Estimate {
            value: Some(number),
            ..Estimate::default()
        };
        let p95 = |a, b| plain(&before_after(Metric::ResponseP95, &of(a), &of(b)));
        assert_eq!(p95(41.2, 6.1), "41.2 → 6.1 ms");
        assert_eq!(p95(12_000.0, 6.1), "12 s → 6.1 ms");
        assert_eq!(
            plain(&before_after(Metric::Threads, &of(44.0), &of(4.0))),
            "44 → 4"
        );
    }

    #[test]
    fn percentages_are_signed_and_never_claim_all() {
        let of = |ratio| plain(&percent(ratio));
        assert_eq!(of(0.17), "−83 %");
        assert_eq!(of(1.0), "0 %");
        assert_eq!(of(1.04), "+4.0 %");
        assert_eq!(of(1.0004), "0 %");
        assert_eq!(of(5.2), "+420 %");
        assert_eq!(of(0.0062), "−99.4 %");
        assert_eq!(of(0.01), "−99.0 %");
        assert_eq!(of(0.0001), "< −99.9 %");
        assert_eq!(of(250.0), "× 250");
        assert_eq!(of(f64::INFINITY), "–");
    }

    #[test]
    fn differences_are_in_the_metrics_unit() {
        let of = |metric, number| plain(&scaled(metric, Scale::Difference, number));
        assert_eq!(of(Metric::BlockedMsPer1000, -213.4), "−213 ms");
        assert_eq!(of(Metric::ErrorRate, 0.3), "+0.3 pp");
        assert_eq!(of(Metric::Threads, -40.0), "−40");
        assert_eq!(of(Metric::Threads, 0.0), "0");
    }
}
