//! What readers see of a hashed structure, a version, and what its one writer keeps beside it.

use super::options::{HashedForm, HashedOptions};
use super::policy::{HashStore, Held, Levels, View};
use super::routing::Routing;
use super::run::Run;
use super::trees::{List, Planted, is_spent};
use alluvium_dictionary::versioned::{self, RootWriter, Stamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The order in which hash stores have come: a later one is newer in all that it says.
pub(super) type Age = u64;

/// A hash store: the share of a memtable, with its filter.
#[derive(Clone, Debug)]
pub(super) struct Young {
    pub(super) age: Age,
    pub(super) run: Run,
}

/// A run that a merge has made.
#[derive(Clone, Debug)]
pub(super) struct LevelRun {
    /// It has what hash stores below this age say of the part's hashes, from where the older run
    /// behind it ends.
    pub(super) upto: Age,
    pub(super) run: Run,
}

/// A level of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// The oldest first: their numbers are those that the filter knows.
    pub(super) runs: Vec<LevelRun>,
    /// None where every run may have every hash.
    pub(super) filter: Option<Routing>,
    /// In a bundle of trees: the tree whose leaves the runs are.
    pub(super) tree: Option<Planted>,
}

/// A part: the hashes with the same first bits. SILT's has one level of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// The newest level first (U1). The last is not empty.
    pub(super) levels: Vec<Level>,
    /// It has what every hash store below this age says of its hashes.
    pub(super) upto: Age,
}

impl Part {
    /// Returns its runs, the newest first.
    pub(super) fn runs(&self) -> impl DoubleEndedIterator<Item = &LevelRun> {
        self.levels.iter().flat_map(|level| level.runs.iter().rev())
    }

    /// Returns the filters of its levels.
    pub(super) fn filters(&self) -> impl Iterator<Item = &Routing> {
        self.levels.iter().filter_map(|level| level.filter.as_ref())
    }

    /// Leaves out empty levels behind the last run.
    pub(super) fn trim(&mut self) {
        while self.levels.last().is_some_and(|level| level.runs.is_empty()) {
            self.levels.pop();
        }
    }

    /// Returns whether ages fall from its newest run to its oldest (U1).
    fn is_ordered(&self) -> bool {
        let mut above = self.upto + 1;
        self.runs()
            .all(|run| std::mem::replace(&mut above, run.upto) > run.upto)
    }
}

/// One state of the structure. It never changes (W1).
#[derive(Clone, Debug, Default)]
pub struct Version {
    pub(super) stamp: Stamp,
    /// Newest first.
    pub(super) young: Vec<Arc<Young>>,
    pub(super) parts: Vec<Arc<Part>>,
    /// The age of the next hash store.
    pub(super) next_age: Age,
}

impl versioned::Version for Version {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }
}

impl Version {
    /// Returns whether ages fall from the newest hash store to the oldest (W2), and every one is
    /// still to be merged somewhere (W3); and whether those of levels do (U1).
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

    /// Returns the runs in which a hash may be, newest first: hash stores that its part has not
    /// taken, then the part.
    #[inline]
    pub(super) fn runs_of(&self, hash: u64, options: &HashedOptions) -> impl Iterator<Item = &Run> {
        let part = &self.parts[options.part_of(hash)];
        let young = self.young.iter().filter(|young| young.age >= part.upto);
        young
            .map(|young| &young.run)
            .chain(part.runs().map(|run| &run.run))
    }

    /// Returns what the policy is told.
    pub(super) fn view(&self, options: &HashedOptions, wanted: &[bool]) -> View {
        let young = self.young.iter().map(|young| HashStore {
            age: young.age,
            bytes: young.run.bytes(),
            deletes_ranges: !young.run.range_deletes().is_empty(),
        });
        let runs = self.parts.iter().flat_map(|part| part.runs());
        View {
            young: young.collect(),
            sorted_bytes: runs.map(|run| run.run.bytes()).sum(),
            upto: self.parts.iter().map(|part| part.upto).collect(),
            next_age: self.next_age,
            wanted: wanted.to_vec(),
            held: Held::default(),
            levels: match options.form {
                HashedForm::Silt => Vec::new(),
                HashedForm::Boa { .. } => self.parts.iter().map(|part| levels_of(part)).collect(),
                HashedForm::Bot { .. } => self.trees_of(options),
            },
        }
    }

    /// Returns whether there are deletes that merges have not brought to a part's oldest run: there
    /// nothing is below them.
    pub(super) fn has_deletes_for(&self, part: &Part) -> bool {
        let waiting = self.young.iter().filter(|young| young.age >= part.upto);
        let newer = part.runs().rev().skip(1).map(|run| &run.run);
        let mut runs = waiting.map(|young| &young.run).chain(newer);
        runs.any(|run| run.tombstones() > 0 || !run.range_deletes().is_empty())
    }

    /// What the policy is told of trees.
    fn trees_of(&self, options: &HashedOptions) -> Vec<Levels> {
        let of = |part: &Arc<Part>| {
            let waiting = self.young.iter().filter(|young| young.age >= part.upto);
            let waiting: u64 = waiting.map(|young| young.run.records()).sum();
            let trees = part.levels.iter().filter_map(|level| level.tree.as_ref());
            Levels {
                hidden: trees.map(|tree| tree.root.hidden()).sum(),
                is_spent: is_spent(&part.levels, waiting >> options.parts_log),
                ..levels_of(part)
            }
        };
        self.parts.iter().map(of).collect()
    }

    /// Returns the hashes that parts have not taken of a hash store of an age: ranges from the
    /// first to the last hash, in order. None touches the next.
    pub(super) fn waiting(&self, age: Age, options: &HashedOptions) -> Vec<(u64, u64)> {
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

    /// Returns the same hash stores, whose filters are only of hashes that parts have not taken.
    pub(super) fn trimmed(&self, options: &HashedOptions) -> Vec<Arc<Young>> {
        let trim = |young: &Arc<Young>| match young.run.trimmed(&self.waiting(young.age, options)) {
            None => Arc::clone(young),
            Some(run) => Arc::new(Young { run, ..**young }),
        };
        self.young.iter().map(trim).collect()
    }

    /// Returns every run.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        let young = self.young.iter().map(|young| &young.run);
        let parts = self.parts.iter().flat_map(|part| part.runs());
        young.chain(parts.map(|run| &run.run))
    }

    /// Returns every list of a tree.
    pub(super) fn lists(&self) -> Vec<&List> {
        let levels = self.parts.iter().flat_map(|part| &part.levels);
        let mut all = Vec::new();
        for tree in levels.filter_map(|level| level.tree.as_ref()) {
            tree.root.each_list(&mut |list| all.push(list));
        }
        all
    }

    /// Returns the bytes of all that is at least as new as a level of a part, once a merge has
    /// written `own` bytes to it, and of everything. Parts of one level count one after the other,
    /// by their numbers: so a tier takes as many of them as it has space for.
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
        // Hash stores beyond that are about to become parts.
        (newer + young.min(all / YOUNG), all)
    }

    /// Returns every filter of a level.
    pub(super) fn filters(&self) -> impl Iterator<Item = &Routing> {
        self.parts.iter().flat_map(|part| part.filters())
    }
}

/// Where parts take hash stores as these come, hash stores have one part in this of all bytes.
const YOUNG: u64 = 4;

/// What the policy is told of a part's levels.
fn levels_of(part: &Part) -> Levels {
    let newer = part.runs().rev().skip(1);
    Levels {
        runs: part.levels.iter().map(|level| level.runs.len() as u32).collect(),
        records: part.runs().map(|run| run.run.records()).sum(),
        tombstones: newer.map(|run| run.run.tombstones()).sum(),
        ..Levels::default()
    }
}

/// A merge under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: u64,
}

/// What only one changes at a time.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) root: RootWriter,
    /// The merge under way: one at a time, so that space for one part suffices.
    pub(super) job: Option<Job>,
    /// The number of the next merge.
    pub(super) next_job: u64,
    /// Parts that a user wants rewritten.
    pub(super) wanted: Vec<bool>,
    /// Merges that have ended, and the records that they have written.
    pub(super) merged: (u64, u64),
    /// Entries of routing trees' lists that they have written.
    pub(super) entries: u64,
    /// Those of them that have joined hash stores.
    pub(super) joins: u64,
    /// Parts of which their last merge has left half or less: they may belong on a faster tier now.
    pub(super) shrunk: BTreeSet<usize>,
    /// Whether the last merge found no space.
    pub(super) is_cramped: bool,
}
