//! Several sessions of one design as one record with more pairs.
//!
//! What was measured is put together and nothing is judged. Merging because a first verdict was
//! inconclusive is a second look at the same question: the record says how many looks there were,
//! so that the comparison can spend its significance level on all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparability::{hard_keys, of_machine};
use crate::design::ArmName;
use crate::pairing::is_unfinished;
use crate::record::{
    Arm, Block, Harness, MachineFloor, Merged, MergedSession, RunRecord, SCHEMA_MINOR, Schema,
};
use crate::validate::{PAIRS_MAX, Violation};

/// What whoever merges says.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Id of the new record.
    pub id: String,
    /// Version of the program that merges.
    pub harness_version: String,
    /// Its label; else that of the first session.
    pub label: Option<String>,
    /// The number of sessions was settled before the first one was judged.
    pub planned: bool,
}

/// Why sessions can't be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Fewer than two records.
    #[error("one session is no merge; give two records or more")]
    One,
    /// Something that no merge makes sense of.
    #[error("{file}: {why}")]
    Unfit {
        /// The record.
        file: String,
        /// What it is, and what to do.
        why: String,
    },
    /// They didn't measure the same.
    #[error(
        "the sessions didn't measure the same, so they stay apart: {}. Measure once more as in the \
         first, or compare them one by one",
        differences.join("; ")
    )]
    Different {
        /// Each key that differs, with the values and their files.
        differences: Vec<String>,
    },
    /// The same session in two of them.
    #[error(
        "{file}: its session {id} is in {other} already; nothing may count twice: leave one out"
    )]
    Twice {
        /// The later record.
        file: String,
        /// The earlier one.
        other: String,
        /// Id of the session.
        id: String,
    },
    /// Nothing that could be read again, such as sessions without a whole pair.
    #[error("put together they make no sound record: {0}; keep them apart")]
    Unsound(Violation),
    /// More than a comparison takes.
    #[error("{pairs} pairs together, and a comparison has at most {PAIRS_MAX}; leave sessions out")]
    TooMany {
        /// Pairs of all sessions.
        pairs: u64,
    },
}

/// Puts sessions together, each with the name of its file.
///
/// Pairs are numbered anew in the order in which sessions were measured; arms keep their positions
/// within pairs, so that what was balanced stays balanced. Of a session that was stopped, pairs
/// that are not complete are left out.
///
/// # Errors
/// [`MergeError`], with all differences at once.
pub fn merge(
    mut sessions: Vec<(String, RunRecord)>,
    options: &MergeOptions,
) -> Result<RunRecord, MergeError> {
    sessions.sort_by(|(_, one), (_, other)| one.created_utc.cmp(&other.created_utc));
    let Some((first_file, first)) = sessions.first().cloned() else {
        return Err(MergeError::One);
    };
    refuse_different(&sessions, options)?;
    refuse_twice(&sessions)?;
    let others = || sessions.iter().skip(1);
    let soft = others().flat_map(|(file, record)| {
        let keys = of_machine(&first).into_iter().zip(of_machine(record));
        different(keys, &first_file, file)
    });
    let mut merged = Merged {
        sessions: Vec::new(),
        planned: options.planned,
        differences: soft.chain(untold(&first)).collect(),
    };
    let mut record = first.clone();
    record.blocks = Vec::new();
    record.load.looks = Vec::new();
    let mut clock_ns = 0;
    let mut pairs = 0;
    for (_, session) in &sessions {
        let kept = Kept::of(session);
        merged.sessions.extend(kept.told(session));
        record.load.looks.extend(kept.looks(session, pairs));
        record
            .blocks
            .extend(kept.blocks(session, pairs, &mut clock_ns));
        pairs = pairs.saturating_add(kept.pairs.len() as u64);
    }
    let is_pair = record.arms.len() > 1;
    if is_pair && pairs > u64::from(PAIRS_MAX) {
        return Err(MergeError::TooMany { pairs });
    }
    if options.planned || !is_pair {
        record.load.looks = Vec::new();
    }
    // It fits, or there are no pairs that anybody plans.
    record.load.pairs = if is_pair { pairs as u32 } else { 0 };
    record.floor = slowest_floor(&sessions);
    record.interrupted = false;
    record.schema = Schema {
        minor: SCHEMA_MINOR,
        ..record.schema
    };
    record.harness = Harness {
        version: options.harness_version.clone(),
        git: None,
    };
    record.id.clone_from(&options.id);
    if let Some(label) = &options.label {
        record.label.clone_from(label);
    }
    record.merged = Some(merged);
    // What nobody could read again must not be written.
    record.validate().map_err(MergeError::Unsound)?;
    Ok(record)
}

/// What a merge means for the significance level, for whoever reads the verdict; `None` for one
/// session.
pub fn meaning(record: &RunRecord) -> Option<String> {
    let merged = record.merged.as_ref()?;
    let sessions = merged.sessions.len();
    if record.arms.len() < 2 {
        return Some(format!("Put together from {sessions} sessions."));
    }
    Some(if merged.planned {
        format!(
            "Put together from {sessions} sessions; whoever did says that their number was settled \
             before the first was judged, so that this is one look at the result."
        )
    } else {
        format!(
            "Put together from {sessions} sessions, each of which may have been judged before the \
             next was measured: this is look {looks} of {looks} and has that look's part of the \
             significance level only. Verdicts of the single sessions had a level of their own: \
             false alarms of all of them add up.",
            looks = record.load.looks.len()
        )
    })
}

/// Sessions that are none, or of which any differs from the first.
fn refuse_different(
    sessions: &[(String, RunRecord)],
    options: &MergeOptions,
) -> Result<(), MergeError> {
    let [(first_file, first), others @ ..] = sessions else {
        return Err(MergeError::One);
    };
    if others.is_empty() {
        return Err(MergeError::One);
    }
    for (file, record) in sessions {
        refuse_unfit(file, record, options)?;
    }
    let mut differences = Vec::new();
    for (file, record) in others {
        differences.extend(hard_differences((first_file, first), (file, record)));
    }
    if differences.is_empty() {
        Ok(())
    } else {
        Err(MergeError::Different { differences })
    }
}

fn refuse_unfit(file: &str, record: &RunRecord, options: &MergeOptions) -> Result<(), MergeError> {
    let is_import = record.arms.values().any(|arm| arm.imported.is_some());
    let why = if record.load.capacity.is_some() {
        "it is a search for capacity, and its blocks are at rates of their own; search again with \
         more --blocks"
    } else if is_import {
        "it was imported and has no blocks; two imports stay two records"
    } else if record.schema.minor > SCHEMA_MINOR {
        "a newer version wrote it, and what this one doesn't know would be lost; update unstall"
    } else if options.planned && !record.load.looks.is_empty() {
        "it was looked at before it was over (--looks, or an earlier merge); leave --planned out"
    } else if options.planned && record.interrupted {
        "it was stopped before its end, so its length was not settled beforehand; leave --planned out"
    } else {
        return Ok(());
    };
    Err(MergeError::Unfit {
        file: file.to_owned(),
        why: why.to_owned(),
    })
}

/// What would tell two builds under one command apart, and isn't known of any session: where one knows it,
/// they differ.
fn untold(record: &RunRecord) -> Option<String> {
    let unknown = record.arms.iter().filter(|(_, arm)| arm.git.is_none());
    let names: Vec<&str> = unknown.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "commit of {}: not known of any session, and taken for the same",
            names.join(" and ")
        )
    })
}

/// Hard keys of comparability, and what makes a version and a design what they are.
fn hard_differences(
    (file, one): (&String, &RunRecord),
    (other_file, other): (&String, &RunRecord),
) -> Vec<String> {
    let known = |record| {
        let keys = hard_keys(record).into_iter();
        let keys = keys.map(|(key, value)| (key.to_owned(), value.unwrap_or_default()));
        let mut keys: BTreeMap<String, String> = keys.collect();
        keys.extend(design(record));
        keys
    };
    let (one, mut other) = (known(one), known(other));
    let mut pairs = Vec::new();
    for (key, value) in one {
        let theirs = other.remove(&key).unwrap_or_else(|| "none".to_owned());
        pairs.push(((key.clone(), value), (key, theirs)));
    }
    pairs.extend(
        other
            .into_iter()
            .map(|(key, value)| ((key.clone(), "none".to_owned()), (key, value))),
    );
    different(pairs, file, other_file).collect()
}

fn design(record: &RunRecord) -> Vec<(String, String)> {
    let load = &record.load;
    let unknown = || "unknown".to_owned();
    let round_trip = load.store_round_trip_us.map(|us| format!("{us} µs"));
    let mut keys = vec![
        (
            "warm-up".to_owned(),
            format!(
                "{} per user, {} ms",
                load.warmup_per_user, load.warmup_ms_min
            ),
        ),
        (
            "stated round trip".to_owned(),
            round_trip.unwrap_or_else(|| "none".to_owned()),
        ),
        (
            "step".to_owned(),
            record
                .step
                .as_ref()
                .map_or_else(|| "none".to_owned(), |step| step.id.clone()),
        ),
    ];
    for (name, arm) in &record.arms {
        let of = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
        let Arm {
            command,
            url,
            git,
            access,
            ..
        } = arm;
        let access = access.as_ref().map(|access| format!("{access:?}"));
        keys.extend([
            (format!("command of {name}"), of(command)),
            (format!("URL of {name}"), of(url)),
            (format!("commit of {name}"), of(git)),
            (format!("access of {name}"), of(&access)),
        ]);
    }
    keys
}

/// Keys whose values differ, as sentences.
fn different<'a, K: AsRef<str> + 'a>(
    keys: impl IntoIterator<Item = ((K, String), (K, String))> + 'a,
    file: &'a str,
    other_file: &'a str,
) -> impl Iterator<Item = String> + 'a {
    keys.into_iter()
        .filter(|((_, one), (_, other))| one != other)
        .map(move |((key, one), (_, other))| {
            format!("{}: {one} in {file}, {other} in {other_file}", key.as_ref())
        })
}

/// Also what was merged before counts once.
fn refuse_twice(sessions: &[(String, RunRecord)]) -> Result<(), MergeError> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (file, record) in sessions {
        let merged = record.merged.iter().flat_map(|of| &of.sessions);
        let ids = merged.map(|session| session.id.as_str());
        for id in ids.chain([record.id.as_str()]) {
            if let Some(other) = seen.insert(id, file) {
                return Err(MergeError::Twice {
                    file: file.clone(),
                    other: other.to_owned(),
                    id: id.to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// The one that finds most endpoints as fast as it.
fn slowest_floor(sessions: &[(String, RunRecord)]) -> Option<MachineFloor> {
    let floors = sessions
        .iter()
        .filter_map(|(_, record)| record.floor.clone());
    floors.max_by_key(|floor| floor.response_us_p50)
}

/// The pairs of a session that go into the record.
struct Kept {
    /// In order; their place is their number.
    pairs: Vec<u32>,
    left_out: u32,
}

impl Kept {
    fn of(session: &RunRecord) -> Self {
        let begun: BTreeSet<u32> = session.blocks.iter().map(|block| block.pair).collect();
        let pairs = begun.iter().copied();
        let (complete, rest): (Vec<u32>, Vec<u32>) =
            pairs.partition(|pair| is_complete(session, *pair));
        // Counts of pairs are those of blocks, at most.
        let others = rest.len() as u32;
        let is_whole = !session.interrupted;
        Self {
            pairs: if is_whole {
                begun.into_iter().collect()
            } else {
                complete
            },
            left_out: if is_whole { 0 } else { others },
        }
    }

    /// As the record lists it; a session that was merged itself is listed as its own.
    fn told(&self, session: &RunRecord) -> Vec<MergedSession> {
        if let Some(merged) = &session.merged {
            return merged.sessions.clone();
        }
        vec![MergedSession {
            id: session.id.clone(),
            label: session.label.clone(),
            created_utc: session.created_utc.clone(),
            pairs: self.pairs.len() as u32,
            pairs_left_out: self.left_out,
        }]
    }

    /// When the result may have been looked at, behind `before` pairs: as the session was planned (or
    /// was merged of others), and when it was over. A pair of a whole session that can't be compared
    /// counts: it was planned, and it makes the comparison invalid.
    fn looks(&self, session: &RunRecord, before: u64) -> Vec<u32> {
        let own = self.pairs.len() as u64;
        let planned = session.load.looks.iter().map(|look| u64::from(*look));
        let mut looks: Vec<u64> = planned.filter(|look| *look < own).collect();
        looks.extend((own > 0).then_some(own));
        let behind = looks.into_iter().map(|look| before.saturating_add(look));
        // More pairs than a number holds are refused in the end.
        behind
            .map(|look| u32::try_from(look).unwrap_or(u32::MAX))
            .collect()
    }

    /// Renumbered, and moved on the clock to where the session before ended.
    fn blocks(&self, session: &RunRecord, before: u64, clock_ns: &mut u64) -> Vec<Block> {
        let numbers: BTreeMap<u32, u64> = self.pairs.iter().copied().zip(before..).collect();
        let kept = || {
            session
                .blocks
                .iter()
                .filter(|of| numbers.contains_key(&of.pair))
        };
        let begun_ns = kept().map(|block| block.started_mono_ns).min().unwrap_or(0);
        let from_ns = *clock_ns;
        let mut blocks = Vec::new();
        for block in kept() {
            let mut block = block.clone();
            let number = numbers.get(&block.pair).copied().unwrap_or(before);
            block.pair = u32::try_from(number).unwrap_or(u32::MAX);
            block.started_mono_ns = from_ns.saturating_add(block.started_mono_ns - begun_ns);
            *clock_ns = (*clock_ns).max(block.started_mono_ns.saturating_add(block.wall_ns));
            blocks.push(block);
        }
        blocks
    }
}

/// Every arm has a valid block at every level.
fn is_complete(session: &RunRecord, pair: u32) -> bool {
    let is_there = |arm: &str, level: u32| {
        session.blocks.iter().any(|block| {
            (block.pair, block.level, block.arm.as_str()) == (pair, level, arm)
                && block.validity.ok
                && !is_unfinished(session, block)
        })
    };
    let mut levels = session.load.levels.iter();
    levels.all(|level| session.arms.keys().all(|arm| is_there(arm, *level)))
}

/// In how many pairs `before` came first, and in how many `after`.
pub fn order(record: &RunRecord) -> (usize, usize) {
    let first = |arm: ArmName| {
        let blocks = record.blocks.iter();
        let first = blocks.filter(|block| block.position == 0 && block.arm == arm.as_str());
        first
            .map(|block| block.pair)
            .collect::<BTreeSet<u32>>()
            .len()
    };
    (first(ArmName::Before), first(ArmName::After))
}
