//! Records and what follows from them: the part that `ab`, `compare`, `gate`, `report`
//! and `demo` have in common.

mod looking;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unstall_bench_harness::engine::Stop;
use unstall_reports::terminal::{self, Style};
use unstall_reports::{Entry, LastState, LeftOpen, Report};
use unstall_results::calibration::Certificate;
use unstall_results::capacity::{self, Finding};
use unstall_results::compare::{compare, compare_unpaired};
use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::design::ArmName;
use unstall_results::policy::{Consequence, Policy};
use unstall_results::record::RunRecord;
use unstall_results::store;

use crate::console::{Console, Outcome};
use crate::document::{
    CapacityDocument, ComparisonDocument, Content, FileDocument, FileKind, LedgerDocument,
    RunDocument, VerdictName,
};
use crate::exit::ExitStatus;
use crate::exports::Exports;
use crate::identity;
use crate::session::{Agenda, Ended, Session, Stage};
use looking::Looking;

use certified::Certified;

pub(crate) mod certified;

/// The arms of a record that compares.
pub(crate) const BEFORE: &str = ArmName::Before.as_str();
/// See [`BEFORE`].
pub(crate) const AFTER: &str = ArmName::After.as_str();
/// The start of a migration, beside the two arms of one of its steps.
pub(crate) const START: &str = ArmName::Start.as_str();
/// The arm of a record of one version.
pub(crate) const ONLY: &str = "run";

/// One measurement, judged where there is something to compare.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) record: RunRecord,
    /// The two versions of a step, of a record that has the start beside them: what is shown.
    step: Option<RunRecord>,
    pub(crate) comparison: Option<Comparison>,
    /// How much it can take, of a record that asks for it.
    pub(crate) capacity: Option<Finding>,
}

impl Judged {
    /// A record with what was concluded from it.
    ///
    /// # Errors
    /// A question about capacity that can't be read.
    fn of(record: RunRecord, comparison: Option<Comparison>) -> anyhow::Result<Self> {
        let has_start = comparison
            .as_ref()
            .is_some_and(|of| of.from_start.is_some());
        let step = has_start.then(|| record.contrast(ArmName::Before, ArmName::After));
        Ok(Self {
            step: step.transpose()?,
            capacity: capacity(&record)?,
            record,
            comparison,
        })
    }

    fn shown(&self) -> &RunRecord {
        self.step.as_ref().unwrap_or(&self.record)
    }

    /// What follows from its verdict by a policy.
    fn consequence(&self, policy: &Policy) -> Option<Consequence> {
        policy.consequence(self.verdict()?, self.record.interrupted)
    }

    fn verdict(&self) -> Option<Verdict> {
        let compared = self.comparison.as_ref().map(|of| of.verdict);
        compared.or(self.capacity.as_ref().and_then(|of| of.verdict))
    }
}

/// What a record shows of capacity.
fn capacity(record: &RunRecord) -> anyhow::Result<Option<Finding>> {
    capacity::find(record).with_context(|| {
        format!(
            "the objective of the record `{}` can't be read",
            record.label
        )
    })
}

/// Measurements under one verdict.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) policy: Policy,
    pub(crate) entries: Vec<Judged>,
    /// What a reader must know besides.
    pub(crate) notes: Vec<String>,
    /// Records that were written.
    pub(crate) files: Vec<FileDocument>,
    /// What identical versions showed on this machine, once [`Self::certify`] has used it.
    certificate: Option<Certificate>,
    /// What is known of the state behind a migration's last step.
    pub(crate) last_state: Option<LastState>,
    /// A verdict that no comparison carries, because a session ended before there was one.
    unjudged: Option<Verdict>,
    /// Why; those that are among the notes, too.
    left_open: Vec<String>,
}

impl Judgement {
    /// A judgement by a policy; by the usual one with [`Self::default`].
    pub(crate) fn by(policy: Policy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// What it is judged by.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Adds a record as it stands: compared if it has two arms.
    pub(crate) fn add(&mut self, record: RunRecord) -> anyhow::Result<()> {
        let comparison = if is_paired(&record) {
            let label = &record.label;
            let compared = compare(&record, &self.policy);
            Some(compared.with_context(|| format!("the record `{label}` can't be compared"))?)
        } else {
            None
        };
        self.entries.push(Judged::of(record, comparison)?);
        Ok(())
    }

    /// Measures a session and adds what it saw. One that can't go on spoils neither those
    /// before it nor those after it.
    ///
    /// # Errors
    /// When it is the first one and nothing at all was measured.
    pub(crate) fn measure(
        &mut self,
        mut session: Session,
        stage: &mut dyn Stage,
        console: &Console,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let mut planned = session.planned();
        if session.record.load.looks.is_empty() {
            return self.measure_by(session, &mut planned, stage, console, stop);
        }
        let mut looking = Looking::new(planned, self.policy.clone());
        self.measure_by(session, &mut looking, stage, console, stop)
    }

    /// The same with blocks that depend on those before them.
    ///
    /// # Errors
    /// As for [`Self::measure`].
    pub(crate) fn measure_by(
        &mut self,
        session: Session,
        agenda: &mut dyn Agenda,
        stage: &mut dyn Stage,
        console: &Console,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let label = session.record.label.clone();
        if stop.is_requested() {
            self.leave_open(Verdict::Inconclusive, format!("{label} was not measured"));
            return Ok(());
        }
        match session.measure(agenda, stage, console, stop) {
            Ok(ended) => self.conclude(ended)?,
            Err(error) if self.entries.is_empty() => return Err(error),
            Err(error) => {
                let verdict = if stop.is_requested() {
                    Verdict::Inconclusive
                } else {
                    Verdict::Invalid
                };
                self.leave_open(verdict, format!("{label} was not measured: {error:#}"));
            }
        }
        Ok(())
    }

    /// Adds a record that an earlier run has measured to its end.
    ///
    /// # Errors
    /// When it asks for something that can't be read.
    pub(crate) fn take_up(&mut self, record: RunRecord, path: PathBuf) -> anyhow::Result<()> {
        self.conclude(Ended {
            record,
            path,
            broken: None,
        })
    }

    /// Adds what a session measured. One that could not go on is invalid; one that was
    /// stopped too early to be compared is inconclusive.
    fn conclude(&mut self, ended: Ended) -> anyhow::Result<()> {
        let Ended {
            record,
            path,
            broken,
        } = ended;
        self.files.push(FileDocument::new(FileKind::Record, &path));
        if record.interrupted {
            let saved = format!("what was measured is in {}", path.display());
            self.notes
                .push(format!("{} is not complete; {saved}", record.label));
        }
        let mut comparison = None;
        if is_paired(&record) {
            match compare(&record, &self.policy) {
                Ok(compared) => comparison = Some(compared),
                Err(error) => self.leave_open(
                    Verdict::Inconclusive,
                    format!("{} can't be judged: {error}", record.label),
                ),
            }
        }
        self.entries.push(Judged::of(record, comparison)?);
        if let Some(error) = broken {
            self.leave_open(Verdict::Invalid, format!("{error:#}"));
        }
        Ok(())
    }

    /// Judges the comparisons with what is known of this machine.
    ///
    /// # Errors
    /// If the certificate is of another machine, scenario or design.
    pub(crate) fn certify(&mut self, certified: Certified) -> anyhow::Result<()> {
        let mut same_rule = true;
        for entry in &mut self.entries {
            let record = &entry.record;
            match entry.comparison.as_mut() {
                Some(comparison) if comparison.paired => {
                    certified.apply(record, comparison, &self.policy)?;
                    same_rule &= certified.is_of_rule(comparison, &self.policy);
                }
                _ => self.notes.push(format!(
                    "{} has no pairs of two versions, so the certificate says nothing of it",
                    record.label
                )),
            }
        }
        self.notes.push(certified.note(same_rule));
        self.certificate = Some(certified.certificate);
        Ok(())
    }

    /// Writes what exports need of all that was measured, and lists their files.
    ///
    /// # Errors
    /// When a file can't be written.
    pub(crate) fn finish_exports(&mut self, exports: &Exports) -> anyhow::Result<()> {
        let records: Vec<&RunRecord> = self.entries.iter().map(|of| &of.record).collect();
        let files = exports.finish(&records)?;
        self.files.extend(files);
        Ok(())
    }

    /// Holds the policy against what was measured in the end. What was measured is there already, so
    /// a policy that turns out to be about something else spoils the verdict only.
    pub(crate) fn check_policy(&mut self) {
        let records: Vec<&RunRecord> = self.entries.iter().map(|of| &of.record).collect();
        if let Err(error) = self.policy.check(&records) {
            let why = format!("{error}\n  then judge the records with `unstall gate`");
            self.leave_open(Verdict::Inconclusive, why);
        }
    }

    /// Something has no comparison: why, and what that makes of the whole.
    pub(crate) fn leave_open(&mut self, verdict: Verdict, why: String) {
        self.unjudged = self.unjudged.max(Some(verdict));
        self.left_open.push(why.clone());
        self.notes.push(why);
    }

    /// Invalid before regression before inconclusive before pass; `None` if nothing was compared.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let judged = self.entries.iter().filter_map(Judged::verdict);
        judged.chain(self.unjudged).max()
    }

    /// How to exit where the policy lets some verdict pass as a warning: by the worst of the
    /// others. What was not measured to its end is never let pass.
    fn status(&self) -> Option<ExitStatus> {
        let with = |consequence| {
            let entries = self.entries.iter();
            entries.filter(move |of| of.consequence(&self.policy) == Some(consequence))
        };
        let is_warned = with(Consequence::Warn).next().is_some();
        is_warned.then(|| {
            let failing = with(Consequence::Fail).filter_map(Judged::verdict);
            let worst = failing.chain(self.unjudged).max();
            ExitStatus::from(VerdictName::from(worst.unwrap_or(Verdict::Pass)))
        })
    }

    /// The measurement added last, in one line.
    pub(crate) fn latest(&self) -> String {
        let comparison = self
            .entries
            .last()
            .and_then(|entry| entry.comparison.as_ref());
        comparison.map_or_else(
            || "Not judged.".to_owned(),
            |comparison| {
                let verdict = name(comparison.verdict);
                format!("{}: {verdict}. {}", comparison.label, comparison.headline)
            },
        )
    }

    /// The same for the reports crate.
    pub(crate) fn report<'a>(&'a self, title: &str, command: &str) -> Report<'a> {
        Report {
            title: title.to_owned(),
            generated_utc: identity::utc_now(),
            command: command.to_owned(),
            certificate: self.certificate.as_ref(),
            last_state: self.last_state.clone(),
            left_open: self.unjudged.map(|verdict| LeftOpen {
                verdict,
                why: self.left_open.clone(),
            }),
            entries: self
                .entries
                .iter()
                .map(|entry| Entry {
                    record: entry.shown(),
                    comparison: entry.comparison.as_ref(),
                })
                .collect(),
        }
    }

    /// Tables for the terminal and the same for programs.
    pub(crate) fn outcome(&self, console: &Console) -> Outcome {
        let style = Style {
            colour: console.colour,
            width: console.width,
        };
        let mut report = self.report("", "");
        // The notes below say it.
        report.left_open = None;
        let mut text = terminal::render(&report, style);
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        if let Some(verdict) = self.unjudged.filter(|of| self.verdict() == Some(*of)) {
            // No table above says so, and the exit code does.
            text.push_str(&format!("Overall: {}\n", name(verdict)));
        }
        let comparisons = self.entries.iter().filter_map(|entry| {
            let comparison = entry.comparison.as_ref()?;
            Some(ComparisonDocument::new(entry.shown(), comparison))
        });
        let capacities = self.entries.iter().filter_map(|entry| {
            let finding = entry.capacity.as_ref()?;
            Some(CapacityDocument::new(&entry.record, finding))
        });
        let runs = self
            .entries
            .iter()
            .filter(|entry| entry.comparison.is_none() && entry.capacity.is_none());
        let status = self.status();
        if status == Some(ExitStatus::Pass) && self.verdict() != Some(Verdict::Pass) {
            text.push_str("The policy makes a warning of this: exit code 0.\n");
        }
        Outcome {
            verdict: self.verdict(),
            status,
            text,
            content: Content {
                comparisons: comparisons.collect(),
                ledger: LedgerDocument::of(&report.ledger()),
                capacities: capacities.collect(),
                runs: runs.map(|entry| RunDocument::from(&entry.record)).collect(),
                files: self.files.clone(),
                notes: self.notes.clone(),
                ..Content::default()
            },
        }
    }
}

pub(crate) fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Regression => "regression",
        Verdict::Invalid => "invalid",
    }
}

/// Reads records in the order given.
pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<RunRecord>> {
    paths.iter().map(|path| Ok(store::read(path)?)).collect()
}

/// Judges records: each one with two arms by itself, two with one arm against each other.
pub(crate) fn judge(records: Vec<RunRecord>, policy: Policy) -> anyhow::Result<Judgement> {
    let is_single = |record: &&RunRecord| !is_paired(record) && record.load.capacity.is_none();
    let single = records.iter().filter(is_single).count();
    let mut judgement = Judgement::by(policy);
    match (single, records.len()) {
        (0, _) => {
            for record in records {
                judgement.add(record)?;
            }
        }
        (2, 2) => {
            let judged = against_each_other(&records, &judgement.policy)?;
            judgement.entries.push(judged);
        }
        (1, 1) => bail!(
            "the record `{}` holds one version only; give a second record to compare it with, \
             or measure both versions with `unstall ab`",
            records.first().map_or("", |record| &record.label)
        ),
        _ => bail!(
            "{single} of {} records hold one version only; give records of `unstall ab`, \
             or exactly two records of `unstall run`, before and after",
            records.len()
        ),
    }
    Ok(judgement)
}

/// Two records of one version each, from different sessions.
pub(crate) fn against_each_other(records: &[RunRecord], policy: &Policy) -> anyhow::Result<Judged> {
    let [before, after] = records else {
        bail!("exactly two records are needed, before and after");
    };
    let comparison = compare_unpaired(before, after, policy)
        .with_context(|| format!("`{}` and `{}` can't be compared", before.label, after.label))?;
    Judged::of(side_by_side(before, after), Some(comparison))
}

/// One record with both arms, so that a report can show them beside each other.
fn side_by_side(before: &RunRecord, after: &RunRecord) -> RunRecord {
    let mut joined = after.clone();
    joined.label = format!("{} → {}", before.label, after.label);
    joined.arms = BTreeMap::new();
    joined.blocks = Vec::new();
    joined.interrupted = before.interrupted || after.interrupted;
    for (name, record) in [(BEFORE, before), (AFTER, after)] {
        if let Some(arm) = record.arms.values().next() {
            joined.arms.insert(name.to_owned(), arm.clone());
        }
        joined.blocks.extend(record.blocks.iter().map(|block| {
            let mut block = block.clone();
            name.clone_into(&mut block.arm);
            block
        }));
    }
    joined
}

/// Whether its blocks can be compared pair by pair; those of a search are at rates of their own.
fn is_paired(record: &RunRecord) -> bool {
    record.load.capacity.is_none()
        && record.arms.contains_key(BEFORE)
        && record.arms.contains_key(AFTER)
}
