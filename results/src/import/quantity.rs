//! Numbers as wrk and wrk2 print them: `635.91us`, `1.02s`, `56.20k`, `17.76GB`.

/// A time in µs.
pub(super) fn time_us(text: &str) -> Option<f64> {
    let units = [
        ("us", 1.0),
        ("ms", 1e3),
        ("s", 1e6),
        ("m", 60e6),
        ("h", 3_600e6),
    ];
    with_unit(text, &units)
}

/// Bytes; prefixes are powers of 1 024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let units = [
        ("TB", f64::from(1u32 << 20) * f64::from(1u32 << 20)),
        ("GB", f64::from(1u32 << 30)),
        ("MB", f64::from(1u32 << 20)),
        ("KB", f64::from(1u32 << 10)),
        ("B", 1.0),
    ];
    // A float beyond its range becomes the largest number.
    with_unit(text, &units).map(|bytes| bytes as u64)
}

/// `50.000%` as a share.
pub(super) fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(time_us("635.91us"), Some(635.91));
        assert_eq!(time_us("1.02s"), Some(1_020_000.0));
        assert_eq!(time_us("0.00us"), Some(0.0));
        assert_eq!(time_us("2.00m"), Some(120_000_000.0));
        assert_eq!(bytes("1.50KB"), Some(1_536));
        assert_eq!(bytes("12B"), Some(12));
        assert_eq!(share("75.000%"), Some(0.75));
        for wrong in ["", "ms", "-1ms", "1", "nanus", "infs", "1 ms"] {
            assert_eq!(time_us(wrong), None, "{wrong}");
        }
        assert_eq!(share("100.1%"), None);
    }
}
