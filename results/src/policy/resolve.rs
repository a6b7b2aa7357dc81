//! From the file as written to what it means; whatever can be wrong without looking at a record
//! is refused here.

use std::path::Path;

use toml::Spanned;

use super::error::{PolicyError, listed, meant};
use super::raw::{RawConsequence, RawMargin, RawPolicy, RawRule, RawSlo, RawUnpaired};
use super::{Consequence, Glob, Margin, Place, Policy, Rule, SloRule, Unpaired};
use crate::comparison::{Metric, Scale};
use crate::signflip::ALPHA_MIN;
use crate::slo::Slo;
use crate::text_position::position;

impl Policy {
    /// Reads a policy file; whatever it does not say keeps its default.
    ///
    /// ```toml
    /// judge = ["response_p95", "error_rate"]
    ///
    /// [metrics.response_p95]
    /// margin = 5    # worse by more than this is a regression: percent; points for error_rate
    /// limit = 20    # a pass excludes more than this: percent; points for error_rate
    /// floor = 1     # a smaller absolute change is no harm: in the metric's unit
    ///
    /// [[rule]]
    /// endpoint = "GET /api/*/usage*"
    /// limit = 30
    /// ```
    ///
    /// The whole form is in `examples/policy.toml`, its JSON Schema is [`super::schema`].
    ///
    /// # Errors
    /// [`PolicyError`] with the place in the file and what to do.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, PolicyError> {
        let reader = Reader { text, origin };
        let raw: RawPolicy = toml::from_str(text).map_err(|error| reader.not_a_policy(&error))?;
        let mut policy = Self {
            origin: origin.to_owned(),
            ..Self::default()
        };
        if let Some(alpha) = raw.alpha {
            policy.alpha = reader.alpha(&alpha)?;
        }
        policy.inconclusive = raw.inconclusive.map_or(policy.inconclusive, Into::into);
        policy.invalid = raw.invalid.map_or(policy.invalid, Into::into);
        policy.unpaired = raw.unpaired.map_or(policy.unpaired, Into::into);
        if let Some(judge) = raw.judge {
            policy.judge_only(&reader, &judge)?;
        }
        // In the file's order, whatever order their names have.
        let mut metrics: Vec<_> = raw.metrics.into_iter().collect();
        metrics.sort_by_key(|(_, raw)| raw.span().start);
        for (metric, raw) in metrics {
            policy.rules.push(reader.metric(metric, &raw)?);
        }
        for raw in &raw.rule {
            policy.rules.push(reader.rule(raw)?);
        }
        for raw in &raw.slo {
            policy.slos.push(reader.slo(raw)?);
        }
        Ok(policy)
    }

    fn judge_only(
        &mut self,
        reader: &Reader<'_>,
        judge: &Spanned<Vec<Spanned<Metric>>>,
    ) -> Result<(), PolicyError> {
        self.judged.clear();
        for metric in judge.get_ref() {
            let place = reader.place(metric.span().start);
            self.judge_places.insert(*metric.get_ref(), place);
            if !self.judged.insert(*metric.get_ref()) {
                let name = metric.get_ref().name();
                return Err(reader.error(
                    metric.span().start,
                    format!("`{name}` is there already"),
                    "name each metric once",
                ));
            }
        }
        if self.judged.is_empty() {
            return Err(reader.error(
                judge.span().start,
                "nothing is judged, so nothing could ever fail".to_owned(),
                "name at least one metric, or leave `judge` out",
            ));
        }
        Ok(())
    }
}

/// The text that is read, for places.
struct Reader<'t> {
    text: &'t str,
    origin: &'t Path,
}

impl Reader<'_> {
    fn place(&self, offset: usize) -> Place {
        let (line, column) = position(self.text.as_bytes(), offset);
        Place { line, column }
    }

    fn error(&self, offset: usize, message: String, fix: impl Into<String>) -> PolicyError {
        let Place { line, column } = self.place(offset);
        PolicyError {
            origin: self.origin.to_owned(),
            line,
            column,
            message,
            fix: fix.into(),
        }
    }

    /// What TOML or serde has against it, in a reader's words.
    fn not_a_policy(&self, error: &toml::de::Error) -> PolicyError {
        let offset = error.span().map_or(0, |span| span.start);
        let said = error.message().replace('\n', " ");
        let message = said
            .replace("unknown field", "unknown key")
            .replace("unknown variant", "unknown word")
            .replace("missing field", "missing key")
            .replace("wanted string or table", "expected a word in quotes")
            .replace("expected f64", "expected a number")
            .replace("a sequence", "a list")
            .replace("a boolean", "true or false");
        let fix = match said.split_once(", expected ") {
            Some((found, expected)) if said.starts_with("unknown ") => {
                let quoted = |text: &str| -> Vec<String> {
                    text.split('`')
                        .skip(1)
                        .step_by(2)
                        .map(str::to_owned)
                        .collect()
                };
                let names = quoted(expected);
                let found = quoted(found).into_iter().next().unwrap_or_default();
                meant(&found, names.iter().map(String::as_str))
            }
            _ if said.starts_with("missing field") => "add it to this table".to_owned(),
            _ if said.ends_with("map, expected a sequence") => {
                "tables of a list have two brackets: write [[rule]] or [[slo]]".to_owned()
            }
            _ if said.starts_with("invalid type") || said.starts_with("wanted ") => {
                "write the kind of value that is expected here".to_owned()
            }
            _ => "mend the TOML; `unstall scenarios schema policy` prints the form".to_owned(),
        };
        self.error(offset, message, fix)
    }

    fn alpha(&self, alpha: &Spanned<f64>) -> Result<f64, PolicyError> {
        let value = *alpha.get_ref();
        if (ALPHA_MIN..=0.5).contains(&value) {
            return Ok(value);
        }
        Err(self.error(
            alpha.span().start,
            format!("alpha is {value}, expected {ALPHA_MIN} to 0.5"),
            "use 0.05",
        ))
    }

    fn size(&self, value: Option<&Spanned<f64>>) -> Result<Option<f64>, PolicyError> {
        let Some(value) = value else {
            return Ok(None);
        };
        let number = *value.get_ref();
        if number.is_finite() && number >= 0.0 {
            return Ok(Some(number));
        }
        Err(self.error(
            value.span().start,
            format!("{number} is no size, expected 0 or more"),
            "write how much worse is too much, as a number without a sign",
        ))
    }

    fn metric(&self, metric: Metric, raw: &Spanned<RawMargin>) -> Result<Rule, PolicyError> {
        let (at, raw) = (raw.span().start, raw.get_ref());
        let title = format!("[metrics.{}]", metric.name());
        let rule = Rule {
            endpoint: None,
            metric: Some(Glob::new(metric.name(), self.place(at))),
            margin: self.size(raw.margin.as_ref())?,
            limit: self.size(raw.limit.as_ref())?,
            floor: self.size(raw.floor.as_ref())?,
            judged: None,
            place: self.place(at),
            title,
        };
        if rule.says_nothing() {
            return Err(self.error(
                at,
                format!("{} says nothing", rule.title),
                "give it a margin, a limit or a floor, or take it out",
            ));
        }
        let mut margin = Margin::default_of(metric);
        rule.apply(metric.scale(), &mut margin);
        let wrong = raw.limit.as_ref().or(raw.margin.as_ref());
        self.above(&margin, metric.scale(), wrong)?;
        Ok(rule)
    }

    /// What is neither pass nor regression lies between margin and limit: there must be room.
    fn above(
        &self,
        margin: &Margin,
        scale: Scale,
        wrong: Option<&Spanned<f64>>,
    ) -> Result<(), PolicyError> {
        let Some(wrong) = wrong.filter(|_| margin.harm <= margin.regression) else {
            return Ok(());
        };
        Err(self.error(
            wrong.span().start,
            super::limit_not_above(margin, scale),
            super::LIMIT_FIX,
        ))
    }

    fn rule(&self, raw: &Spanned<RawRule>) -> Result<Rule, PolicyError> {
        let (at, raw) = (raw.span().start, raw.get_ref());
        let rule = Rule {
            endpoint: self.glob(raw.endpoint.as_ref())?,
            metric: self.glob(raw.metric.as_ref())?,
            margin: self.size(raw.margin.as_ref())?,
            limit: self.size(raw.limit.as_ref())?,
            floor: self.size(raw.floor.as_ref())?,
            judged: raw.judged,
            place: self.place(at),
            title: "[[rule]]".to_owned(),
        };
        if rule.endpoint.is_none() && rule.metric.is_none() {
            return Err(self.error(
                at,
                "a rule about everything".to_owned(),
                "name an `endpoint` or a `metric`; what every cell has is said by `judge` and \
                 [metrics.NAME]",
            ));
        }
        if rule.says_nothing() {
            return Err(self.error(
                at,
                "a rule that says nothing".to_owned(),
                "give it a margin, a limit, a floor or `judged`, or take it out",
            ));
        }
        if let Some(pattern) = &raw.metric
            && !Metric::ALL
                .iter()
                .any(|metric| rule.is_about_metric(*metric))
        {
            let names = || Metric::ALL.into_iter().map(Metric::name);
            return Err(self.error(
                pattern.span().start,
                format!(
                    "`{}` is no metric, expected one of {}, or a glob over them",
                    pattern.get_ref(),
                    listed(names())
                ),
                meant(pattern.get_ref(), names()),
            ));
        }
        if let (Some(regression), Some(harm)) = (rule.margin, rule.limit) {
            let margin = Margin {
                regression,
                harm,
                floor: 0.0,
            };
            self.above(&margin, Scale::Difference, raw.limit.as_ref())?;
        }
        Ok(rule)
    }

    fn glob(&self, pattern: Option<&Spanned<String>>) -> Result<Option<Glob>, PolicyError> {
        let Some(pattern) = pattern else {
            return Ok(None);
        };
        if pattern.get_ref().is_empty() {
            return Err(self.error(
                pattern.span().start,
                "an empty glob, which describes nothing".to_owned(),
                "write a name or a pattern like \"GET /api/*\", or leave the key out",
            ));
        }
        let place = self.place(pattern.span().start);
        Ok(Some(Glob::new(pattern.get_ref(), place)))
    }

    fn slo(&self, raw: &Spanned<RawSlo>) -> Result<SloRule, PolicyError> {
        let raw = raw.get_ref();
        let at = raw.slo.span().start;
        let slo = Slo::parse(raw.slo.get_ref()).map_err(|error| {
            self.error(
                at,
                error.to_string().replace('\n', "\n  "),
                "write objectives like p95<200ms,errors<0.1%",
            )
        })?;
        let endpoint = self.glob(raw.endpoint.as_ref())?;
        if endpoint.is_some() && slo.objectives().iter().any(|of| of.endpoint.is_some()) {
            return Err(self.error(
                at,
                "the endpoint is named twice: by `endpoint` and within `slo`".to_owned(),
                "name it once",
            ));
        }
        let level = match &raw.level {
            Some(level) if !(level.get_ref().is_finite() && *level.get_ref() > 0.0) => {
                return Err(self.error(
                    level.span().start,
                    format!("{} is no level, expected more than 0", level.get_ref()),
                    "write the number of users, or of arrivals per second of an open load",
                ));
            }
            level => level.as_ref().map(|level| *level.get_ref()),
        };
        Ok(SloRule {
            endpoint,
            slo,
            level,
            place: self.place(at),
            level_place: raw
                .level
                .as_ref()
                .map(|level| self.place(level.span().start)),
        })
    }
}

impl Rule {
    fn says_nothing(&self) -> bool {
        let sizes = [self.margin, self.limit, self.floor];
        self.judged.is_none() && sizes.iter().all(Option::is_none)
    }
}

impl From<RawConsequence> for Consequence {
    fn from(raw: RawConsequence) -> Self {
        match raw {
            RawConsequence::Fail => Self::Fail,
            RawConsequence::Warn => Self::Warn,
        }
    }
}

impl From<RawUnpaired> for Unpaired {
    fn from(raw: RawUnpaired) -> Self {
        match raw {
            RawUnpaired::Advise => Self::Advise,
            RawUnpaired::Judge => Self::Judge,
        }
    }
}
