//! What readers see of a levels structure, a version, and what its one writer keeps beside it.

use super::options::{LevelsOptions, Policy};
use super::policy::{RunView, View};
use super::sweep::Sweep;
use crate::maplet::{self, Maplet, MapletSpec};
use crate::run::{Built, Run, RunOptions, Use};
use crate::stitch::Stitching;
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{self, RootWriter, Stamp};
use alluvium_storage::Tiers;
use alluvium_storage::extents::{Class, Extent};
use alluvium_storage::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The order in which runs have come: a later one is newer in all that it says.
pub(super) type Age = u64;

/// A run of a level, or the part of it that counts, with its filter.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The first and the last of the runs that have become this one, by when they came (V2).
    pub(super) ages: (Age, Age),
    pub(super) run: Run,
    /// All keys of the run are in it, under 0 (V3).
    pub(super) maplet: Maplet,
    /// The keys of which the run counts: a slice has merged the others (V6).
    pub(super) range: KeyRange,
}

impl Member {
    /// Creates a member of a whole run.
    pub(super) fn whole(ages: (Age, Age), run: Run, maplet: Maplet) -> Member {
        Member {
            ages,
            run,
            maplet,
            range: KeyRange::everything(),
        }
    }

    /// Returns the part of it within a range; none where the run has nothing there.
    pub(super) fn within(&self, range: &KeyRange) -> Option<Member> {
        let range = self.range.intersect(range);
        let is_some = range.overlaps(self.run.low(), self.run.high());
        is_some.then(|| Member {
            range,
            ..self.clone()
        })
    }

    /// Returns whether all of the run counts.
    pub(super) fn is_whole(&self) -> bool {
        self.range.contains(self.run.low()) && self.range.contains(self.run.high())
    }

    /// Returns whether it may say something of a key in a range.
    pub(super) fn overlaps(&self, range: &KeyRange) -> bool {
        let range = self.range.intersect(range);
        range.overlaps(self.run.low(), self.run.high())
    }

    /// Returns its bytes, with those that others wrote; of a part those of all that it shares
    /// extents with, about.
    pub(super) fn bytes(&self) -> u64 {
        match self.is_whole() {
            true => bytes_of(&self.run),
            false => self.uses().map(|used| used.live).sum(),
        }
    }

    /// The extents of the run that it needs.
    pub(super) fn uses(&self) -> impl Iterator<Item = &Use> {
        self.run.extents_for(&self.range).map(|(_, used)| used)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.run.memory_bytes() as u64 + self.maplet.memory_bytes() + size_of::<Member>() as u64
    }

    /// Returns whether it may say something of a key.
    #[inline]
    pub(super) fn touches(&self, key: &[u8]) -> bool {
        self.run.low() <= key && key <= self.run.high() && self.range.contains(key)
    }

    /// The extents that it uses, each as often as it does.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let of_run = self.uses().map(|used| used.extent);
        of_run.chain(self.maplet.extents().map(|(extent, _)| extent))
    }
}

/// A run and its filter that are written, and not yet part of the structure.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) built: Built,
    pub(super) maplet: maplet::Written,
}

impl Written {
    /// Gives it up: nothing of it is left.
    pub(super) fn abandon(self, store: &Store) {
        self.built.abandon(store);
        self.maplet.abandon(store);
    }

    /// Makes it a member, whose extents belong to the generation that is being built.
    pub(super) fn install(self, store: &Store, ages: (Age, Age)) -> Member {
        install_extents(store, &self.built, &self.maplet);
        Member::whole(ages, self.built.run, self.maplet.maplet)
    }
}

/// Makes what was written part of the generation that is being built.
pub(super) fn install_extents(store: &Store, built: &Built, maplet: &maplet::Written) {
    let extents = store.extents();
    extents.install(&built.extents);
    extents.install(&maplet.extents);
    let inherited = built.run.extents().iter().filter(|used| used.inherited);
    inherited.for_each(|used| extents.retain(used.extent));
}

/// The runs of each level, oldest first; lower levels are newer. Parts that have become one are
/// neighbours, in the order of their keys.
pub(super) type Runs = Vec<Vec<Arc<Member>>>;

/// One state of the structure. It never changes (V1).
#[derive(Clone, Debug, Default)]
pub struct Version {
    pub(super) stamp: Stamp,
    pub(super) levels: Runs,
    /// All runs, newest first.
    pub(super) newest_first: Box<[Arc<Member>]>,
    /// The age of the next run.
    pub(super) next_age: Age,
}

impl versioned::Version for Version {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }
}

impl Version {
    pub(super) fn new(stamp: Stamp, levels: Runs, next_age: Age) -> Version {
        let version = Version {
            stamp,
            newest_first: newest_first(&levels),
            levels,
            next_age,
        };
        debug_assert!(version.is_ordered(), "newer runs stand above older ones (V2)");
        version
    }

    /// Returns whether each run is newer than all that stand below it (V2).
    pub(super) fn is_ordered(&self) -> bool {
        let runs = &self.newest_first;
        let has_age = |member: &Arc<Member>| member.ages.0 <= member.ages.1 && member.ages.1 < self.next_age;
        let is_newer = |newer: &Arc<Member>, older: &Arc<Member>| newer.ages.0 > older.ages.1;
        let is_beside = |one: &Arc<Member>, next: &Arc<Member>| {
            one.ages == next.ages && next.range.ends_before(&one.range.low)
        };
        runs.iter().all(has_age)
            && runs.is_sorted_by(|newer, older| is_newer(newer, older) || is_beside(newer, older))
    }

    /// Returns whether it has anything in a range.
    pub(super) fn touches(&self, range: &KeyRange) -> bool {
        let mut runs = self.newest_first.iter();
        runs.any(|member| member.overlaps(range))
    }

    /// Returns the bytes of all runs down to a level, and of all runs.
    pub(super) fn bytes_through(&self, level: usize) -> (u64, u64) {
        let sizes = self
            .levels
            .iter()
            .map(|runs| runs.iter().map(|member| member.bytes()).sum());
        let sizes: Vec<u64> = sizes.collect();
        let newer = sizes.iter().take(level.saturating_add(1)).sum();
        (newer, sizes.iter().sum())
    }

    /// Returns what all runs together need of each extent of a run, in bytes.
    pub(super) fn live_bytes(&self) -> BTreeMap<Extent, u64> {
        let mut live = BTreeMap::new();
        for used in self.newest_first.iter().flat_map(|member| member.uses()) {
            *live.entry(used.extent).or_default() += used.live;
        }
        live
    }
}

/// All runs, newest first.
pub(super) fn newest_first(levels: &Runs) -> Box<[Arc<Member>]> {
    let runs = levels.iter().flat_map(|level| level.iter().rev());
    runs.cloned().collect()
}

/// Returns the runs of a level as merges see them: parts that have become one are one.
pub(super) fn groups(level: &[Arc<Member>]) -> impl DoubleEndedIterator<Item = &[Arc<Member>]> {
    level.chunk_by(|one, next| one.ages == next.ages)
}

/// Returns the bytes of a run, with those that others wrote.
pub(super) fn bytes_of(run: &Run) -> u64 {
    let inherited = run.extents().iter().filter(|used| used.inherited);
    run.summary().bytes + inherited.map(|used| used.live).sum::<u64>()
}

/// What only one changes at a time.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) root: RootWriter,
    /// The runs that merges read, by the first of their ages.
    pub(super) busy: BTreeSet<Age>,
    /// The merges under way.
    pub(super) jobs: BTreeSet<u64>,
    /// The number of the next merge.
    pub(super) next_job: u64,
    /// Whether all of it is to become one run.
    pub(super) wants_all: bool,
    /// Whether the last merge found no space.
    pub(super) is_cramped: bool,
    /// How far everything has been merged in slices, while space is scarce.
    pub(super) sweep: Sweep,
    /// A run that became so small that it may belong to a faster tier than it was written to.
    pub(super) shrunk: Option<Age>,
}

impl Kept {
    /// What a policy is told of a version. Runs that cannot be read for now are as busy as those
    /// that merges read: others are merged meanwhile.
    pub(super) fn view(&self, version: &Version, options: &LevelsOptions, tiers: &Tiers) -> View {
        let is_out_of_reach = |member: &Member| {
            let mut extents = member.extents();
            extents.any(|extent| tiers.is_unreadable(extent.tier))
        };
        let any = tiers.has_unreadable();
        let view = |group: &[Arc<Member>]| {
            let is_lost = any && group.iter().any(|member| is_out_of_reach(member));
            RunView {
                bytes: group.iter().map(|member| member.bytes()).sum(),
                is_busy: is_lost || self.busy.contains(&group[0].ages.0),
                is_lost,
            }
        };
        let levels = version.levels.iter();
        View {
            unit_bytes: options.unit_bytes,
            levels: levels.map(|level| groups(level).map(view).collect()).collect(),
            wants_all: self.wants_all,
        }
    }
}

impl LevelsOptions {
    /// Returns how runs of a tier are written.
    pub(super) fn run(&self, purpose: Purpose, class: Class, tier: u8) -> RunOptions {
        RunOptions {
            class,
            tier,
            value_tier: tier,
            leaf_keys: self.stitching.is_on(),
            ..RunOptions::new(purpose)
        }
    }

    /// Returns how filters of a tier are written.
    pub(super) fn maplet(&self, purpose: Purpose, class: Class, tier: u8) -> MapletSpec {
        MapletSpec {
            fingerprint_bits: self.fingerprint_bits,
            purpose,
            class,
            tier,
        }
    }

    /// The same options with another stitching.
    #[must_use]
    pub fn with_stitching(self, stitching: Stitching) -> LevelsOptions {
        LevelsOptions { stitching, ..self }
    }

    /// The same options with another policy.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> LevelsOptions {
        LevelsOptions { policy, ..self }
    }
}
