//! One session: its blocks in order, each saved when it is over, so that a crash, a full
//! disk or Ctrl-C loses one block at most.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use unstall_bench_harness::block::{self, BlockPlace, MeasuredBlock, Service};
use unstall_bench_harness::engine::{
    BlockSpec, Ended as Cut, LoadModel, ProbeSpec, Stop, Target, Warmup,
};
use unstall_bench_harness::process_group::{ENDED_WITHIN, Ending, ServiceCommand, ServiceProcess};
use unstall_results::design::Design;
use unstall_results::level::Level;
use unstall_results::policy::STEAL_SHARE_MAX;
use unstall_results::record::{CapacityLoad, Merged, MergedSession, RunRecord};
use unstall_scenarios::plan::Plan;
use unstall_testbed::Guard;

use crate::console::Console;
use crate::exports::Exports;
use crate::progress::ProgressView;
use crate::quiet;
use crate::record_file::RecordFile;

/// An invalid block is redone once.
const ATTEMPTS: u32 = 2;

/// One block that is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    /// Which version.
    pub(crate) arm: &'static str,
    /// Which pair, from 0.
    pub(crate) pair: u32,
    /// First or second in its pair.
    pub(crate) position: u32,
    /// Who sends when, and for how long.
    pub(crate) load: LoadModel,
}

/// Brings the world into the state from which a block starts.
pub(crate) trait Stage {
    /// Restores state, and says where the block's service is or how to start it.
    ///
    /// # Errors
    /// The message says what failed and what to do.
    fn prepare(&mut self, turn: &Turn) -> anyhow::Result<Prepared>;
}

/// Which blocks are measured.
pub(crate) trait Agenda {
    /// The next block, by what was measured so far; `None` when all is done.
    fn next(&mut self, record: &RunRecord) -> Option<Turn>;

    /// How many there are, and whether the one that [`Self::next`] gave is the last, where that
    /// is known beforehand.
    fn planned(&self) -> Option<Planned>;
}

/// Of blocks that are known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// All of them.
    pub(crate) blocks: usize,
    /// Those that are still to come.
    pub(crate) left: usize,
}

/// Blocks that are known beforehand.
#[derive(Debug)]
pub(crate) struct Turns {
    left: VecDeque<Turn>,
    blocks: usize,
}

impl Turns {
    /// All of them, in order.
    pub(crate) fn of(turns: Vec<Turn>) -> Self {
        Self {
            blocks: turns.len(),
            left: VecDeque::from(turns),
        }
    }

    /// The next one, which stays.
    pub(crate) fn peek(&self) -> Option<&Turn> {
        self.left.front()
    }
}

impl Agenda for Turns {
    fn next(&mut self, _record: &RunRecord) -> Option<Turn> {
        self.left.pop_front()
    }

    fn planned(&self) -> Option<Planned> {
        Some(Planned {
            blocks: self.blocks,
            left: self.left.len(),
        })
    }
}

/// Where a block's service is to be had.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// It runs already.
    Running(Target),
    /// A fresh process for this block.
    ToStart(ServiceCommand),
}

/// The blocks of a design, in its order; `load` makes the load of one of its levels.
pub(crate) fn turns(design: &Design, load: impl Fn(u32) -> LoadModel) -> Vec<Turn> {
    let planned = design.schedule().into_iter();
    planned
        .map(|block| Turn {
            arm: block.arm.as_str(),
            pair: block.pair,
            position: block.position,
            load: load(block.level),
        })
        .collect()
}

/// A session that is ready to begin.
#[derive(Debug)]
pub(crate) struct Session {
    /// What is sent.
    pub(crate) plan: Arc<Plan>,
    /// The record so far: everything but its blocks.
    pub(crate) record: RunRecord,
    /// Where the record goes.
    pub(crate) file: RecordFile,
    /// The blocks, in order.
    pub(crate) turns: Vec<Turn>,
    /// Ends the services that are started, even if this process is killed.
    pub(crate) guard: Arc<Guard>,
    /// Whether the services' event loops are watched from outside.
    pub(crate) watch: bool,
    /// Versions whose route for the probe has answered.
    pub(crate) probed: BTreeSet<&'static str>,
    /// Files in the forms of other tools.
    pub(crate) exports: Exports,
}

/// How a session ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Everything that was measured.
    pub(crate) record: RunRecord,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Why the session could not go on, if it could not; the record is saved all the same.
    pub(crate) broken: Option<anyhow::Error>,
}

/// What came of one turn.
enum TurnEnd {
    /// Go on.
    Done,
    /// Ctrl-C.
    Stopped,
    /// There is no going on.
    Broken(anyhow::Error),
}

/// A block, in a line about it: its version, and the rate of an open one.
fn label(turn: &Turn) -> String {
    match turn.load.level() {
        Level::Users(_) | Level::Unknown => turn.arm.to_owned(),
        rate @ Level::MilliRate(_) => format!("{} at {rate}", turn.arm),
    }
}

impl Session {
    /// Goes on where an earlier run of the same session was interrupted: what it measured of whole
    /// pairs, or triples, stays, and the rest is measured. Its plan must be the same.
    pub(crate) fn go_on(&mut self, earlier: RunRecord) {
        if earlier.load.capacity.is_some() {
            // A search saves whole blocks only, and learns from each of them by itself: its pairs
            // have a rate of their own, so that none of them has every level.
            self.record = earlier;
            return;
        }
        let whole = earlier.complete_pairs();
        self.turns.retain(|turn| !whole.contains(&turn.pair));
        let begun: BTreeSet<u32> = earlier.blocks.iter().map(|of| of.pair).collect();
        let due: BTreeSet<u32> = self.turns.iter().map(|turn| turn.pair).collect();
        let (id, created_utc) = (self.record.id.clone(), self.record.created_utc.clone());
        self.record = earlier;
        self.record.blocks.retain(|of| whole.contains(&of.pair));
        if whole.is_empty() {
            return;
        }
        // Whoever reads it is told that the machine was not one and the same all the time. What was
        // interrupted was not judged: however often it happens, it is one look at the result.
        let label = self.record.label.clone();
        let session =
            |id: String, created_utc: String, pairs: usize, left_out: usize| MergedSession {
                id,
                label: label.clone(),
                created_utc,
                pairs: u32::try_from(pairs).unwrap_or(u32::MAX),
                pairs_left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
            };
        let mut merged = self.record.merged.take().unwrap_or_else(|| Merged {
            sessions: vec![session(
                self.record.id.clone(),
                self.record.created_utc.clone(),
                whole.len(),
                begun.len() - whole.len(),
            )],
            planned: true,
            differences: Vec::new(),
        });
        // The one before was to measure all that was left, and was stopped as well.
        if let Some((last, others)) = merged.sessions.split_last_mut() {
            let earlier: u32 = others.iter().map(|of| of.pairs).sum();
            let pairs = u32::try_from(whole.len()).unwrap_or(u32::MAX);
            last.pairs = pairs.saturating_sub(earlier);
        }
        merged.sessions.push(session(id, created_utc, due.len(), 0));
        self.record.merged = Some(merged);
    }

    /// Its blocks, for [`Self::measure`].
    pub(crate) fn planned(&mut self) -> Turns {
        Turns::of(std::mem::take(&mut self.turns))
    }

    /// Measures block after block.
    ///
    /// # Errors
    /// When nothing could be measured at all, or the record or an export not be saved.
    pub(crate) fn measure(
        mut self,
        agenda: &mut dyn Agenda,
        stage: &mut dyn Stage,
        console: &Console,
        stop: &Stop,
    ) -> anyhow::Result<Ended> {
        let blocks = agenda.planned().map(|planned| planned.blocks);
        let mut view = ProgressView::start(console, &self.record.scenario.name, blocks);
        // Until the last block is over, the file says that there should be more.
        self.record.interrupted = true;
        self.file.save(&self.record)?;
        let mut broken = None;
        let mut index = 0;
        loop {
            let Some(turn) = agenda.next(&self.record) else {
                self.complete()?;
                break;
            };
            self.add_level(&turn);
            view.begin(index, &label(&turn));
            let last = agenda.planned().is_some_and(|planned| planned.left == 0);
            match self.take(&turn, last, stage, &mut view, stop)? {
                TurnEnd::Done => view.end(index, self.record.blocks.last()),
                TurnEnd::Stopped => break,
                TurnEnd::Broken(error) => {
                    let of = blocks.map_or_else(String::new, |blocks| format!(" of {blocks}"));
                    let place = format!("block {}{of}, {}", index + 1, turn.arm);
                    broken = Some(error.context(format!("{place}, could not be measured")));
                    break;
                }
            }
            index += 1;
        }
        view.finish();
        self.close(broken)
    }

    /// Where nobody knew which block would be the last, the file says so only now.
    fn complete(&mut self) -> anyhow::Result<()> {
        if self.record.interrupted {
            self.record.interrupted = false;
            self.file.save(&self.record)?;
        }
        Ok(())
    }

    /// Levels that nobody knew beforehand.
    fn add_level(&mut self, turn: &Turn) {
        let level = turn.load.level().key();
        let load = &mut self.record.load;
        if load.capacity.is_some() && !load.levels.contains(&level) {
            load.levels.push(level);
        }
    }

    /// Measures one block and saves it; an invalid one, or one whose service did not start,
    /// once more, after theft as soon as it is over. The invalid one stays in the record beside the other.
    fn take(
        &mut self,
        turn: &Turn,
        last: bool,
        stage: &mut dyn Stage,
        view: &mut ProgressView,
        stop: &Stop,
    ) -> anyhow::Result<TurnEnd> {
        for attempt in 0..ATTEMPTS {
            let more = attempt + 1 < ATTEMPTS;
            let mut stolen = false;
            let reason = match self.measure_once(turn, stage, view, stop) {
                // Ctrl-C also ends what prepares a block; that is no fault of it.
                Err(_) if stop.is_requested() => return Ok(TurnEnd::Stopped),
                // A search takes every block for a whole one.
                Ok(measured)
                    if self.record.load.capacity.is_some() && measured.ended == Cut::Stopped =>
                {
                    return Ok(TurnEnd::Stopped);
                }
                Ok(measured) => {
                    let reason = measured.block.validity.reasons.join("; ");
                    let valid = measured.block.validity.ok;
                    let share = measured.block.steal_share;
                    stolen = share.is_some_and(|share| share > STEAL_SHARE_MAX);
                    self.exports
                        .add(&self.record, &measured.block, &measured.endpoint_seconds)?;
                    self.record.blocks.push(measured.block);
                    let over = valid || !more;
                    self.record.interrupted = stop.is_requested() || !(last && over);
                    self.file.save(&self.record)?;
                    if stop.is_requested() {
                        return Ok(TurnEnd::Stopped);
                    }
                    if over {
                        return Ok(TurnEnd::Done);
                    }
                    reason
                }
                // Nothing was ever measured: the command line is wrong, not the moment.
                Err(error) if !more || self.record.blocks.is_empty() => {
                    return Ok(TurnEnd::Broken(error));
                }
                Err(error) => format!("{error:#}"),
            };
            view.say(&format!(
                "pair {} {}: {reason}; once more",
                turn.pair + 1,
                turn.arm
            ));
            if stolen {
                let waited = quiet::wait(stop);
                view.say(&format!(
                    "waited {:.0} s for the hypervisor to leave the cores alone",
                    waited.as_secs_f64()
                ));
            }
        }
        Ok(TurnEnd::Done)
    }

    fn measure_once(
        &mut self,
        turn: &Turn,
        stage: &mut dyn Stage,
        view: &mut ProgressView,
        stop: &Stop,
    ) -> anyhow::Result<MeasuredBlock> {
        let load = &self.record.load;
        let place = BlockPlace {
            arm: turn.arm.to_owned(),
            pair: turn.pair,
            position: turn.position,
        };
        let spec = BlockSpec {
            load: turn.load.clone(),
            warmup: Warmup {
                rounds_per_user: load.warmup_per_user,
                lasting_at_least: Duration::from_millis(load.warmup_ms_min),
            },
            // Both blocks of a pair draw the same random values.
            seed: load.seed.wrapping_add(u64::from(turn.pair)),
            probe: load.probe.as_ref().map(|probe| ProbeSpec {
                path: probe.path.clone(),
                rate_per_second: probe.rate_per_second,
                is_proven: self.probed.contains(turn.arm),
            }),
            watch: self.watch,
            lag_p99_max: load.capacity.as_ref().and_then(CapacityLoad::lag_p99_max),
            by_endpoint: self.exports.want_seconds(),
            ..BlockSpec::default()
        };
        let measure = |service: Service<'_>, view: &ProgressView| {
            block::measure(&self.plan, service, &place, &spec, stop, view.engine())
        };
        let mut measured = match stage.prepare(turn)? {
            Prepared::Running(target) => measure(Service::Running(&target), view)?,
            Prepared::ToStart(mut command) => {
                command.stop = Some(stop.clone());
                let process = ServiceProcess::start(&command, &self.guard)?;
                let measured = measure(Service::Started(&process), view);
                let ending = process.stop().context("the service could not be ended")?;
                if ending == Ending::Killed {
                    view.tell_once(format!(
                        "{}: the service was still running {} s after TERM and was killed; \
                         this delays every block, so let it end on TERM",
                        turn.arm,
                        ENDED_WITHIN.as_secs()
                    ));
                }
                measured?
            }
        };
        if let Some(refusal) = &measured.watch_refusal
            && self.record.blocks.is_empty()
        {
            // Nothing is lost yet, and nothing will be seen of what was asked for.
            anyhow::bail!("--watch: {refusal}");
        }
        self.settle_probe(turn.arm, &mut measured);
        view.tell(turn.arm, &measured);
        Ok(measured)
    }

    /// A version whose route for the probe never answered has no bystander to ask, and then
    /// neither has the other one: what only one version was measured with can't be compared.
    /// Later failures are the service's, and stay.
    fn settle_probe(&mut self, arm: &'static str, measured: &mut MeasuredBlock) {
        let Some(probe) = &self.record.load.probe else {
            return;
        };
        let Some(refusal) = measured
            .probe_refusal
            .take_if(|_| !self.probed.contains(arm))
        else {
            self.probed.insert(arm);
            return;
        };
        let warning = format!(
            "no bystander probe: its route {} can't be used ({refusal}); name another one in the \
             scenario's [probe], or leave it out",
            probe.path
        );
        self.record.load.probe = None;
        let blocks = self.record.blocks.iter_mut();
        for block in blocks.chain([&mut measured.block]) {
            block.probe = None;
        }
        measured.block.validity.reasons.push(warning.clone());
        measured.warnings.push(warning);
    }

    fn close(self, broken: Option<anyhow::Error>) -> anyhow::Result<Ended> {
        if self.record.blocks.is_empty() {
            self.file.discard()?;
            return Err(broken.unwrap_or_else(|| {
                anyhow::anyhow!("stopped before the first block was over; nothing was measured")
            }));
        }
        Ok(Ended {
            path: self.file.path().to_owned(),
            record: self.record,
            broken,
        })
    }
}
