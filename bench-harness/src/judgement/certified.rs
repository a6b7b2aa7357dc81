//! A certificate beside a measurement: read before anything is measured, and told with its age.

use std::path::{Path, PathBuf};

use unstall_results::age::{DAYS_OLD, days_between};
use unstall_results::calibration::Certificate;
use unstall_results::comparison::Comparison;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;

use crate::identity;
use unstall_bench_harness::command_line::shell_path;

/// As it stands in a command line.
pub(crate) fn words(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| {
        format!(" --certificate {}", shell_path(path))
    })
}

/// A certificate and its file.
#[derive(Debug)]
pub(crate) struct Certified {
    pub(crate) certificate: Certificate,
    path: PathBuf,
}

impl Certified {
    /// Reads the file.
    ///
    /// # Errors
    /// The message names the file, what was expected and what to do.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            certificate: Certificate::read(path)?,
            path: path.to_owned(),
        })
    }

    /// Whether it will hold for a record of which nothing is measured yet.
    ///
    /// # Errors
    /// If it is of another machine, scenario or design.
    pub(crate) fn expects(&self, record: &RunRecord) -> anyhow::Result<()> {
        Ok(self.certificate.fits(record, false)?)
    }

    /// Adds what it knows to a comparison.
    ///
    /// # Errors
    /// If it is of another machine, scenario or design.
    pub(crate) fn apply(
        &self,
        record: &RunRecord,
        comparison: &mut Comparison,
        policy: &Policy,
    ) -> anyhow::Result<()> {
        Ok(self.certificate.apply(record, comparison, policy)?)
    }

    /// Whether its false alarms are those of the rule behind a comparison.
    pub(crate) fn is_of_rule(&self, comparison: &Comparison, policy: &Policy) -> bool {
        self.certificate.other_rule(comparison, policy).is_empty()
    }

    /// What a reader must know of it: how much is behind it, and how old it is. Of another rule no
    /// rate is quoted.
    pub(crate) fn note(&self, same_rule: bool) -> String {
        let alarms = self.certificate.false_alarms;
        let days = days_between(&self.certificate.created_utc, &identity::utc_now());
        let age = match days {
            None => "of an unknown day".to_owned(),
            Some(0) => "of today".to_owned(),
            Some(1) => "1 day old".to_owned(),
            Some(..0) => "from a day to come: some clock is wrong".to_owned(),
            Some(days) if days >= DAYS_OLD => {
                format!("{days} days old: calibrate again before you lean on it")
            }
            Some(days) => format!("{days} days old"),
        };
        let path = self.path.display();
        if !same_rule {
            return format!(
                "judged with {path}, which is of another policy, so that its false alarms say nothing \
                 of this one; {age}"
            );
        }
        format!(
            "judged with {path}: {} false alarms in {} sessions of the same version twice (a rate of at \
             most {:.1} %), {age}",
            alarms.count,
            alarms.of,
            alarms.high * 100.0
        )
    }
}
