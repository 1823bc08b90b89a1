//! The versions of an LSM tree, which readers use, and the state of its single writer.

use super::options::{LevelsOptions, MergePolicy};
use super::policy::{LevelsView, RunView};
use super::sweep::SliceSweep;
use crate::maplet::{self, Maplet, MapletSpec};
use crate::merge::stitch::StitchPolicy;
use crate::run::{BuiltRun, ExtentUse, IndexedRun, RunOptions};
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{self, RootWriter, VersionStamp};
use alluvium_storage::TierFiles;
use alluvium_storage::extents::{AllocationClass, Extent};
use alluvium_storage::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The age of a run, which reflects the order in which runs were added. All messages of a run with
/// a higher age are newer.
pub(super) type RunAge = u64;

/// A run of a level with its filter and the key range in which the run is live.
#[derive(Clone, Debug)]
pub(super) struct LevelMember {
    /// The ages of the oldest and newest flushed or ingested run that were merged into this run
    /// (V2).
    pub(super) ages: (RunAge, RunAge),
    pub(super) run: IndexedRun,
    /// The run's filter. It maps every key of the run to the value 0 (V3).
    pub(super) maplet: Maplet,
    /// The key range in which the run is live. The run's other keys were merged in slices (V6).
    pub(super) range: KeyRange,
}

impl LevelMember {
    /// Creates a member for a run that is live for all keys.
    pub(super) fn whole(ages: (RunAge, RunAge), run: IndexedRun, maplet: Maplet) -> LevelMember {
        LevelMember {
            ages,
            run,
            maplet,
            range: KeyRange::everything(),
        }
    }

    /// Returns a member for the part of this member in `range`, or `None` if the run cannot have
    /// keys there.
    pub(super) fn within(&self, range: &KeyRange) -> Option<LevelMember> {
        let range = self.range.intersect(range);
        let is_some = range.overlaps(self.run.low(), self.run.high());
        is_some.then(|| LevelMember {
            range,
            ..self.clone()
        })
    }

    /// Returns whether the run is live for all of its keys.
    pub(super) fn is_whole(&self) -> bool {
        self.range.contains(self.run.low()) && self.range.contains(self.run.high())
    }

    /// Returns whether the member may have live keys in `range`.
    pub(super) fn overlaps(&self, range: &KeyRange) -> bool {
        let range = self.range.intersect(range);
        range.overlaps(self.run.low(), self.run.high())
    }

    /// Returns the size of the run in bytes, including separate values that other runs wrote. If
    /// only part of the run is live, returns the approximate size of that part, which is computed
    /// from the extents that it uses.
    pub(super) fn bytes(&self) -> u64 {
        match self.is_whole() {
            true => bytes_of(&self.run),
            false => self.uses().map(|used| used.live).sum(),
        }
    }

    /// Returns the extents of the run that this member uses.
    pub(super) fn uses(&self) -> impl Iterator<Item = &ExtentUse> {
        self.run.extents_for(&self.range).map(|(_, used)| used)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.run.memory_bytes() as u64 + self.maplet.memory_bytes() + size_of::<LevelMember>() as u64
    }

    /// Returns whether the member may have messages for a key, judging by its bounds.
    #[inline]
    pub(super) fn touches(&self, key: &[u8]) -> bool {
        self.run.low() <= key && key <= self.run.high() && self.range.contains(key)
    }

    /// Returns the extents that this member references. An extent that is referenced several times
    /// occurs several times.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let of_run = self.uses().map(|used| used.extent);
        of_run.chain(self.maplet.extents().map(|(extent, _)| extent))
    }
}

/// A run and its filter, which have been written but do not belong to the structure yet.
#[derive(Debug)]
pub(super) struct ProvisionalRun {
    pub(super) built: BuiltRun,
    pub(super) maplet: maplet::WrittenMaplet,
}

impl ProvisionalRun {
    /// Frees the extents of the run and of the filter.
    pub(super) fn abandon(self, store: &Store) {
        self.built.abandon(store);
        self.maplet.abandon(store);
    }

    /// Adds the extents to the generation that is being built, and returns a member for the run.
    pub(super) fn install(self, store: &Store, ages: (RunAge, RunAge)) -> LevelMember {
        install_extents(store, &self.built, &self.maplet);
        LevelMember::whole(ages, self.built.run, self.maplet.maplet)
    }
}

/// Adds the extents that were written for a run and its filter to the generation that is being
/// built. Adds a reference to each inherited extent.
pub(super) fn install_extents(store: &Store, built: &BuiltRun, maplet: &maplet::WrittenMaplet) {
    let extents = store.extents();
    extents.install(&built.extents);
    extents.install(&maplet.extents);
    let inherited = built.run.extents().iter().filter(|used| used.inherited);
    inherited.for_each(|used| extents.retain(used.extent));
}

/// The runs of each level, from oldest to newest. Lower levels have newer data. The parts of one
/// run are neighbours, in key order.
pub(super) type LevelRuns = Vec<Vec<Arc<LevelMember>>>;

/// A version: an immutable state of the structure (V1).
#[derive(Clone, Debug, Default)]
pub struct LevelsVersion {
    pub(super) stamp: VersionStamp,
    pub(super) levels: LevelRuns,
    /// The runs of all levels, from newest to oldest.
    pub(super) newest_first: Box<[Arc<LevelMember>]>,
    /// The age that the next new run will get.
    pub(super) next_age: RunAge,
}

impl versioned::StructureVersion for LevelsVersion {
    fn stamp(&self) -> &VersionStamp {
        &self.stamp
    }
}

impl LevelsVersion {
    pub(super) fn new(stamp: VersionStamp, levels: LevelRuns, next_age: RunAge) -> LevelsVersion {
        let version = LevelsVersion {
            stamp,
            newest_first: newest_first(&levels),
            levels,
            next_age,
        };
        debug_assert!(version.is_ordered(), "newer runs stand above older ones (V2)");
        version
    }

    /// Returns whether each run is newer than all runs after it in `newest_first` (V2).
    pub(super) fn is_ordered(&self) -> bool {
        let runs = &self.newest_first;
        let has_age =
            |member: &Arc<LevelMember>| member.ages.0 <= member.ages.1 && member.ages.1 < self.next_age;
        let is_newer = |newer: &Arc<LevelMember>, older: &Arc<LevelMember>| newer.ages.0 > older.ages.1;
        let is_beside = |one: &Arc<LevelMember>, next: &Arc<LevelMember>| {
            one.ages == next.ages && next.range.ends_before(&one.range.low)
        };
        runs.iter().all(has_age)
            && runs.is_sorted_by(|newer, older| is_newer(newer, older) || is_beside(newer, older))
    }

    /// Returns whether any run may have live keys in `range`.
    pub(super) fn touches(&self, range: &KeyRange) -> bool {
        let mut runs = self.newest_first.iter();
        runs.any(|member| member.overlaps(range))
    }

    /// Returns the total bytes of the runs on levels 0 to `level`, and the total bytes of all runs.
    pub(super) fn bytes_through(&self, level: usize) -> (u64, u64) {
        let sizes = self
            .levels
            .iter()
            .map(|runs| runs.iter().map(|member| member.bytes()).sum());
        let sizes: Vec<u64> = sizes.collect();
        let newer = sizes.iter().take(level.saturating_add(1)).sum();
        (newer, sizes.iter().sum())
    }

    /// Returns how many bytes of each extent all runs together use.
    pub(super) fn live_bytes(&self) -> BTreeMap<Extent, u64> {
        let mut live = BTreeMap::new();
        for used in self.newest_first.iter().flat_map(|member| member.uses()) {
            *live.entry(used.extent).or_default() += used.live;
        }
        live
    }
}

pub(super) fn newest_first(levels: &LevelRuns) -> Box<[Arc<LevelMember>]> {
    let runs = levels.iter().flat_map(|level| level.iter().rev());
    runs.cloned().collect()
}

/// Groups a level's members so that all parts of a run are in one group. A merge always includes a
/// whole group.
pub(super) fn groups(level: &[Arc<LevelMember>]) -> impl DoubleEndedIterator<Item = &[Arc<LevelMember>]> {
    level.chunk_by(|one, next| one.ages == next.ages)
}

/// Returns the size of a run in bytes, including separate values that other runs wrote.
pub(super) fn bytes_of(run: &IndexedRun) -> u64 {
    let inherited = run.extents().iter().filter(|used| used.inherited);
    run.summary().bytes + inherited.map(|used| used.live).sum::<u64>()
}

/// The state of the writer, protected by a mutex.
#[derive(Debug, Default)]
pub(super) struct LevelsWriterState {
    pub(super) root: RootWriter,
    /// The runs that running merges read, identified by the lower of their two ages.
    pub(super) busy: BTreeSet<RunAge>,
    /// The numbers of all running merges.
    pub(super) jobs: BTreeSet<u64>,
    /// The number that the next merge will get.
    pub(super) next_job: u64,
    /// Whether a merge of the whole structure into one run has been requested.
    pub(super) wants_all: bool,
    /// Whether the most recent merge failed because the store was full.
    pub(super) lacks_merge_space: bool,
    /// The progress of merging all runs slice by slice, as is done while space is scarce.
    pub(super) sweep: SliceSweep,
    /// The age of a run that a merge has shrunk so much that it may belong on a faster tier.
    pub(super) shrunk: Option<RunAge>,
}

impl LevelsWriterState {
    /// Returns the policy's view of a version. Runs that are currently unreadable are marked as
    /// busy, so that the policy chooses other runs.
    pub(super) fn view(
        &self,
        version: &LevelsVersion,
        options: &LevelsOptions,
        tiers: &TierFiles,
    ) -> LevelsView {
        let is_out_of_reach = |member: &LevelMember| {
            let mut extents = member.extents();
            extents.any(|extent| tiers.is_unreadable(extent.tier))
        };
        let any = tiers.has_unreadable();
        let view = |group: &[Arc<LevelMember>]| {
            let is_lost = any && group.iter().any(|member| is_out_of_reach(member));
            RunView {
                bytes: group.iter().map(|member| member.bytes()).sum(),
                is_busy: is_lost || self.busy.contains(&group[0].ages.0),
                is_lost,
            }
        };
        let levels = version.levels.iter();
        LevelsView {
            unit_bytes: options.unit_bytes,
            levels: levels.map(|level| groups(level).map(view).collect()).collect(),
            wants_all: self.wants_all,
        }
    }
}

impl LevelsOptions {
    /// Returns the options for writing runs on a storage tier.
    pub(super) fn run(&self, purpose: Purpose, class: AllocationClass, tier: u8) -> RunOptions {
        RunOptions {
            class,
            tier,
            value_tier: tier,
            leaf_keys: self.stitching.is_on(),
            ..RunOptions::new(purpose)
        }
    }

    /// Returns the options for writing filters on a storage tier.
    pub(super) fn maplet(&self, purpose: Purpose, class: AllocationClass, tier: u8) -> MapletSpec {
        MapletSpec {
            fingerprint_bits: self.fingerprint_bits,
            purpose,
            class,
            tier,
        }
    }

    /// Returns these options with `stitching` instead of the current stitching options.
    #[must_use]
    pub fn with_stitching(self, stitching: StitchPolicy) -> LevelsOptions {
        LevelsOptions { stitching, ..self }
    }

    /// Returns these options with `policy` instead of the current policy.
    #[must_use]
    pub fn with_policy(self, policy: MergePolicy) -> LevelsOptions {
        LevelsOptions { policy, ..self }
    }
}
