//! The merge of a compaction: copies all records, or adopts whole leaves where that is cheaper.

use crate::fuse::{Fused, Plan, Source, Taken};
use crate::run::{Built, Run, RunOptions};
use crate::stitch::{Filters, Rules, Stitched, Stitching, threshold};
use crate::tiered::trunk::Adoption;
use alluvium_dictionary::contract::Progress;
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, Result};
use std::fmt;
use std::sync::Arc;

/// A running merge.
pub(super) enum Merging {
    /// Copies all records.
    Copying(Box<Fused>),
    Stitching(Box<Fused<Stitched>>),
}

/// A run whose leaves were adopted without reading their keys.
pub(super) struct Adopted {
    pub(super) run: NodePointer,
    pub(super) leaves: u64,
    pub(super) records: u64,
}

/// The conditions for adopting leaves.
pub(super) struct Choice<'a> {
    pub(super) adoption: Adoption,
    /// Approximate number of future merges of each key.
    pub(super) rewrites: u64,
    /// Returns whether the maplet of a run may represent its keys here.
    pub(super) is_whole: &'a dyn Fn(&Run) -> bool,
}

impl fmt::Debug for Merging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Merging::Copying(fused) => fused.fmt(f),
            Merging::Stitching(fused) => fused.fmt(f),
        }
    }
}

impl Choice<'_> {
    /// Returns the number of consecutive leaves up to which they are copied instead of adopted.
    /// `None` if all leaves are copied.
    fn threshold(&self, store: &Store, sources: &[Source]) -> Option<u32> {
        let may_adopt = |source: &&Source| (self.is_whole)(&source.run) && source.run.is_adoptable();
        let has_deletes = |source: &Source| !source.run.range_deletes().is_empty();
        if self.adoption == Adoption::Never || sources.iter().any(has_deletes) {
            return None;
        }
        let largest = sources
            .iter()
            .filter(may_adopt)
            .map(|source| source.run.summary())
            .max_by_key(|summary| summary.leaves)?;
        let threshold = match self.adoption {
            Adoption::Above(leaves) => leaves,
            _ => {
                let leaf_bytes = largest.bytes / largest.leaves.max(1);
                threshold(store.device(), leaf_bytes, self.rewrites)
            }
        };
        assert!(self.rewrites > 0, "a compaction is a rewrite");
        // The last leaf of a run is always copied.
        (largest.leaves > u64::from(threshold) + 1).then_some(threshold)
    }
}

impl Merging {
    /// Opens the sources, newest first.
    pub(super) fn new(
        store: &Arc<Store>,
        sources: Vec<Source>,
        plan: Plan<'_>,
        options: &RunOptions,
        choice: &Choice<'_>,
    ) -> Result<Merging> {
        let Some(threshold) = choice.threshold(store, &sources) else {
            let fused = Fused::new(store, sources, plan, options)?;
            return Ok(Merging::Copying(Box::new(fused)));
        };
        let rules = Rules {
            stitching: Stitching {
                threshold,
                ..Stitching::default()
            },
            schema: Arc::clone(plan.schema),
            asks_filters: plan.asks_filters,
            filters: Filters::Merged,
            older: plan.rule.older,
            sparse: plan.sparse.clone(),
            tier: options.tier,
        };
        let open = |sources| Stitched::open_all(store, sources, &rules, |run| (choice.is_whole)(run));
        let fused = Fused::over(store, sources, plan, options, open)?;
        Ok(Merging::Stitching(Box::new(fused)))
    }

    /// Returns whether the merge searches for leaves to adopt.
    pub(super) fn looks(&self) -> bool {
        matches!(self, Merging::Stitching(_))
    }

    pub(super) fn step(&mut self, records: usize) -> Result<Progress> {
        match self {
            Merging::Copying(fused) => fused.step(records),
            Merging::Stitching(fused) => fused.step(records),
        }
    }

    /// Completes the run. There is none if no record remains.
    pub(super) fn finish(self) -> Result<(Option<Built>, Taken, Vec<Adopted>)> {
        let fused = match self {
            Merging::Copying(fused) => {
                let (built, taken) = fused.finish()?;
                return Ok((built, taken, Vec::new()));
            }
            Merging::Stitching(fused) => fused,
        };
        let adopted: Vec<Adopted> = fused
            .inputs()
            .iter()
            .filter(|input| input.adopted > 0)
            .map(|input| Adopted {
                run: *input.run().pointer(),
                leaves: input.adopted,
                records: input.adopted_records,
            })
            .collect();
        let (built, taken) = fused.finish()?;
        let leaves: u64 = adopted.iter().map(|adopted| adopted.leaves).sum();
        assert!(leaves == taken.leaves, "a leaf is taken over from one run");
        assert!(
            adopted.is_empty() || built.is_some(),
            "what was taken over is in the result"
        );
        Ok((built, taken, adopted))
    }
}
