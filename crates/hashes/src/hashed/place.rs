//! Chooses the tier for a run, and skips merges whose input cannot be read.
//!
//! Hash stores, filters and run descriptions are placed on the tier of the newest data, because
//! every lookup uses them. The output of a merge is placed by its age, like a level of a tree.

use super::policy::{MergeChoice, MergePolicyInput, choose};
use super::routing::RoutingFilter;
use super::run::HashRun;
use super::state::{HashPartition, HashedVersion, HashedWriterState};
use super::structure::HashedStructure;
use alluvium_dictionary::placement::{self, PlacementRequest};
use alluvium_storage::extents::Extent;

impl HashedStructure {
    /// Returns the tier for `bytes` bytes of new data: a hash store or a filter.
    pub(super) fn incoming_tier(&self, bytes: u64) -> u8 {
        placement::tier(&self.shared.home.store, &PlacementRequest::newest(bytes))
    }

    /// Returns the tier for `bytes` bytes of output of a merge into a level of a part.
    pub(super) fn part_tier(&self, version: &HashedVersion, part: usize, level: usize, bytes: u64) -> u8 {
        placement::tier_among(&self.shared.home.store, |all_bytes| {
            let (newer, all) = version.bytes_through(part, level, bytes);
            PlacementRequest::of_share(newer, all, all_bytes, bytes)
        })
    }

    /// Returns the tier for a rewritten run, which is the run's own tier if that has enough space.
    pub(super) fn tier_beside(&self, run: &HashRun) -> u8 {
        let own = run.leaf(0).map_or(0, |leaf| leaf.tier);
        let (spaces, _) = self.shared.home.store.tier_space();
        let demand = PlacementRequest::newest(run.device_bytes());
        placement::choose_from(&spaces, usize::from(own), &demand)
    }

    /// Returns the next merge whose input is on readable tiers. Returns `None` if none is due or
    /// one is already in progress.
    pub(super) fn due(&self, kept: &mut HashedWriterState, version: &HashedVersion) -> Option<MergeChoice> {
        if kept.job.is_some() {
            return None;
        }
        let options = &self.shared.options;
        let mut view = version.view(options, &kept.wanted);
        while let Some(choice) = choose(&view, options) {
            if self.has_readable_input(version, &choice) {
                return Some(choice);
            }
            view.block_merge(&choice);
        }
        self.choose_promotion(kept, version, &view)
    }

    /// Returns a merge that moves a part to a faster tier if the part has shrunk enough to belong
    /// there (the reclamation of Spillane 2012, chapter 5, applied across tiers).
    fn choose_promotion(
        &self,
        kept: &mut HashedWriterState,
        version: &HashedVersion,
        view: &MergePolicyInput,
    ) -> Option<MergeChoice> {
        while let Some(&number) = kept.shrunk.first() {
            let choice = MergeChoice::whole(view, number, &self.shared.options);
            if self.is_on_slower_tier(version, number) && self.has_readable_input(version, &choice) {
                return Some(choice);
            }
            kept.shrunk.remove(&number);
        }
        None
    }

    /// Returns whether a part has leaves on a slower tier than the whole part would be placed on if
    /// it were rewritten as a single run.
    fn is_on_slower_tier(&self, version: &HashedVersion, number: usize) -> bool {
        let part = &version.parts[number];
        let Some(level) = part.levels.len().checked_sub(1) else {
            return false;
        };
        let bytes = part.runs().map(|run| run.run.device_bytes()).sum();
        let wanted = self.part_tier(version, number, level, bytes);
        let mut leaves = part.runs().flat_map(|run| run.run.leaf(0));
        leaves.any(|leaf| leaf.tier > wanted)
    }

    /// Returns whether all input of a merge is on readable tiers. Otherwise the merge would fail.
    fn has_readable_input(&self, version: &HashedVersion, choice: &MergeChoice) -> bool {
        let tiers = self.shared.home.store.tiers();
        if !tiers.has_unreadable() {
            return true;
        }
        let is_unreadable = |(extent, _): (Extent, u64)| tiers.is_unreadable(extent.tier);
        let young = |from, to| {
            let young = version.young.iter();
            young.filter(move |young| (from..to).contains(&young.age))
        };
        let (runs, filter): (Vec<&HashRun>, _) = match *choice {
            MergeChoice::Part {
                part,
                upto,
                take,
                into,
            } => {
                let part: &HashPartition = &version.parts[part];
                let taken = part.levels.iter().take(take).flat_map(|level| &level.runs);
                let runs = young(part.upto, upto).map(|young| &young.run);
                let runs = runs.chain(taken.map(|run| &run.run)).collect();
                let level = part.levels.get(into);
                (runs, level.and_then(|level| level.filter.as_ref()))
            }
            MergeChoice::Join { oldest, newest } => {
                let runs = young(oldest, newest + 1).map(|young| &young.run);
                (runs.collect(), None)
            }
        };
        let mut extents = runs.iter().flat_map(|run| run.extents());
        let mut of_filter = filter.into_iter().flat_map(RoutingFilter::extents);
        !extents.any(is_unreadable) && !of_filter.any(is_unreadable)
    }
}
