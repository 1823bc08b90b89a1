//! Versions of a hashed structure, which readers use, and the state that only the structure's
//! writer uses.

use super::options::{HashedForm, HashedOptions};
use super::policy::{BlockedMerges, HashStoreSummary, MergePolicyInput, PartitionSummary};
use super::routing::RoutingFilter;
use super::run::HashRun;
use super::trees::{LevelTree, RoutingList, is_spent};
use alluvium_dictionary::versioned::{self, RootWriter, VersionStamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Age of a hash store. Hash stores that were created later have greater ages.
pub(super) type HashStoreAge = u64;

/// A hash store: a run with the records of one memtable's share, or of several joined hash stores,
/// and a filter.
#[derive(Clone, Debug)]
pub(super) struct HashStore {
    pub(super) age: HashStoreAge,
    pub(super) run: HashRun,
}

/// A run in a level, written by a merge.
#[derive(Clone, Debug)]
pub(super) struct LevelRun {
    /// The run contains the part's data from hash stores with ages below this, starting at the
    /// `upto` of the next older run.
    pub(super) upto: HashStoreAge,
    pub(super) run: HashRun,
}

/// A level of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionLevel {
    /// The runs of the level, oldest first. The filter refers to runs by index.
    pub(super) runs: Vec<LevelRun>,
    /// The level's routing filter. Without one, lookups read every run.
    pub(super) filter: Option<RoutingFilter>,
    /// In a bundle of trees, the routing tree above the runs of the level.
    pub(super) tree: Option<LevelTree>,
}

/// A part: the data of all hashes that start with the same bits. In SILT's form, a part has one
/// level with one run.
#[derive(Clone, Debug, Default)]
pub(super) struct HashPartition {
    /// The levels, newest first (U1). The last level always has runs.
    pub(super) levels: Vec<PartitionLevel>,
    /// For its hashes, the part contains the data of every hash store with an age below this.
    pub(super) upto: HashStoreAge,
}

impl HashPartition {
    /// Returns the runs of all levels, newest first.
    pub(super) fn runs(&self) -> impl DoubleEndedIterator<Item = &LevelRun> {
        self.levels.iter().flat_map(|level| level.runs.iter().rev())
    }

    /// Returns the routing filters of the levels.
    pub(super) fn filters(&self) -> impl Iterator<Item = &RoutingFilter> {
        self.levels.iter().filter_map(|level| level.filter.as_ref())
    }

    /// Removes levels without runs at the end, so that the last level has runs.
    pub(super) fn trim(&mut self) {
        while self.levels.last().is_some_and(|level| level.runs.is_empty()) {
            self.levels.pop();
        }
    }

    /// Returns whether ages decrease from the newest run to the oldest (U1).
    fn is_ordered(&self) -> bool {
        let mut above = self.upto + 1;
        self.runs()
            .all(|run| std::mem::replace(&mut above, run.upto) > run.upto)
    }
}

/// An immutable state of the structure (W1).
#[derive(Clone, Debug, Default)]
pub struct HashedVersion {
    pub(super) stamp: VersionStamp,
    /// Hash stores that at least one part has not merged, newest first.
    pub(super) young: Vec<Arc<HashStore>>,
    pub(super) parts: Vec<Arc<HashPartition>>,
    /// Age of the next hash store.
    pub(super) next_age: HashStoreAge,
}

impl versioned::StructureVersion for HashedVersion {
    fn stamp(&self) -> &VersionStamp {
        &self.stamp
    }
}

impl HashedVersion {
    /// Checks that the ages of hash stores decrease from newest to oldest (W2), that each hash
    /// store has not been merged by at least one part (W3), and that the runs of every part are
    /// ordered by age (U1).
    pub(super) fn is_ordered(&self) -> bool {
        let young = &self.young;
        let least = self.parts.iter().map(|part| part.upto).min().unwrap_or(0);
        young.is_sorted_by(|newer, older| newer.age > older.age)
            && young
                .iter()
                .all(|young| young.age < self.next_age && young.age >= least)
            && self
                .parts
                .iter()
                .all(|part| part.upto <= self.next_age && part.is_ordered())
    }

    /// Returns the runs that may contain a hash, newest first: the hash stores that the hash's part
    /// has not merged, and then the runs of the part.
    #[inline]
    pub(super) fn runs_of(&self, hash: u64, options: &HashedOptions) -> impl Iterator<Item = &HashRun> {
        let part = &self.parts[options.part_of(hash)];
        let young = self.young.iter().filter(|young| young.age >= part.upto);
        young
            .map(|young| &young.run)
            .chain(part.runs().map(|run| &run.run))
    }

    /// Returns the input for the merge policy. `wanted` tells for each part whether a rewrite was
    /// requested.
    pub(super) fn view(&self, options: &HashedOptions, wanted: &[bool]) -> MergePolicyInput {
        let young = self.young.iter().map(|young| HashStoreSummary {
            age: young.age,
            bytes: young.run.bytes(),
            deletes_ranges: !young.run.range_deletes().is_empty(),
        });
        let runs = self.parts.iter().flat_map(|part| part.runs());
        MergePolicyInput {
            young: young.collect(),
            sorted_bytes: runs.map(|run| run.run.bytes()).sum(),
            upto: self.parts.iter().map(|part| part.upto).collect(),
            next_age: self.next_age,
            wanted: wanted.to_vec(),
            held: BlockedMerges::default(),
            levels: match options.form {
                HashedForm::Silt => Vec::new(),
                HashedForm::Boa { .. } => self.parts.iter().map(|part| levels_of(part)).collect(),
                HashedForm::Bot { .. } => self.trees_of(options),
            },
        }
    }

    /// Returns whether a part has deletes in its pending hash stores or in any run but the oldest,
    /// in which deletes hide nothing.
    pub(super) fn has_deletes_for(&self, part: &HashPartition) -> bool {
        let waiting = self.young.iter().filter(|young| young.age >= part.upto);
        let newer = part.runs().rev().skip(1).map(|run| &run.run);
        let mut runs = waiting.map(|young| &young.run).chain(newer);
        runs.any(|run| run.tombstones() > 0 || !run.range_deletes().is_empty())
    }

    /// Summarises the parts of a bundle of trees for the policy.
    fn trees_of(&self, options: &HashedOptions) -> Vec<PartitionSummary> {
        let of = |part: &Arc<HashPartition>| {
            let waiting = self.young.iter().filter(|young| young.age >= part.upto);
            let waiting: u64 = waiting.map(|young| young.run.records()).sum();
            let trees = part.levels.iter().filter_map(|level| level.tree.as_ref());
            PartitionSummary {
                hidden: trees.map(|tree| tree.root.hidden()).sum(),
                is_spent: is_spent(&part.levels, waiting >> options.parts_log),
                ..levels_of(part)
            }
        };
        self.parts.iter().map(of).collect()
    }

    /// Returns the hashes for which a hash store of the given age is still needed because their
    /// part has not merged it. The result is a list of ascending inclusive ranges, with adjacent
    /// ranges joined.
    pub(super) fn waiting(&self, age: HashStoreAge, options: &HashedOptions) -> Vec<(u64, u64)> {
        let parts = self.parts.iter().enumerate();
        let waiting = parts.filter(|(_, part)| part.upto <= age);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (first, last) in waiting.map(|(part, _)| options.hashes_of(part)) {
            match ranges.last_mut() {
                Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
                _ => ranges.push((first, last)),
            }
        }
        ranges
    }

    /// Returns the hash stores, with their filters reduced to the hashes whose part has not merged
    /// them.
    pub(super) fn trimmed(&self, options: &HashedOptions) -> Vec<Arc<HashStore>> {
        let trim = |young: &Arc<HashStore>| match young.run.trimmed(&self.waiting(young.age, options)) {
            None => Arc::clone(young),
            Some(run) => Arc::new(HashStore { run, ..**young }),
        };
        self.young.iter().map(trim).collect()
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &HashRun> {
        let young = self.young.iter().map(|young| &young.run);
        let parts = self.parts.iter().flat_map(|part| part.runs());
        young.chain(parts.map(|run| &run.run))
    }

    /// Returns the node lists and digests of all routing trees.
    pub(super) fn lists(&self) -> Vec<&RoutingList> {
        let levels = self.parts.iter().flat_map(|part| &part.levels);
        let mut all = Vec::new();
        for tree in levels.filter_map(|level| level.tree.as_ref()) {
            tree.root.each_list(&mut |list| all.push(list));
        }
        all
    }

    /// Returns two sizes in bytes that determine the tier for the output of a merge, which writes
    /// `own` bytes to a level of a part. The first is the size of all data at least as new as this
    /// level, including the output. The second is the size of all data. Within a level, parts with
    /// lower numbers count as newer, so that a tier receives as many parts as it has space for.
    pub(super) fn bytes_through(&self, part: usize, level: usize, own: u64) -> (u64, u64) {
        let young = self.young.iter().map(|young| young.run.device_bytes());
        let young: u64 = young.sum();
        let (mut newer, mut older) = (own, 0);
        for (number, levels) in self.parts.iter().map(|part| &part.levels).enumerate() {
            for (depth, of) in levels.iter().enumerate() {
                let bytes: u64 = of.runs.iter().map(|run| run.run.device_bytes()).sum();
                match (depth, number) {
                    (depth, number) if (depth, number) == (level, part) => {}
                    (depth, number) if depth < level || (depth == level && number < part) => newer += bytes,
                    _ => older += bytes,
                }
            }
        }
        let all = young + newer + older;
        // Any hash stores beyond this fraction of all data are about to be merged into parts.
        (newer + young.min(all / YOUNG), all)
    }

    /// Returns the routing filters of all levels.
    pub(super) fn filters(&self) -> impl Iterator<Item = &RoutingFilter> {
        self.parts.iter().flat_map(|part| part.filters())
    }
}

/// With steady merges, the hash stores take up about 1 / `YOUNG` of all bytes.
const YOUNG: u64 = 4;

/// Summarises the levels of a part for the policy.
fn levels_of(part: &HashPartition) -> PartitionSummary {
    let newer = part.runs().rev().skip(1);
    PartitionSummary {
        runs: part.levels.iter().map(|level| level.runs.len() as u32).collect(),
        records: part.runs().map(|run| run.run.records()).sum(),
        tombstones: newer.map(|run| run.run.tombstones()).sum(),
        ..PartitionSummary::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ActiveMerge {
    pub(super) number: u64,
}

/// The writer's state, which a lock protects.
#[derive(Debug, Default)]
pub(super) struct HashedWriterState {
    pub(super) root: RootWriter,
    /// The merge in progress, if any. Only one runs at a time, so that it takes free space for only
    /// one part.
    pub(super) job: Option<ActiveMerge>,
    /// Number of the next merge.
    pub(super) next_job: u64,
    /// For each part, whether a user has requested a rewrite.
    pub(super) wanted: Vec<bool>,
    /// Number of completed merges, and number of records that they have written.
    pub(super) merged: (u64, u64),
    /// Number of entries that merges have written to routing tree lists.
    pub(super) entries: u64,
    /// Number of completed joins of hash stores.
    pub(super) joins: u64,
    /// Parts that shrank to half of their size or less in their last merge, and may now belong on a
    /// faster tier.
    pub(super) shrunk: BTreeSet<usize>,
    /// Whether the last merge failed for want of free space.
    pub(super) lacks_merge_space: bool,
}
