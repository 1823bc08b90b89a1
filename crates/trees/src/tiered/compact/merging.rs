//! The merge step of a compaction. It copies all records, or adopts whole leaves where that is
//! cheaper.

use crate::merge::runs::{InputCounts, RunMergePlan, RunMerger, RunSource};
use crate::merge::stitch::{FilterSource, StitchInput, StitchPolicy, StitchRules, threshold};
use crate::run::{BuiltRun, IndexedRun, RunOptions};
use crate::tiered::trunk::AdoptionPolicy;
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, Result};
use std::fmt;
use std::sync::Arc;

pub(super) enum CompactionMerge {
    /// Copies every record and adopts no leaf.
    Copying(Box<RunMerger>),
    Stitching(Box<RunMerger<StitchInput>>),
}

/// A run from which leaves were adopted without reading their keys.
pub(super) struct AdoptedRun {
    pub(super) run: NodePointer,
    pub(super) leaves: u64,
    pub(super) records: u64,
}

/// The conditions under which a compaction adopts leaves.
pub(super) struct AdoptionConditions<'a> {
    pub(super) adoption: AdoptionPolicy,
    /// Approximate number of times that later compactions will merge each key again.
    pub(super) rewrites: u64,
    /// Returns whether the whole maplet of the run's group may be merged into the new maplet.
    /// Adoption requires this.
    pub(super) is_whole: &'a dyn Fn(&IndexedRun) -> bool,
}

impl fmt::Debug for CompactionMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompactionMerge::Copying(fused) => fused.fmt(f),
            CompactionMerge::Stitching(fused) => fused.fmt(f),
        }
    }
}

impl AdoptionConditions<'_> {
    /// Returns the length up to which a sequence of adoptable leaves is copied instead of adopted,
    /// or `None` if all leaves are to be copied.
    fn threshold(&self, store: &Store, sources: &[RunSource]) -> Option<u32> {
        let may_adopt = |source: &&RunSource| (self.is_whole)(&source.run) && source.run.is_adoptable(false);
        if self.adoption == AdoptionPolicy::Never {
            return None;
        }
        let largest = sources
            .iter()
            .filter(may_adopt)
            .map(|source| source.run.summary())
            .max_by_key(|summary| summary.leaves)?;
        let threshold = match self.adoption {
            AdoptionPolicy::Above(leaves) => leaves,
            _ => {
                let leaf_bytes = largest.bytes / largest.leaves.max(1);
                threshold(store.device(), leaf_bytes, self.rewrites)
            }
        };
        assert!(self.rewrites > 0, "a compaction is a rewrite");
        // The last leaf of a run is never adopted.
        (largest.leaves > u64::from(threshold) + 1).then_some(threshold)
    }
}

impl CompactionMerge {
    /// Creates the merge of the given sources, which are ordered from newest to oldest.
    pub(super) fn new(
        store: &Arc<Store>,
        sources: Vec<RunSource>,
        plan: RunMergePlan<'_>,
        options: &RunOptions,
        choice: &AdoptionConditions<'_>,
    ) -> Result<CompactionMerge> {
        let Some(threshold) = choice.threshold(store, &sources) else {
            let fused = RunMerger::new(store, sources, plan, options)?;
            return Ok(CompactionMerge::Copying(Box::new(fused)));
        };
        let rules = StitchRules {
            stitching: StitchPolicy {
                threshold,
                ..StitchPolicy::default()
            },
            schema: Arc::clone(plan.schema),
            asks_filters: plan.asks_filters,
            filters: FilterSource::Merged,
            are_layers: false,
            gathering: plan.gathering,
            older: plan.rule.older,
            horizon: plan.rule.horizon,
            sparse: plan.sparse.clone(),
            tier: options.tier,
        };
        let open = |sources, deletes: &Arc<RangeTombstoneIndex>| {
            StitchInput::open_all(store, sources, deletes, &rules, |run| (choice.is_whole)(run))
        };
        let fused = RunMerger::over(store, sources, plan, options, open)?;
        Ok(CompactionMerge::Stitching(Box::new(fused)))
    }

    /// Returns whether the merge looks for leaves to adopt.
    pub(super) fn is_stitching(&self) -> bool {
        matches!(self, CompactionMerge::Stitching(_))
    }

    pub(super) fn step(&mut self, records: usize) -> Result<StepProgress> {
        match self {
            CompactionMerge::Copying(fused) => fused.step(records),
            CompactionMerge::Stitching(fused) => fused.step(records),
        }
    }

    /// Completes the run. Returns the run (`None` if no record remains), the input counts, and the
    /// runs from which leaves were adopted.
    pub(super) fn finish(self) -> Result<(Option<BuiltRun>, InputCounts, Vec<AdoptedRun>)> {
        let fused = match self {
            CompactionMerge::Copying(fused) => {
                let (built, taken) = fused.finish()?;
                return Ok((built, taken, Vec::new()));
            }
            CompactionMerge::Stitching(fused) => fused,
        };
        let adopted: Vec<AdoptedRun> = fused
            .inputs()
            .iter()
            .filter(|input| input.adopted > 0)
            .map(|input| AdoptedRun {
                run: *input.run().pointer(),
                leaves: input.adopted,
                records: input.adopted_records,
            })
            .collect();
        let (built, taken) = fused.finish()?;
        let leaves: u64 = adopted.iter().map(|adopted| adopted.leaves).sum();
        assert!(
            leaves == taken.unread.adopted,
            "a leaf is taken over from one run"
        );
        assert!(
            adopted.is_empty() || built.is_some(),
            "what was taken over is in the result"
        );
        Ok((built, taken, adopted))
    }
}
