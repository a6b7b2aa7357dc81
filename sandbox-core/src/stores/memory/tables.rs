//! All records in memory, and how lists of them are made.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::domain::{
    CacheId, PreparedTree, PreparedTreeId, RepoCache, Runtime, RuntimeId, Workspace, WorkspaceId,
};
use crate::ports::store::Page;

/// Every record, history included.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) caches: BTreeMap<CacheId, RepoCache>,
    pub(super) workspaces: BTreeMap<WorkspaceId, Workspace>,
    pub(super) runtimes: BTreeMap<RuntimeId, Runtime>,
    pub(super) trees: BTreeMap<PreparedTreeId, PreparedTree>,
}

/// A page of those that are wanted.
pub(super) fn page_of<Id: Ord + Copy, Record: Clone>(
    records: &BTreeMap<Id, Record>,
    page: Page<Id>,
    is_wanted: impl Fn(&Record) -> bool,
) -> Vec<Record> {
    let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
    let wanted = records
        .range((after, Bound::Unbounded))
        .map(|(_, record)| record)
        .filter(|record| is_wanted(record));
    wanted.take(page.rows_max as usize).cloned().collect()
}

/// The first ones by a measure.
pub(super) fn first_of<'a, Record: Clone + 'a, Measure: Ord>(
    records: impl Iterator<Item = &'a Record>,
    rows_max: u32,
    measure: impl Fn(&Record) -> Measure,
) -> Vec<Record> {
    let mut records: Vec<Record> = records.cloned().collect();
    records.sort_by_key(measure);
    records.truncate(rows_max as usize);
    records
}

/// How many there are.
pub(super) fn count_of<Record>(records: impl Iterator<Item = Record>) -> u64 {
    records.fold(0, |count, _record| count + 1)
}
