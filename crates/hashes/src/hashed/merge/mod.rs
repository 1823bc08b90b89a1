//! Merges. A merge either combines hash stores and the newest levels of a part into the part's next
//! run, or joins several hash stores into one. The output is written outside the structure and then
//! installed atomically. In a bundle of arrays, the filter of the run's level is written at the
//! same time. In a bundle of trees, the lists above the run are written afterwards.
//!
//! *Scope*: how a chosen merge proceeds in slices; which data its output replaces.
//!
//! *Must not depend on*: which merge is next; how runs, filters and lists are stored.
//!
//! If no older data remains for the part's hashes, the merge drops deletes whose absence no reader
//! can notice, as SILT does (Lim's thesis, table 2.3). It also replaces a range delete by a delete
//! of each key in the part that the range covers. Otherwise the new run inherits the range deletes
//! of its input. A join of hash stores drops data that parts already contain.

mod records;

use crate::hashed::options::{HashedForm, IndexKind};
use crate::hashed::policy::MergeChoice;
use crate::hashed::routing::{self, RoutingFilterShape};
use crate::hashed::rules::RulesCache;
use crate::hashed::run::{
    HashRecordBuffer, HashRun, HashRunBuilder, HashRunCursor, RunOptions, WrittenHashRun,
};
use crate::hashed::state::{
    ActiveMerge, HashPartition, HashStore, HashStoreAge, HashedVersion, LevelRun, PartitionLevel,
};
use crate::hashed::structure::HashedStructure;
use crate::hashed::trees::{self, HashLayout, LeafWriter, RoutingTree, RoutingTreeBuilder};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::{MaintenanceStep, StepProgress};
use alluvium_dictionary::merge::OlderData;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::RangeTombstoneBuilder;
use alluvium_storage::Result;
use alluvium_storage::extents::{AllocationClass, UNIT};
use alluvium_storage::node::WriterOptions;
use records::HashMerger;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A merge in progress. If it is dropped, its output is discarded and the structure does not
/// change.
#[derive(Debug)]
pub struct MergeStep {
    hashed: HashedStructure,
    job: ActiveMerge,
    choice: MergeChoice,
    /// Whether a user requested the merge.
    is_wanted: bool,
    phase: MergeStepPhase,
}

#[derive(Debug)]
enum MergeStepPhase {
    Due,
    Merging(Box<HashMerger>),
    /// The run has been written. The remaining entries of its level's filter are being copied.
    Routing(Box<WrittenHashRun>, Box<routing::RoutingFilterBuilder>),
    /// The run has been written. It is being added as a leaf to the trees of its part.
    Growing(Box<WrittenHashRun>, Box<RoutingTreeBuilder>),
    Over,
}

/// The routing data above a new run: nothing, its level's filter, or a tree.
enum RunRouting {
    None,
    Filter(routing::WrittenRoutingFilter),
    Trees(RoutingTree),
}

/// Number of prefixes or sketches that a slice copies from the old filter.
const TAKEN_OVER: u64 = 1 << 14;
/// Number of list entries that cost as much to process as merging one record.
const ENTRIES: usize = 8;

/// Space that a merge needs besides the space for its input, in bytes.
const SLACK: u64 = 24 * UNIT;

/// The index and the filters of a part take up at most about 1 / `ABOVE_PART` of the bytes of its
/// records.
const ABOVE_PART: u64 = 8;

/// Space for extents that are only partly filled at the end of a merge, in bytes.
const ENDS: u64 = 4 * UNIT;

/// Approximate maximum size of a routing filter, in bytes per record.
const RECORD_BYTES: u64 = 4;

impl HashedStructure {
    /// Starts the merge that is due. Returns `None` if none is due or one is already in progress.
    pub(super) fn next_merge(&self) -> Option<MergeStep> {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let choice = self.due(&mut kept, &version)?;
        let job = ActiveMerge {
            number: kept.next_job,
        };
        kept.next_job += 1;
        kept.job = Some(job);
        let is_wanted = match choice {
            MergeChoice::Part { part, .. } => {
                // A part that has shrunk moves to a faster tier only once, so remove it from the
                // set.
                kept.shrunk.remove(&part);
                std::mem::take(&mut kept.wanted[part])
            }
            MergeChoice::Join { .. } => false,
        };
        Some(MergeStep {
            hashed: self.clone(),
            job,
            choice,
            is_wanted,
            phase: MergeStepPhase::Due,
        })
    }

    /// Requests a complete rewrite of every part.
    pub(super) fn request_full_rewrite(&self) {
        self.shared.kept.lock().wanted.fill(true);
    }

    /// Requests a rewrite of each part that has deletes outside its oldest run or in pending hash
    /// stores, in order to free the deleted data. Returns whether this requested any part for the
    /// first time.
    pub fn want_deletes_merged(&self) -> bool {
        let (mut kept, version) = (self.shared.kept.lock(), self.version());
        let parts = kept.wanted.iter_mut().zip(&version.parts);
        parts.fold(false, |is_new, (is_wanted, part)| {
            let is_next = !*is_wanted && version.has_deletes_for(part);
            *is_wanted |= is_next;
            is_new | is_next
        })
    }

    /// Returns 1 if a merge is in progress, is due, or is requested but held up by a failing tier,
    /// and 0 otherwise.
    pub(super) fn steps(&self) -> u64 {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let is_due = self.due(&mut kept, &version).is_some() || kept.wanted.contains(&true);
        u64::from(kept.job.is_some() || is_due)
    }

    /// Returns the approximate maximum number of bytes that a merge of one part writes. Merges need
    /// no more space than this, because parts are merged one at a time when space is scarce.
    #[must_use]
    pub fn merge_bytes(&self) -> u64 {
        let version = self.version();
        let of = |part: &Arc<HashPartition>| {
            let waiting = version.young.iter().filter(|young| young.age >= part.upto);
            let waiting: u64 = waiting.map(|young| young.run.device_bytes()).sum();
            let own: u64 = part.runs().map(|run| run.run.device_bytes()).sum();
            own + (waiting >> self.shared.options.parts_log)
        };
        match version.parts.iter().map(of).max().unwrap_or(0) {
            0 => 0,
            // Add the size of an index and a filter, and the unused ends of extents.
            most => most + most / ABOVE_PART + ENDS,
        }
    }

    /// Returns whether a merge is in progress, or is due and may find enough free space.
    pub(in crate::hashed) fn may_merge(&self) -> bool {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let is_due = self.due(&mut kept, &version).is_some();
        kept.job.is_some() || (is_due && !kept.lacks_merge_space)
    }
}

impl MergeStep {
    fn class(&self) -> AllocationClass {
        let shared = &self.hashed.shared;
        match shared.is_scarce.load(Ordering::Relaxed) {
            true if self.is_wanted => AllocationClass::Freeing,
            true => AllocationClass::Essential,
            // Use the reserve only if no tier has enough unreserved space.
            false if self.is_wanted && !self.has_space() => AllocationClass::Freeing,
            false => AllocationClass::Normal,
        }
    }

    /// Returns whether the store has more than one tier and one of them has space for the merge.
    /// Takes the input into account if a part is merged, but not if hash stores are joined.
    fn has_space(&self) -> bool {
        let store = &self.hashed.shared.home.store;
        let version = self.hashed.version();
        let bytes = match self.choice {
            MergeChoice::Part { part, .. } => {
                let own = version.parts[part].runs().map(|run| &run.run);
                let young = version.young.iter().map(|young| &young.run);
                let runs = own.chain(young);
                runs.map(|run| self.own(run, run.device_bytes())).sum::<u64>()
            }
            MergeChoice::Join { .. } => 0,
        };
        // Twice the size of the input leaves enough for a filter and for partly filled extents.
        store.tiers().count() > 1 && store.has_space_for(2 * bytes + SLACK)
    }

    /// Estimates one part's share of `number`, which is some quantity of a run, such as its size. A
    /// hash store contains records of all parts, so the result is the average per part.
    fn own(&self, run: &HashRun, number: u64) -> u64 {
        match run.has_filter() {
            true => (number >> self.hashed.shared.options.parts_log) + 1,
            false => number,
        }
    }

    fn begin(&self) -> Result<HashMerger> {
        let version = self.hashed.version();
        match self.choice {
            MergeChoice::Part {
                part,
                upto,
                take,
                into,
            } => self.begin_part(&version, part, upto, (take, into)),
            MergeChoice::Join { oldest, newest } => self.begin_join(&version, oldest, newest),
        }
    }

    /// Starts a merge of hash stores and the newest levels of a part.
    fn begin_part(
        &self,
        version: &HashedVersion,
        number: usize,
        upto: HashStoreAge,
        (take, into): (usize, usize),
    ) -> Result<HashMerger> {
        let options = &self.hashed.shared.options;
        let part = &version.parts[number];
        let wanted = part.upto..upto;
        let young = version.young.iter().filter(|young| wanted.contains(&young.age));
        let (above, below) = part.levels.split_at(take.min(part.levels.len()));
        let above = above.iter().flat_map(|level| level.runs.iter().rev());
        let runs: Vec<HashRun> = young
            .map(|young| young.run.clone())
            .chain(above.map(|run| run.run.clone()))
            .collect();
        let older = match below.iter().all(|level| level.runs.is_empty()) {
            true => OlderData::None,
            false => OlderData::Elsewhere,
        };
        let bytes = runs.iter().map(|run| self.own(run, run.device_bytes())).sum();
        let tier = self.hashed.part_tier(version, number, into, bytes);
        let filter = self.filter(part, &runs, (take, into))?.map(Box::new);
        let leaf = self.leaf(part, &runs, take)?.map(Box::new);
        let form = (options.index, None);
        let merging = self.begin_with(runs, options.hashes_of(number), form, older, tier)?;
        Ok(HashMerger {
            filter,
            leaf,
            ..merging
        })
    }

    /// Starts a join of hash stores. The parts may contain older data for any key.
    fn begin_join(
        &self,
        version: &HashedVersion,
        oldest: HashStoreAge,
        newest: HashStoreAge,
    ) -> Result<HashMerger> {
        let young = version.young.iter();
        let young = young.filter(|young| (oldest..=newest).contains(&young.age));
        let ages = young.clone().map(|young| young.age).collect();
        let upto = version.parts.iter().map(|part| part.upto).collect();
        let runs: Vec<HashRun> = young.map(|young| young.run.clone()).collect();
        let tier = self
            .hashed
            .incoming_tier(runs.iter().map(HashRun::device_bytes).sum());
        let form = (IndexKind::PaCHash, Some(self.hashed.shared.options.filter_bits));
        let merging = self.begin_with(runs, (0, u64::MAX), form, OlderData::Elsewhere, tier)?;
        let taken = Some((upto, ages));
        Ok(HashMerger {
            taken,
            asks_filters: false,
            ..merging
        })
    }

    /// Starts a merge of the records in a hash range. `runs` are the sources, newest first.
    fn begin_with(
        &self,
        runs: Vec<HashRun>,
        hashes: (u64, u64),
        (index, filter_bits): (IndexKind, Option<u8>),
        older: OlderData,
        tier: u8,
    ) -> Result<HashMerger> {
        let shared = &self.hashed.shared;
        let rule = shared.home.horizon.rule(older);
        let options = RunOptions {
            index,
            filter_bits,
            seed: shared.options.own_seed(),
            purpose: Purpose::Compact,
            class: self.class(),
            tier,
        };
        let most = runs.iter().map(HashRun::records).sum();
        let mut builder = HashRunBuilder::new(&shared.home.store, &options, most)?;
        let deletes: Vec<_> = runs.iter().map(|run| Arc::clone(run.range_deletes())).collect();
        if older == OlderData::Elsewhere {
            let everything = KeyRange::everything();
            let all: Vec<_> = deletes.iter().map(|deletes| (&**deletes, &everything)).collect();
            let mut all = RangeTombstoneBuilder::merged(&all);
            all.fold(&[rule.horizon]);
            builder.delete_ranges(Arc::new(all.finish()));
        }
        let count = runs.len();
        let open = |run| HashRunCursor::open_among(count, &shared.home.store, run, hashes, Purpose::Compact);
        let sources = runs
            .into_iter()
            .map(open)
            .collect::<Result<Vec<HashRunCursor>>>()?;
        let heads = sources.iter().enumerate();
        let heads = heads.filter_map(|(number, source)| Some(Reverse((source.hash()?, number))));
        Ok(HashMerger {
            heads: heads.collect(),
            sources,
            deletes,
            options: shared.options.clone(),
            taken: None,
            rule,
            rules: RulesCache::new(&shared.home.schema),
            asks_filters: shared.home.horizon.asks_filters(),
            builder,
            filter: None,
            leaf: None,
            group: HashRecordBuffer::default(),
        })
    }

    /// Estimates how many records the runs contain for the part being merged. The records of a hash
    /// store are spread over all parts, so only an average part's share of them is counted.
    fn expected(&self, runs: &[HashRun]) -> u64 {
        let of = |run: &HashRun| match run.has_filter() {
            true => (run.records() >> self.hashed.shared.options.parts_log) + 1,
            false => run.records(),
        };
        runs.iter().map(of).sum()
    }

    /// In a bundle of trees, starts the list of the new run's hashes. Returns `None` for every
    /// other form.
    fn leaf(&self, part: &HashPartition, runs: &[HashRun], take: usize) -> Result<Option<LeafWriter>> {
        let shared = &self.hashed.shared;
        let HashedForm::Bot { .. } = shared.options.form else {
            return Ok(None);
        };
        let (skipped, bits) = (shared.options.parts_log, shared.options.form.character_bits());
        let records = self.expected(runs);
        let cut = HashLayout::of_leaf(skipped, bits, records);
        let store = &shared.home.store;
        let options = store.writer_options(Purpose::Compact, self.class());
        let is_settled = take > 0;
        let leaf = LeafWriter::new(store, options, &part.levels, is_settled, cut, records)?;
        Ok(Some(leaf))
    }

    /// Starts the next phase, after all records of the run have been written.
    fn end_run(&mut self, merging: HashMerger) -> Result<StepProgress> {
        let Some(written) = merging.builder.finish()? else {
            self.install(None, RunRouting::None);
            return Ok(StepProgress::Done);
        };
        match (merging.filter, merging.leaf, self.choice) {
            (Some(filter), _, _) => self.phase = MergeStepPhase::Routing(Box::new(written), filter),
            (None, Some(leaf), MergeChoice::Part { part, .. }) if !leaf.is_settled() => {
                let (shared, version) = (&self.hashed.shared, self.hashed.version());
                let (store, digest) = (&shared.home.store, leaf.finish()?);
                let options = store.writer_options(Purpose::Compact, self.class());
                let growing = RoutingTreeBuilder::new(store, options, &version.parts[part].levels, digest)?;
                self.phase = MergeStepPhase::Growing(Box::new(written), Box::new(growing));
            }
            (None, leaf, _) => {
                let node = leaf.map(|leaf| leaf.finish()).transpose()?;
                let above = node.map_or(RunRouting::None, |node| {
                    RunRouting::Trees(RoutingTree::settled(node))
                });
                self.install(Some(written), above);
                return Ok(StepProgress::Done);
            }
        }
        Ok(StepProgress::More)
    }

    /// Starts the new filter of the level that receives the result, or returns `None` if the level
    /// has no filter.
    fn filter(
        &self,
        part: &HashPartition,
        runs: &[HashRun],
        (take, into): (usize, usize),
    ) -> Result<Option<routing::RoutingFilterBuilder>> {
        let shared = &self.hashed.shared;
        let HashedForm::Boa { refined, .. } = shared.options.form else {
            return Ok(None);
        };
        let level = part.levels.get(into).filter(|_| into >= take);
        let (old, before) = level.map_or((None, 0), |level| (level.filter.as_ref(), level.runs.len()));
        if old.is_none() && before > 0 {
            // The runs of a level without a filter are in no filter, so the level cannot have one
            // until its runs are merged.
            return Ok(None);
        }
        let records = self.expected(runs);
        let (skipped, bits) = (shared.options.parts_log, shared.options.form.character_bits());
        let shape = match (old, refined) {
            (Some(old), _) => old.shape(),
            (None, true) => RoutingFilterShape::refined(skipped, bits, records, into + 1),
            (None, false) => RoutingFilterShape::plain(skipped, bits, records),
        };
        let store = &shared.home.store;
        // Every lookup reads the filters, so place them on the tier of the newest data.
        let bytes = old.map_or(0, routing::RoutingFilter::device_bytes) + records * RECORD_BYTES;
        let options = WriterOptions {
            tier: self.hashed.incoming_tier(bytes),
            ..store.writer_options(Purpose::Compact, self.class())
        };
        let builder = routing::RoutingFilterBuilder::new(store, options, shape, old, before as u8, records)?;
        Ok(Some(builder))
    }

    fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        match std::mem::replace(&mut self.phase, MergeStepPhase::Over) {
            MergeStepPhase::Due => {
                self.phase = MergeStepPhase::Merging(Box::new(self.begin()?));
                Ok(StepProgress::More)
            }
            MergeStepPhase::Merging(mut merging) => {
                let mut left = records.max(1);
                merging.rules.clear();
                while left > 0 {
                    let Some(taken) = merging.next()? else {
                        return self.end_run(*merging);
                    };
                    left = left.saturating_sub(taken);
                }
                self.phase = MergeStepPhase::Merging(merging);
                Ok(StepProgress::More)
            }
            MergeStepPhase::Routing(written, mut filter) => {
                if !filter.go_on(TAKEN_OVER.max(records as u64))? {
                    self.phase = MergeStepPhase::Routing(written, filter);
                    return Ok(StepProgress::More);
                }
                let filter = filter.finish()?;
                self.install(Some(*written), RunRouting::Filter(filter));
                Ok(StepProgress::Done)
            }
            MergeStepPhase::Growing(written, mut growing) => {
                match growing.go_on(records.max(1).saturating_mul(ENTRIES))? {
                    Some(grown) => {
                        self.install(Some(*written), RunRouting::Trees(grown));
                        Ok(StepProgress::Done)
                    }
                    None => {
                        self.phase = MergeStepPhase::Growing(written, growing);
                        Ok(StepProgress::More)
                    }
                }
            }
            MergeStepPhase::Over => Ok(StepProgress::Done),
        }
    }

    /// Replaces the merge's input with its result in a new version.
    fn install(&self, written: Option<WrittenHashRun>, above: RunRouting) {
        let mut kept = self.hashed.shared.kept.lock();
        assert_eq!(kept.job, Some(self.job), "one merge runs at a time (W4)");
        let written_run = written.as_ref().map(WrittenHashRun::run);
        let records = written_run.map_or(0, HashRun::records);
        let bytes = written_run.map_or(0, HashRun::device_bytes);
        kept.merged = (kept.merged.0 + 1, kept.merged.1 + records);
        if let RunRouting::Trees(grown) = &above {
            kept.entries += grown.entries();
        }
        let version = self.hashed.version();
        let (mut young, mut parts) = (version.young.clone(), version.parts.clone());
        let run = written.map(|written| written.install());
        match self.choice {
            MergeChoice::Part {
                part,
                upto,
                take,
                into,
            } => {
                let mut levels = parts[part].levels.clone();
                let taken = levels.iter().take(take).flat_map(|level| &level.runs);
                let taken: u64 = taken.map(|run| run.run.device_bytes()).sum();
                if 2 * bytes <= taken {
                    kept.shrunk.insert(part);
                }
                levels.resize_with(levels.len().max(into + 1), PartitionLevel::default);
                levels[..take.min(into + 1)].fill_with(PartitionLevel::default);
                match (run.map(|run| LevelRun { upto, run }), above) {
                    (Some(run), RunRouting::Trees(grown)) => levels = trees::install(&levels, run, grown),
                    (Some(run), above) => {
                        levels[into].runs.push(run);
                        levels[into].filter = match above {
                            RunRouting::Filter(filter) => Some(filter.install()),
                            _ => None,
                        };
                    }
                    (None, _) => {}
                }
                if let HashedForm::Boa { lambda, .. } = self.hashed.shared.options.form {
                    let has_room = levels[into].runs.len() < usize::from(lambda);
                    assert!(has_room, "a level has fewer than λ runs (U3)");
                }
                let mut changed = HashPartition { levels, upto };
                changed.trim();
                parts[part] = Arc::new(changed);
            }
            MergeChoice::Join { oldest, newest } => {
                let at = young.partition_point(|young| young.age > newest);
                young.retain(|young| !(oldest..=newest).contains(&young.age));
                let joined = run.map(|run| Arc::new(HashStore { age: newest, run }));
                young.splice(at..at, joined);
                kept.joins += 1;
            }
        }
        let version = HashedVersion {
            stamp: version.stamp.changed(version.stamp.cut),
            young,
            parts,
            next_age: version.next_age,
        };
        self.hashed.publish(&mut kept, version);
        kept.lacks_merge_space = false;
        kept.job = None;
    }

    /// Ends the merge without a result. If a user requested it, the request remains.
    fn discard_output(&mut self) {
        self.phase = MergeStepPhase::Over;
        let mut kept = self.hashed.shared.kept.lock();
        if kept.job == Some(self.job) {
            kept.job = None;
            if let MergeChoice::Part { part, .. } = self.choice {
                kept.wanted[part] |= self.is_wanted;
            }
        }
    }
}

impl MaintenanceStep for MergeStep {
    fn poll(&mut self, records: usize) -> Result<StepProgress> {
        let result = self.go_on(records);
        let result = self.hashed.poison_on_error(result);
        if let Err(error) = &result {
            self.hashed.shared.kept.lock().lacks_merge_space |= error.is_full();
            self.discard_output();
        }
        result
    }

    fn number(&self) -> Option<u64> {
        Some(self.job.number)
    }
}

impl Drop for MergeStep {
    fn drop(&mut self) {
        self.discard_output();
    }
}
