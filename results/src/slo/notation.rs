//! How people write an objective: `p95<200ms,errors<0.1%`, read and written.

use std::fmt;

use super::{Measure, Objective, Percentile, Slo};

/// Why a text is no objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {:>indent$}", "^", indent = position + 1)]
pub struct SloError {
    /// The whole text.
    pub text: String,
    /// Where the mistake is: characters before it.
    pub position: usize,
    /// What was found, what was expected and what to write.
    pub message: String,
}

impl Slo {
    /// Reads objectives separated by commas: `[ENDPOINT:]MEASURE<LIMIT`.
    ///
    /// Measures are `p50`, `p99.9` or any other percentile and `max`, of response times or, as
    /// `ttft.p95`, of times to the first item of a stream; and `errors`. Limits of times carry
    /// `us`, `ms` or `s`, that of errors `%`.
    ///
    /// # Errors
    /// [`SloError`], which shows the place.
    pub fn parse(text: &str) -> Result<Self, SloError> {
        let mut objectives = Vec::new();
        let mut rest = text;
        loop {
            let (objective, after) = item(text, rest)?;
            objectives.push(objective);
            match after {
                Some(after) => rest = after,
                None => return Ok(Self { objectives }),
            }
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, objective) in self.objectives.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{objective}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(endpoint) = &self.endpoint {
            write!(f, "{endpoint}:")?;
        }
        write!(f, "{}<", self.measure)?;
        match self.measure {
            Measure::Errors => write!(f, "{}%", decimal(self.limit * 100.0)),
            _ if self.limit >= 1e6 => write!(f, "{}s", decimal(self.limit / 1e6)),
            _ if self.limit >= 1e3 => write!(f, "{}ms", decimal(self.limit / 1e3)),
            _ => write!(f, "{}us", decimal(self.limit)),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(percentile) => write!(f, "{percentile}"),
            Self::Ttft(percentile) => write!(f, "ttft.{percentile}"),
            Self::Errors => write!(f, "errors"),
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(q) => write!(f, "p{}", decimal(q * 100.0)),
            Self::Max => write!(f, "max"),
        }
    }
}

/// Without the last digits that binary fractions add.
fn decimal(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One objective at the beginning of `rest`, and what stands behind its comma.
fn item<'t>(text: &str, rest: &'t str) -> Result<(Objective, Option<&'t str>), SloError> {
    let at = |part: &str, message: String| SloError {
        text: text.to_owned(),
        position: text[..part.as_ptr() as usize - text.as_ptr() as usize]
            .chars()
            .count(),
        message,
    };
    let Some(sign) = rest.find('<') else {
        let message = "an objective without `<`: write a measure and its limit, like p95<200ms";
        return Err(at(rest.trim_start(), message.to_owned()));
    };
    let (left, right) = (&rest[..sign], &rest[sign + 1..]);
    let (limit, after) = match right.split_once(',') {
        Some((limit, after)) => (limit, Some(after)),
        None => (right, None),
    };
    let (endpoint, name) = match left.rsplit_once(':') {
        Some((endpoint, name)) => (Some(endpoint.trim()), name.trim()),
        None => (None, left.trim()),
    };
    if endpoint.is_some_and(str::is_empty) {
        let message = "no endpoint before `:`; leave the colon out, or name one of the scenario's";
        return Err(at(left, message.to_owned()));
    }
    let measure = measure(name).map_err(|message| at(name, message))?;
    let number = limit.trim();
    let limit = match measure {
        Measure::Errors => share(number),
        _ => time_us(number),
    }
    .map_err(|message| at(number, message))?;
    let objective = Objective {
        endpoint: endpoint.map(str::to_owned),
        measure,
        limit,
    };
    Ok((objective, after))
}

fn measure(name: &str) -> Result<Measure, String> {
    let expected = || {
        format!(
            "`{name}` is no measure; write p50, p95, p99 or another percentile, max, ttft.p95 or \
             errors"
        )
    };
    if name == "errors" {
        return Ok(Measure::Errors);
    }
    let (of_ttft, which) = match name.strip_prefix("ttft.") {
        Some(which) => (true, which),
        None => (false, name),
    };
    let percentile = match (which, which.strip_prefix('p')) {
        ("max", _) => Percentile::Max,
        (_, Some(digits)) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
            let percent: f64 = digits.parse().map_err(|_| expected())?;
            if !(percent > 0.0 && percent < 100.0) {
                return Err(format!(
                    "`{which}` is no percentile: it lies between p0 and p100, both left out; the \
                     longest of all is `max`"
                ));
            }
            Percentile::Of(percent / 100.0)
        }
        _ => return Err(expected()),
    };
    Ok(if of_ttft {
        Measure::Ttft(percentile)
    } else {
        Measure::Response(percentile)
    })
}

fn time_us(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let scale = match unit {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "" => {
            return Err(format!(
                "`{text}` has no unit; write {text}ms for milliseconds"
            ));
        }
        "%" => {
            return Err(format!(
                "`{text}` is a share, and a time is limited; write 200ms"
            ));
        }
        _ => return Err(format!("`{unit}` is no unit of time; use us, ms or s")),
    };
    let us = number * scale;
    if !(1.0..=3.6e9).contains(&us) {
        return Err(format!(
            "`{text}` can't be told: a limit is between 1us and 3600s"
        ));
    }
    Ok(us)
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    if unit != "%" {
        return Err(format!(
            "`{text}` is no share in percent; write errors<1% for one request in a hundred"
        ));
    }
    if !(number > 0.0 && number <= 100.0) {
        return Err(format!(
            "`{text}` can't be kept below; a share lies between 0% and 100%, and none at all is \
             as good as errors<0.001%"
        ));
    }
    Ok(number / 100.0)
}

fn number_and_unit(text: &str) -> Result<(f64, &str), String> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let split = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    match number.parse::<f64>() {
        Ok(number) => Ok((number, unit.trim())),
        Err(_) if text.is_empty() => Err("nothing behind `<`; write a limit like 200ms".to_owned()),
        Err(_) => Err(format!(
            "`{text}` is no limit; write a number with its unit, like 200ms"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Slo {
        Slo::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn objectives_are_read_and_written() {
        let written = [
            ("p95<200ms,errors<0.1%", "p95<200ms, errors<0.1%"),
            (" p99.9 < 1.5 s ", "p99.9<1.5s"),
            ("POST message:p95<500ms", "POST message:p95<500ms"),
            (
                "GET /a:b, c:max<250us,ttft.p95<1s",
                "GET /a:b, c:max<250us, ttft.p95<1s",
            ),
            ("p50<1000us", "p50<1ms"),
            ("errors<100%", "errors<100%"),
        ];
        for (text, shown) in written {
            let slo = parse(text);
            assert_eq!(slo.to_string(), shown);
            assert_eq!(parse(shown), slo, "{shown}");
        }
        let named = parse("GET /a:b, c:max<250us");
        assert_eq!(
            named.objectives()[0].endpoint.as_deref(),
            Some("GET /a:b, c")
        );
    }

    #[test]
    fn mistakes_show_their_place_and_a_fix() {
        let wrong = [
            "",
            "p95",
            "p95<200",
            "p95<",
            "p95<200ms,",
            "errors<0.1%,p95<2min",
            "p100<1s",
            "q95<1s",
            "errors<5",
            "errors<0%",
            "p95<5%",
            ":p95<1s",
            "p95<0ms",
            "p95<=200ms",
            "ünlü:p9x<1s",
        ];
        let errors: Vec<String> = wrong
            .iter()
            .map(|text| Slo::parse(text).expect_err(text).to_string())
            .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_an_objective_or_a_placed_mistake(text in "\\PC*") {
            if let Err(error) = Slo::parse(&text) {
                prop_assert!(error.position <= text.chars().count());
                prop_assert!(!error.message.is_empty());
            }
        }

        #[test]
        fn what_is_written_is_read_again(
            percent in 1u32..999, us in 1u32..50_000_000, share in 1u32..=10_000,
        ) {
            let text = format!(
                "a:p{}<{us}us,errors<{}%", f64::from(percent) / 10.0, f64::from(share) / 100.0
            );
            let slo = parse(&text);
            let again = parse(&slo.to_string());
            for (left, right) in slo.objectives().iter().zip(again.objectives()) {
                prop_assert!((left.limit - right.limit).abs() <= 1e-6 * left.limit.max(1.0));
            }
        }
    }
}
