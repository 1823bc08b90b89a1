//! Merges the runs that a policy has chosen into one run. Readers use the input runs until the
//! result replaces all of them in one atomic step.

use super::LevelsDictionary;
use super::defragment;
use super::inputs::{MergeReason, inputs};
use super::policy::{self, LevelMergePlan};
use super::state::{
    LevelMember, LevelRuns, LevelsVersion, LevelsWriterState, ProvisionalRun, RunAge, bytes_of, groups,
};
use super::sweep::left_of;
use crate::maplet::{self, MapletMerger};
use crate::merge::gather::ValueGathering;
use crate::merge::memory::merge_bytes;
use crate::merge::runs::{RunMergePlan, RunMerger, RunSource};
use crate::merge::stitch::{FilterSource, StitchInput, StitchPolicy, StitchRules};
use crate::run::{BuiltRun, ExtentUse};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::{MaintenanceStep, StepProgress};
use alluvium_dictionary::merge::OlderData;
use alluvium_dictionary::placement;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::{AllocationClass, Extent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A running merge. Dropping it before it has completed frees everything that it has written.
#[derive(Debug)]
pub struct MergeStep {
    levels: LevelsDictionary,
    number: u64,
    merge: LevelMergePlan,
    /// The input runs, from newest to oldest. They are marked as busy, so that no other merge
    /// removes them in the meantime.
    inputs: Vec<Arc<LevelMember>>,
    /// The key range to merge, or `None` for all keys.
    slice: Option<KeyRange>,
    reason: MergeReason,
    older: OlderData,
    phase: MergePhase,
    /// Estimated memory of the merge in bytes.
    memory_bytes: u64,
}

#[derive(Debug)]
enum MergePhase {
    Due,
    Merging(Box<RunMerger<StitchInput>>),
    /// The run has been written, and its filter is being built. The number is the target level.
    Mapping(Box<BuiltRun>, Box<MapletMerger>, usize),
    Over,
}

impl LevelsDictionary {
    /// Starts and returns the next merge. Returns `None` if no merge is due.
    ///
    /// # Errors
    /// The errors of [`LevelsDictionary::next_slice`].
    pub(super) fn next_merge(&self) -> Result<Option<MergeStep>> {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        if let Some(step) = self.next_slice(&mut kept, &version)? {
            return Ok(Some(step));
        }
        // As long as there are slices to merge, all free space is reserved for them.
        let is_scarce = self.shared.is_scarce.load(Ordering::Relaxed);
        if is_scarce && self.is_sweeping(&kept, &version) {
            return Ok(None);
        }
        Ok(self.next_whole(&mut kept, &version))
    }

    /// Starts and returns the next merge that covers all keys instead of a slice. Returns `None` if
    /// no merge is due.
    fn next_whole(&self, kept: &mut LevelsWriterState, version: &LevelsVersion) -> Option<MergeStep> {
        let (merge, reason) = self.due(kept, version)?;
        if reason == MergeReason::Lift {
            // Moving a shrunk run to a faster tier is attempted only once.
            kept.shrunk = None;
        }
        kept.wants_all &= reason != MergeReason::All;
        if matches!(reason, MergeReason::All | MergeReason::SkippedTombstones) {
            self.shared.skipped_tombstones.forget();
        }
        let inputs = inputs(version, &merge);
        Some(self.register_merge(kept, version, merge, inputs, reason))
    }

    /// Starts a merge of all runs in the key range `slice`.
    pub(super) fn begin_slice(
        &self,
        kept: &mut LevelsWriterState,
        version: &LevelsVersion,
        slice: KeyRange,
    ) -> MergeStep {
        let view = kept.view(version, &self.shared.options, self.shared.home.store.tiers());
        let merge = view.all().expect("nothing else is under way");
        let runs = version.newest_first.iter();
        let inputs = runs.filter(|member| !member.range.intersect(&slice).is_empty());
        let inputs = inputs.cloned().collect();
        let mut step = self.register_merge(kept, version, merge, inputs, MergeReason::Slice);
        // All runs with keys in the slice are inputs, so no older messages exist elsewhere.
        (step.slice, step.older) = (Some(slice), OlderData::None);
        step
    }

    fn register_merge(
        &self,
        kept: &mut LevelsWriterState,
        version: &LevelsVersion,
        merge: LevelMergePlan,
        inputs: Vec<Arc<LevelMember>>,
        reason: MergeReason,
    ) -> MergeStep {
        for group in groups(&inputs) {
            let is_free = kept.busy.insert(group[0].ages.0);
            assert!(is_free, "a run is merged once (V4)");
        }
        let number = kept.next_job;
        kept.next_job += 1;
        kept.jobs.insert(number);
        let oldest = inputs.last().expect("a merge takes runs");
        let of_all = version.newest_first.last();
        let is_oldest = of_all.is_some_and(|run| Arc::ptr_eq(run, oldest));
        let memory_bytes = self.memory_of_merge(&inputs);
        let merging_bytes = &self.shared.merging_bytes;
        merging_bytes.fetch_add(memory_bytes, Ordering::Relaxed);
        MergeStep {
            levels: self.clone(),
            number,
            merge,
            inputs,
            slice: None,
            reason,
            older: if is_oldest {
                OlderData::None
            } else {
                OlderData::Elsewhere
            },
            phase: MergePhase::Due,
            memory_bytes,
        }
    }

    /// Estimates the memory in bytes that merging these runs needs.
    fn memory_of_merge(&self, inputs: &[Arc<LevelMember>]) -> u64 {
        let runs = || inputs.iter().map(|member| &member.run);
        let bytes = inputs.iter().map(|member| member.bytes()).sum();
        let records = runs().map(|run| run.summary().records).sum();
        let deletes = runs().map(|run| run.range_deletes().len() as u64).sum();
        let device = self.shared.home.store.device();
        merge_bytes(device, inputs.len(), bytes, records, deletes)
    }

    /// Returns the plan of the next merge that is due, and the reason for it.
    fn due(
        &self,
        kept: &mut LevelsWriterState,
        version: &LevelsVersion,
    ) -> Option<(LevelMergePlan, MergeReason)> {
        if version.newest_first.is_empty() {
            kept.wants_all = false;
        }
        let view = kept.view(version, &self.shared.options, self.shared.home.store.tiers());
        if let Some(merge) = policy::choose(&self.shared.options.policy, &view) {
            let reason = match view.takes_all() {
                true => MergeReason::All,
                false => MergeReason::Policy,
            };
            return Some((merge, reason));
        }
        if let Some(merge) = self.lift(kept, version) {
            return Some((merge, MergeReason::Lift));
        }
        if let Some(merge) = self.merge_for_scans(kept, version) {
            return Some((merge, MergeReason::SkippedTombstones));
        }
        let merge = self.defragmentation(kept, version)?;
        Some((merge, MergeReason::Scans))
    }

    /// Returns the plan to rewrite a run that has shrunk on a faster storage tier, if the run now
    /// belongs there (this extends the reclamation of Spillane 2012, chapter 5, to tiers). Only the
    /// oldest run of a level is considered.
    fn lift(&self, kept: &mut LevelsWriterState, version: &LevelsVersion) -> Option<LevelMergePlan> {
        let age = kept.shrunk?;
        let is_it = |runs: &Vec<Arc<LevelMember>>| runs.first().is_some_and(|member| member.ages.0 == age);
        let level = version.levels.iter().position(is_it);
        let lies_deeper = level.is_some_and(|level| {
            let run = &version.levels[level][0].run;
            let wanted = self.tier(level, bytes_of(run));
            run.extents().iter().any(|used| used.extent.tier > wanted)
        });
        if !lies_deeper {
            kept.shrunk = None;
            return None;
        }
        let from = level?;
        let is_free = kept.jobs.is_empty() && !kept.wants_all;
        is_free.then_some(LevelMergePlan {
            from,
            runs: 1,
            skips: 0,
            to: from,
            into: from,
        })
    }

    /// Returns the number of running merges, plus one if another merge is due.
    pub(super) fn steps(&self) -> u64 {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let is_sweeping = self.is_sweeping(&kept, &version);
        let is_due = is_sweeping || self.due(&mut kept, &version).is_some() || kept.wants_all;
        kept.jobs.len() as u64 + u64::from(is_due)
    }

    /// Returns whether a merge is running, or is due and not known to be out of space.
    pub(super) fn may_merge(&self) -> bool {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let is_due = self.due(&mut kept, &version).is_some();
        !kept.jobs.is_empty() || (is_due && !kept.lacks_merge_space) || self.is_sweeping(&kept, &version)
    }
}

impl MergeStep {
    /// Starts a merge that rewrites the run of `member` in place, for a repair. Other parts of the
    /// run in the same level are rewritten with it into one run. Returns `None` if the structure no
    /// longer has the member.
    ///
    /// # Panics
    /// If a merge is running.
    pub(super) fn start_repair(levels: &LevelsDictionary, member: &Arc<LevelMember>) -> Option<MergeStep> {
        let mut kept = levels.shared.kept.lock();
        assert!(kept.jobs.is_empty(), "nothing else changes what is repaired");
        let version = levels.version();
        let has_it = |parts: &[Arc<LevelMember>]| parts.iter().any(|run| Arc::ptr_eq(run, member));
        let place = |runs: &Vec<Arc<LevelMember>>| groups(runs).position(has_it);
        let mut places = version.levels.iter().enumerate();
        let (level, skips) = places.find_map(|(level, runs)| Some((level, place(runs)?)))?;
        let merge = LevelMergePlan {
            from: level,
            runs: 1,
            skips,
            to: level,
            into: level,
        };
        let inputs = inputs(&version, &merge);
        Some(levels.register_merge(&mut kept, &version, merge, inputs, MergeReason::Repair))
    }

    fn class(&self) -> AllocationClass {
        match self.levels.shared.is_scarce.load(Ordering::Relaxed) {
            _ if self.reason == MergeReason::Slice => AllocationClass::Freeing,
            true if matches!(self.reason, MergeReason::All | MergeReason::Repair) => AllocationClass::Freeing,
            true => AllocationClass::Essential,
            // If there is more than one tier, another tier may have enough space.
            false if self.levels.shared.home.store.tiers().count() > 1 => AllocationClass::Normal,
            false if matches!(self.reason, MergeReason::All | MergeReason::Repair) => {
                AllocationClass::Freeing
            }
            false => AllocationClass::Normal,
        }
    }

    /// Returns the ages of the result, which are the lowest and highest age of all inputs.
    fn ages(&self) -> (RunAge, RunAge) {
        let (newest, oldest) = (self.inputs.first(), self.inputs.last());
        let (newest, oldest) = (
            newest.expect("there are inputs"),
            oldest.expect("there are inputs"),
        );
        (oldest.ages.0, newest.ages.1)
    }

    fn begin(&self) -> Result<RunMerger<StitchInput>> {
        let shared = &self.levels.shared;
        let bytes = self.inputs.iter().map(|member| member.bytes()).sum();
        let tier = self.levels.tier(self.merge.into, bytes);
        let left = self.left_behind(tier);
        let stitching = match self.reason {
            MergeReason::Scans => defragment::stitching(&self.inputs[0].run, shared.home.store.device()),
            // A repair must read the keys of every leaf, because the filter that contains them may
            // be damaged. The merge of a slice must rewrite every leaf, because adopting a leaf
            // would not free its space.
            MergeReason::Repair | MergeReason::Slice => StitchPolicy {
                threshold: u32::MAX,
                ..shared.options.stitching
            },
            _ => shared.options.stitching,
        };
        // An adopted leaf cannot move to another tier.
        let stitching = match left.is_empty() {
            true => stitching,
            false => StitchPolicy {
                threshold: u32::MAX,
                ..stitching
            },
        };
        let sources = self.inputs.iter().map(|member| RunSource {
            run: member.run.clone(),
            range: (self.slice.iter()).fold(member.range.clone(), |range, slice| range.intersect(slice)),
        });
        let plan = RunMergePlan {
            rule: shared.home.horizon.rule(self.older),
            schema: &shared.home.schema,
            asks_filters: shared.home.horizon.asks_filters(),
            sparse: self.sparse(left),
            moves_values: stitching.moves_values,
            layer_deletes: None,
            gathering: ValueGathering::Nowhere,
        };
        let options = shared.options.run(Purpose::Compact, self.class(), tier);
        let store = &shared.home.store;
        let rules = StitchRules {
            stitching,
            schema: Arc::clone(&shared.home.schema),
            asks_filters: plan.asks_filters,
            older: self.older,
            horizon: plan.rule.horizon,
            sparse: plan.sparse.clone(),
            tier,
            filters: shared.options.filters,
            are_layers: false,
            gathering: ValueGathering::Nowhere,
        };
        let open = |sources, deletes: &_| StitchInput::open_all(store, sources, deletes, &rules, |_| true);
        RunMerger::over(store, sources.collect(), plan, &options, open)
    }

    /// Returns the input extents whose contents the merge must move to `tier` from another tier.
    fn left_behind(&self, tier: u8) -> Vec<Extent> {
        let store = &self.levels.shared.home.store;
        let used = self.inputs.iter().flat_map(|member| member.uses());
        let extents = used.map(|used| used.extent);
        let lifts = |extent: &Extent| self.reason == MergeReason::Lift && extent.tier > tier;
        extents
            .filter(|extent| placement::is_left(store, extent, tier) || lifts(extent))
            .collect()
    }

    /// Returns the extents from which the merge should copy values, in sorted order. These are the
    /// input extents in which, over all runs, less than half of the bytes are live, and the extents
    /// in `left`, whose contents must move from another tier.
    fn sparse(&self, left: Vec<Extent>) -> Vec<Extent> {
        let version = self.levels.version();
        let live = version.live_bytes();
        let used = self.inputs.iter().flat_map(|member| member.uses());
        let is_sparse = |extent: &Extent| 2 * live.get(extent).copied().unwrap_or(0) < extent.bytes();
        let mut sparse: Vec<Extent> = used.map(|used| used.extent).filter(is_sparse).collect();
        if let Some(slice) = &self.slice {
            // If an extent is also used outside of the slice, copying values from it would not free
            // it.
            let lies_within = |used: &&ExtentUse| slice.contains(&used.low) && slice.contains(&used.high);
            let all = version.newest_first.iter().flat_map(|member| member.uses());
            let cut: BTreeSet<Extent> = all
                .filter(|used| !lies_within(used))
                .map(|used| used.extent)
                .collect();
            sparse.retain(|extent| !cut.contains(extent));
        }
        sparse.extend(left);
        sparse.sort_unstable();
        sparse.dedup();
        sparse
    }

    fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        match std::mem::replace(&mut self.phase, MergePhase::Over) {
            MergePhase::Due => {
                self.phase = MergePhase::Merging(Box::new(self.begin()?));
                Ok(StepProgress::More)
            }
            MergePhase::Merging(mut fused) => {
                if fused.step(records)? == StepProgress::More {
                    self.phase = MergePhase::Merging(fused);
                    return Ok(StepProgress::More);
                }
                let filters = self.filters_of_adopted(fused.inputs());
                let (built, taken) = fused.finish()?;
                self.levels.note_unread(&taken.unread);
                match built {
                    Some(built) => self.begin_mapping(built, filters),
                    None => {
                        self.install(None);
                        Ok(StepProgress::Done)
                    }
                }
            }
            MergePhase::Mapping(built, mut merger, level) => match merger.step(records.saturating_mul(4)) {
                Ok(maplet::MapletMergeProgress::More) => {
                    self.phase = MergePhase::Mapping(built, merger, level);
                    Ok(StepProgress::More)
                }
                Ok(maplet::MapletMergeProgress::Done(maplet)) => {
                    self.install(Some((
                        ProvisionalRun {
                            built: *built,
                            maplet,
                        },
                        level,
                    )));
                    Ok(StepProgress::Done)
                }
                Err(error) => {
                    built.abandon(&self.levels.shared.home.store);
                    Err(error)
                }
            },
            MergePhase::Over => Ok(StepProgress::Done),
        }
    }

    /// Returns the filters of the inputs from which leaves were adopted. The keys of these leaves
    /// were not read, so the new filter must be merged from the existing ones.
    fn filters_of_adopted(&self, inputs: &[StitchInput]) -> Vec<maplet::MapletSource> {
        if self.levels.shared.options.filters == FilterSource::Rehashed {
            return Vec::new();
        }
        let adopted = inputs.iter().filter(|input| input.adopted > 0);
        let filters = adopted.map(|input| {
            // The merge left out runs whose data is completely deleted, so find the member by its
            // pointer.
            let is_it = |member: &&Arc<LevelMember>| member.run.pointer() == input.run().pointer();
            let member = self.inputs.iter().find(is_it).expect("an input of the merge");
            maplet::MapletSource {
                maplet: member.maplet.clone(),
                rewrite: [Some(0)].into(),
            }
        });
        filters.collect()
    }

    fn begin_mapping(
        &mut self,
        mut built: BuiltRun,
        filters: Vec<maplet::MapletSource>,
    ) -> Result<StepProgress> {
        let shared = &self.levels.shared;
        let (policy, unit) = (&shared.options.policy, shared.options.unit_bytes);
        let level = policy::target(policy, unit, &self.merge, bytes_of(&built.run));
        let hashes = std::mem::take(&mut built.hashes);
        let tier = self.levels.incoming_tier(0);
        let spec = shared.options.maplet(Purpose::Compact, self.class(), tier);
        match MapletMerger::new(&shared.home.store, &spec, filters, Some((hashes, 0))) {
            Ok(merger) => {
                self.phase = MergePhase::Mapping(Box::new(built), Box::new(merger), level);
                Ok(StepProgress::More)
            }
            Err(error) => {
                built.abandon(&shared.home.store);
                Err(error)
            }
        }
    }

    /// Replaces the inputs by the result for the keys in `slice`. The result is added next to what
    /// remains of the oldest input.
    fn install_slice(&mut self, slice: &KeyRange, result: Option<ProvisionalRun>) {
        let levels = self.levels.clone();
        let store = &levels.shared.home.store;
        let mut kept = levels.shared.kept.lock();
        let version = levels.version();
        let oldest = self.inputs.last().expect("a merge takes runs");
        let is_input = |member: &Arc<LevelMember>| self.inputs.iter().any(|input| Arc::ptr_eq(input, member));
        let has_oldest =
            |level: &Vec<Arc<LevelMember>>| level.iter().any(|member| Arc::ptr_eq(member, oldest));
        let place = version.levels.iter().position(has_oldest);
        let place = place.expect("busy runs stay where they are (V4)");
        let mut runs = LevelRuns::new();
        let mut left: Vec<Arc<LevelMember>> = Vec::new();
        for level in &version.levels {
            let mut after = Vec::new();
            for member in level {
                if is_input(member) {
                    let parts: Vec<_> = left_of(member, slice).collect();
                    left.extend(parts.iter().cloned());
                    after.extend(parts);
                } else {
                    after.push(Arc::clone(member));
                }
            }
            runs.push(after);
        }
        if let Some(written) = result {
            let whole = written.install(store, oldest.ages);
            self.note(whole.run.summary().bytes);
            let level = &mut runs[place];
            level.push(Arc::new(LevelMember {
                range: slice.clone(),
                ..whole
            }));
            level.sort_by(|one, other| (one.ages.0, &one.range.low).cmp(&(other.ages.0, &other.range.low)));
        }
        let before = self.inputs.iter().flat_map(|member| member.extents());
        let after = left.iter().flat_map(|member| member.extents());
        let mut references: BTreeMap<Extent, i64> = BTreeMap::new();
        before.for_each(|extent| *references.entry(extent).or_default() -= 1);
        after.for_each(|extent| *references.entry(extent).or_default() += 1);
        for (&extent, &more) in &references {
            (0..more).for_each(|_| store.extents().retain(extent));
        }
        levels.replace_version(runs, version.stamp.cut, version.next_age);
        let epoch = store.epochs().current();
        for (&extent, &more) in &references {
            (more..0).for_each(|_| {
                store.extents().release(extent, epoch);
            });
        }
        kept.lacks_merge_space = false;
        kept.pass(slice);
        self.end(&mut kept);
    }

    /// Atomically replaces all inputs by the result.
    fn install(&mut self, result: Option<(ProvisionalRun, usize)>) {
        if let Some(slice) = self.slice.clone() {
            return self.install_slice(&slice, result.map(|(written, _)| written));
        }
        let levels = self.levels.clone();
        let mut kept = levels.shared.kept.lock();
        let version = levels.version();
        let mut runs = version.levels.clone();
        let is_input = |member: &Arc<LevelMember>| self.inputs.iter().any(|input| Arc::ptr_eq(input, member));
        let before: usize = runs.iter().map(Vec::len).sum();
        runs.iter_mut()
            .for_each(|level| level.retain(|member| !is_input(member)));
        let left: usize = runs.iter().map(Vec::len).sum();
        assert!(
            before - left == self.inputs.len(),
            "busy runs stay where they are (V4)"
        );
        if let Some((written, level)) = result {
            let member = Arc::new(written.install(&levels.shared.home.store, self.ages()));
            if runs.len() <= level {
                runs.resize(level + 1, Vec::new());
            }
            self.note(member.run.summary().bytes);
            let bytes = bytes_of(&member.run);
            let taken: u64 = self.inputs.iter().map(|input| input.bytes()).sum();
            if 2 * bytes <= taken {
                kept.shrunk = Some(member.ages.0);
            }
            let risen = self.risen(&kept, &runs, level, bytes);
            // Ages increase within a level (V2).
            let is_older = |other: &Arc<LevelMember>| other.ages.1 < member.ages.0;
            let at = runs[risen].partition_point(is_older);
            runs[risen].insert(at, member);
        }
        levels.publish(&mut kept, runs, version.stamp.cut, version.next_age);
        kept.lacks_merge_space = false;
        self.end(&mut kept);
    }

    /// Adds the number of bytes that the merge wrote to the counters.
    fn note(&self, bytes: u64) {
        let ledger = &self.levels.shared.ledger;
        match self.reason {
            MergeReason::Scans => ledger.note_defragmented(bytes),
            MergeReason::Policy
            | MergeReason::All
            | MergeReason::Lift
            | MergeReason::SkippedTombstones
            | MergeReason::Repair
            | MergeReason::Slice => {
                ledger.note_written(bytes);
            }
        }
    }

    /// Returns the level that the result moves up to from `level`. `runs` contains the remaining
    /// runs. While another merge is running, the result does not move up: the other merge's result
    /// may be newer but end up in a deeper level, which would violate V2.
    fn risen(
        &self,
        kept: &LevelsWriterState,
        runs: &[Vec<Arc<LevelMember>>],
        level: usize,
        bytes: u64,
    ) -> usize {
        let others = kept.jobs.iter().filter(|job| **job != self.number);
        if others.count() > 0 || kept.wants_all {
            return level;
        }
        let mut above: Vec<usize> = runs[..=level].iter().map(Vec::len).collect();
        if level > self.merge.to {
            // The result is the newest run of this level, so no run of the level keeps it from
            // moving up.
            above[level] = 0;
        }
        let options = &self.levels.shared.options;
        policy::rise(&options.policy, options.unit_bytes, &above, bytes)
    }

    fn end(&self, kept: &mut LevelsWriterState) -> bool {
        for input in &self.inputs {
            kept.busy.remove(&input.ages.0);
        }
        kept.jobs.remove(&self.number)
    }

    /// Ends the merge without a result, and frees everything that was written.
    fn give_up(&mut self) {
        if let MergePhase::Mapping(built, ..) = std::mem::replace(&mut self.phase, MergePhase::Over) {
            built.abandon(&self.levels.shared.home.store);
        }
        let mut kept = self.levels.shared.kept.lock();
        if kept.jobs.contains(&self.number) {
            self.end(&mut kept);
            kept.wants_all |= self.reason == MergeReason::All;
        }
    }
}

impl MaintenanceStep for MergeStep {
    fn poll(&mut self, records: usize) -> Result<StepProgress> {
        let result = self.go_on(records);
        let result = self.levels.poison_on_error(result);
        if let Err(error) = &result {
            let mut kept = self.levels.shared.kept.lock();
            match self.reason {
                MergeReason::Slice if error.is_full() => kept.sweep.shrink(),
                _ => kept.lacks_merge_space |= error.is_full(),
            }
            drop(kept);
            if self.reason == MergeReason::Scans {
                // Reset the counter, so that the run is rewritten only after as many further jumps.
                self.inputs[0].run.forget_jumps();
            }
            self.give_up();
        }
        result
    }

    fn number(&self) -> Option<u64> {
        Some(self.number)
    }
}

impl Drop for MergeStep {
    fn drop(&mut self) {
        let merging_bytes = &self.levels.shared.merging_bytes;
        let before = merging_bytes.fetch_sub(self.memory_bytes, Ordering::Relaxed);
        debug_assert!(before >= self.memory_bytes, "memory of merges is counted");
        self.give_up();
    }
}
