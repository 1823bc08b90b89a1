//! Choice of the tier of a run, and detection of unreadable tiers.
//!
//! Hash stores, filters and the descriptions of runs are placed with the newest data, because every
//! lookup uses them. The output of merges is placed by its age, like the levels of a tree.

use super::policy::{Choice, View, choose};
use super::routing::Routing;
use super::run::Run;
use super::state::{Kept, Part, Version};
use super::structure::Hashed;
use alluvium_dictionary::placement::{self, Demand};
use alluvium_storage::extents::Extent;

impl Hashed {
    /// Returns the tier for `bytes` of incoming data, and for filters.
    pub(super) fn incoming_tier(&self, bytes: u64) -> u8 {
        placement::tier(&self.shared.home.store, &Demand::newest(bytes))
    }

    /// Returns the tier for `bytes` of output of a merge into a level of a part.
    pub(super) fn part_tier(&self, version: &Version, part: usize, level: usize, bytes: u64) -> u8 {
        placement::tier_among(&self.shared.home.store, |all_bytes| {
            let (newer, all) = version.bytes_through(part, level, bytes);
            Demand::of_share(newer, all, all_bytes, bytes)
        })
    }

    /// Returns the tier for the replacement of a run: the run's own tier, if it has space.
    pub(super) fn tier_beside(&self, run: &Run) -> u8 {
        let own = run.leaf(0).map_or(0, |leaf| leaf.tier);
        let (spaces, _) = self.shared.home.store.tier_space();
        let demand = Demand::newest(run.device_bytes());
        placement::choose_from(&spaces, usize::from(own), &demand)
    }

    /// Returns the merge that is due, skipping merges whose input cannot be read.
    pub(super) fn due(&self, kept: &mut Kept, version: &Version) -> Option<Choice> {
        if kept.job.is_some() {
            return None;
        }
        let options = &self.shared.options;
        let mut view = version.view(options, &kept.wanted);
        while let Some(choice) = choose(&view, options) {
            if self.is_within_reach(version, &choice) {
                return Some(choice);
            }
            view.hold(&choice);
        }
        self.lift(kept, version, &view)
    }

    /// Returns a merge that moves a shrunken part to a faster tier, if it now belongs there (the
    /// reclamation of Spillane 2012, chapter 5, across tiers).
    fn lift(&self, kept: &mut Kept, version: &Version, view: &View) -> Option<Choice> {
        while let Some(&number) = kept.shrunk.first() {
            let choice = Choice::whole(view, number, &self.shared.options);
            if self.lies_deeper(version, number) && self.is_within_reach(version, &choice) {
                return Some(choice);
            }
            kept.shrunk.remove(&number);
        }
        None
    }

    /// Returns whether a part has leaves on a slower tier than a single run of the whole part would
    /// have.
    fn lies_deeper(&self, version: &Version, number: usize) -> bool {
        let part = &version.parts[number];
        let Some(level) = part.levels.len().checked_sub(1) else {
            return false;
        };
        let bytes = part.runs().map(|run| run.run.device_bytes()).sum();
        let wanted = self.part_tier(version, number, level, bytes);
        let mut leaves = part.runs().flat_map(|run| run.run.leaf(0));
        leaves.any(|leaf| leaf.tier > wanted)
    }

    /// Returns whether no input of a merge is on a tier with failed reads, where the merge would
    /// fail, too.
    fn is_within_reach(&self, version: &Version, choice: &Choice) -> bool {
        let tiers = self.shared.home.store.tiers();
        if !tiers.has_unreadable() {
            return true;
        }
        let is_unreadable = |(extent, _): (Extent, u64)| tiers.is_unreadable(extent.tier);
        let young = |from, to| {
            let young = version.young.iter();
            young.filter(move |young| (from..to).contains(&young.age))
        };
        let (runs, filter): (Vec<&Run>, _) = match *choice {
            Choice::Part {
                part,
                upto,
                take,
                into,
            } => {
                let part: &Part = &version.parts[part];
                let taken = part.levels.iter().take(take).flat_map(|level| &level.runs);
                let runs = young(part.upto, upto).map(|young| &young.run);
                let runs = runs.chain(taken.map(|run| &run.run)).collect();
                let level = part.levels.get(into);
                (runs, level.and_then(|level| level.filter.as_ref()))
            }
            Choice::Join { oldest, newest } => {
                let runs = young(oldest, newest + 1).map(|young| &young.run);
                (runs.collect(), None)
            }
        };
        let mut extents = runs.iter().flat_map(|run| run.extents());
        let mut of_filter = filter.into_iter().flat_map(Routing::extents);
        !extents.any(is_unreadable) && !of_filter.any(is_unreadable)
    }
}
