//! What readers see of a hashed structure, a version, and what its one writer keeps beside it.

use super::options::HashedOptions;
use super::policy::{HashStore, View};
use super::run::Run;
use alluvium_base::Sequence;
use alluvium_dictionary::blob::Blob;
use std::sync::Arc;

/// The order in which hash stores have come: a later one is newer in all that it says.
pub(super) type Age = u64;

/// A hash store: the share of a memtable, with its filter.
#[derive(Clone, Debug)]
pub(super) struct Young {
    pub(super) age: Age,
    pub(super) run: Run,
}

/// A part of the sorted store: the hashes with the same first bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// None where it has no record.
    pub(super) run: Option<Run>,
    /// It has what every hash store below this age says of its hashes.
    pub(super) upto: Age,
}

/// One state of the structure. It never changes (W1).
#[derive(Debug, Default)]
pub(super) struct Version {
    /// Newest first.
    pub(super) young: Vec<Arc<Young>>,
    pub(super) parts: Vec<Arc<Part>>,
    /// How many versions there were before it.
    pub(super) number: u64,
    /// How many versions before it had other runs.
    pub(super) contents: u64,
    /// It holds every commit up to this one, and none above.
    pub(super) cut: Sequence,
    /// The age of the next hash store.
    pub(super) next_age: Age,
}

impl Version {
    /// Returns whether ages fall from the newest hash store to the oldest (W2), and every one is
    /// still to be merged somewhere (W3).
    pub(super) fn is_ordered(&self) -> bool {
        let young = &self.young;
        let least = self.parts.iter().map(|part| part.upto).min().unwrap_or(0);
        young.is_sorted_by(|newer, older| newer.age > older.age)
            && young
                .iter()
                .all(|young| young.age < self.next_age && young.age >= least)
            && self.parts.iter().all(|part| part.upto <= self.next_age)
    }

    /// Returns the runs in which a hash may be, newest first: hash stores that its part has not
    /// taken, then the part.
    #[inline]
    pub(super) fn runs_of(&self, hash: u64, options: &HashedOptions) -> impl Iterator<Item = &Run> {
        let part = &self.parts[options.part_of(hash)];
        let young = self.young.iter().filter(|young| young.age >= part.upto);
        young.map(|young| &young.run).chain(&part.run)
    }

    /// Returns what the policy is told.
    pub(super) fn view(&self, wanted: &[bool]) -> View {
        let young = self.young.iter().map(|young| HashStore {
            age: young.age,
            bytes: young.run.bytes(),
        });
        let runs = self.parts.iter().filter_map(|part| part.run.as_ref());
        View {
            young: young.collect(),
            sorted_bytes: runs.map(Run::bytes).sum(),
            upto: self.parts.iter().map(|part| part.upto).collect(),
            next_age: self.next_age,
            wanted: wanted.to_vec(),
        }
    }

    /// Returns the same hash stores, whose filters are only of hashes that parts have not taken.
    pub(super) fn trimmed(&self, options: &HashedOptions) -> Vec<Arc<Young>> {
        let trim = |young: &Arc<Young>| {
            let parts = self.parts.iter().enumerate();
            let waiting = parts.filter(|(_, part)| part.upto <= young.age);
            let hashes: Vec<(u64, u64)> = waiting.map(|(part, _)| options.hashes_of(part)).collect();
            match young.run.trimmed(&hashes) {
                None => Arc::clone(young),
                Some(run) => Arc::new(Young { run, ..**young }),
            }
        };
        self.young.iter().map(trim).collect()
    }

    /// Returns every run.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        let young = self.young.iter().map(|young| &young.run);
        young.chain(self.parts.iter().filter_map(|part| part.run.as_ref()))
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
    /// The newest root that was written, and of which contents it is.
    pub(super) root: Option<(u64, Vec<u8>)>,
    /// Where the contents are that it points to.
    pub(super) blob: Option<Blob>,
    /// The merge under way: one at a time, so that space for one part suffices.
    pub(super) job: Option<Job>,
    /// The number of the next merge.
    pub(super) next_job: u64,
    /// Parts that a user wants rewritten.
    pub(super) wanted: Vec<bool>,
    /// Merges that have ended, and the records that they have written.
    pub(super) merged: (u64, u64),
    /// Those of them that have joined hash stores.
    pub(super) joins: u64,
    /// Whether the last merge found no space.
    pub(super) is_cramped: bool,
}
