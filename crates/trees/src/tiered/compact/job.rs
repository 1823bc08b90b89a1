//! A compaction job, which merges part of one pivot's stack into one run. The merge runs without
//! the trunk's lock. Its output replaces the inputs only if they are unchanged by then (T4).

use super::merging::{AdoptedRun, AdoptionConditions, CompactionMerge};
use crate::maplet::{self, MapletMerger};
use crate::merge::gather::{self, ValueGathering};
use crate::merge::memory::merge_bytes;
use crate::merge::runs::{InputCounts, RunMergePlan, RunSource, UnreadLeaves};
use crate::run::{BuiltRun, IndexedRun, RangeWeight};
use crate::tiered::policy;
use crate::tiered::trunk::{
    AdoptionPolicy, CompactionReason, JobClaim, JobId, JobInputs, MapletGroup, OwnedPart, Trunk, TrunkPart,
    find_claimed_pivot, is_claim_valid, replace,
};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::{AllocationClass, Extent};
use alluvium_storage::{NodePointer, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The parameters of a compaction job.
pub(super) struct JobSpec {
    pub(super) claim: JobClaim,
    pub(super) stretch: JobInputs,
    /// The inputs. Their extents are counted as in use by the job.
    pub(super) pins: Arc<[(TrunkPart, KeyRange)]>,
    /// The pivot's own parts whose maplets are merged into the maplet of the new run.
    pub(super) base: Vec<OwnedPart>,
    /// Numbers of the groups whose leaves may be adopted.
    pub(super) whole: Vec<u64>,
    /// Sparsely used extents of the inputs. The job copies the live values out of them so that they
    /// can be freed.
    pub(super) sparse: Vec<Extent>,
    /// Approximate numbers of records and bytes that the job reads.
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Whether the job frees as much space as it needs. Meaningful only while space is scarce.
    pub(super) frees: bool,
}

/// Approximate size of one fingerprint in a maplet, in bytes.
const FINGERPRINT: u64 = 6;

/// A running compaction. Dropping it before it is done discards its output.
#[derive(Debug)]
pub struct CompactionJob {
    trunk: Arc<Trunk>,
    id: JobId,
    claim: JobClaim,
    stretch: JobInputs,
    /// The inputs, whose extents must not be released before the job ends.
    pins: Arc<[(TrunkPart, KeyRange)]>,
    /// The pivot's own parts whose maplets are merged with the fingerprints of the new run.
    base: Vec<OwnedPart>,
    /// Numbers of the groups whose leaves may be adopted.
    whole: Vec<u64>,
    /// Approximate number of the new run's records that supersede older records in the leaf.
    renews: u64,
    phase: JobPhase,
    /// Approximate number of bytes that the job reads.
    bytes: u64,
    /// The storage tier to which the run is written.
    tier: u8,
    /// Estimated memory in bytes that the job uses while it runs.
    memory: u64,
    /// Whether the job frees as much space as it needs. Meaningful only while space is scarce.
    frees: bool,
}

#[derive(Debug)]
enum JobPhase {
    /// Nothing has been read yet. Holds the sparsely used extents whose values will be copied.
    Due(Vec<Extent>),
    Merging(CompactionMerge),
    /// The run has been written. Its maplet is being merged with others.
    Mapping(Box<BuiltRun>, Box<MapletMerger>),
    Over,
}

impl CompactionJob {
    /// Creates a job. The job table must already list it as running, and its inputs must be pinned.
    pub(super) fn new(trunk: &Arc<Trunk>, id: JobId, task: JobSpec) -> CompactionJob {
        let pins = &task.pins;
        let runs: usize = pins.iter().map(|(part, within)| part.runs_in(within)).sum();
        let deletes = pins.iter().flat_map(|(part, _)| part.group.runs());
        let deletes = deletes.map(|(_, run)| run.range_deletes().len() as u64).sum();
        let device = trunk.store.device();
        let gathering = match trunk.options.schema.gathers_values_in(&task.claim.range) {
            true => gather::memory_bytes(device.half_bandwidth()).min(task.bytes),
            false => 0,
        };
        let memory = merge_bytes(device, runs, task.bytes, task.records, deletes) + gathering;
        let compactions = &trunk.totals.compactions;
        compactions.fetch_add(memory, Ordering::Relaxed);
        CompactionJob {
            trunk: Arc::clone(trunk),
            id,
            claim: task.claim,
            stretch: task.stretch,
            pins: task.pins,
            base: task.base,
            whole: task.whole,
            renews: 0,
            phase: JobPhase::Due(task.sparse),
            bytes: task.bytes,
            tier: 0,
            memory,
            frees: task.frees,
        }
    }

    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    /// Describes the compaction for log and error messages.
    #[must_use]
    pub fn describe(&self) -> String {
        let JobClaim { height, range, .. } = &self.claim;
        let JobInputs { own, bundles, .. } = &self.stretch;
        format!("compaction at height {height} of {range:?}: own parts {own:?} and {bundles} bundles")
    }

    /// Returns the space class that the job allocates from. A job that frees space by dropping
    /// deletes and old versions may use the whole space reserve. While space is scarce, a job that
    /// frees none may use part of the reserve.
    fn class(&self) -> AllocationClass {
        match self.stretch.reason {
            _ if self.trunk.is_scarce() && self.frees => AllocationClass::Freeing,
            _ if self.trunk.is_scarce() => AllocationClass::Essential,
            CompactionReason::Writes => AllocationClass::Normal,
            // With several tiers, another tier may have space, so the reserve is not needed.
            _ if self.trunk.store.tiers().count() > 1 => AllocationClass::Normal,
            CompactionReason::Crowd | CompactionReason::Full => AllocationClass::Freeing,
        }
    }

    fn begin(&mut self, mut sparse: Vec<Extent>) -> Result<CompactionMerge> {
        self.tier = self.trunk.compacted_tier(self.claim.height, self.bytes);
        let trunk = &self.trunk;
        // Each run is one source of the merge. Sources are ordered from newest to oldest.
        let (mut sources, mut left) = (Vec::new(), Vec::new());
        for (part, within) in self.pins.iter().rev() {
            for (_, run) in part.group.runs().rev() {
                if within.overlaps(run.low(), run.high()) {
                    left.extend(trunk.left_behind(run, self.tier));
                    sources.push(RunSource {
                        run: run.clone(),
                        range: within.clone(),
                    });
                }
            }
        }
        let rule = trunk.horizon.rule(self.stretch.older);
        // Adopted leaves stay on their tier, so nothing is adopted if data must move to another
        // tier.
        let adoption = match left.is_empty() {
            true => trunk.adoption(self.stretch.reason == CompactionReason::Full),
            false => AdoptionPolicy::Never,
        };
        sparse.append(&mut left);
        sparse.sort_unstable();
        sparse.dedup();
        let options = trunk.run_options(Purpose::Compact, self.class(), self.tier);
        let plan = RunMergePlan {
            rule,
            schema: &trunk.options.schema,
            asks_filters: trunk.horizon.asks_filters(),
            sparse,
            moves_values: false,
            layer_deletes: None,
            // What is gathered takes space before it frees any.
            gathering: match trunk.is_scarce() {
                true => ValueGathering::Nowhere,
                false => ValueGathering::WhereAsked,
            },
        };
        let choice = AdoptionConditions {
            adoption,
            rewrites: u64::from(self.claim.height) + 1,
            is_whole: &|run| self.whole_group_of(run.pointer()).is_some(),
        };
        CompactionMerge::new(&trunk.store, sources, plan, &options, &choice)
    }

    /// Returns the group that contains a run, or `None` if the run's leaves may not be adopted.
    fn whole_group_of(&self, run: &NodePointer) -> Option<&Arc<MapletGroup>> {
        let groups = self.pins.iter().map(|(part, _)| &part.group);
        let mut whole = groups.filter(|group| self.whole.contains(&group.id));
        whole.find(|group| group.runs().any(|(_, other)| other.pointer() == run))
    }

    /// Runs one slice of the compaction, which reads about `records` records.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full) or I/O errors. An error discards the output,
    /// and the compaction becomes due again.
    pub fn poll(&mut self, records: usize) -> Result<StepProgress> {
        if !self.trunk.lock().inflight.is_wanted(self.id) {
            self.give_up();
            return Ok(StepProgress::Done);
        }
        let result = self.go_on(records);
        let result = self.trunk.poison_on_error(result);
        if result.is_err() {
            self.give_up();
            self.trunk.lock().inflight.failed(self.id);
        }
        match &result {
            Ok(StepProgress::Done) => self.trunk.note_space(true),
            Err(error) if error.is_full() => self.trunk.note_space(false),
            _ => {}
        }
        result
    }

    fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        match std::mem::replace(&mut self.phase, JobPhase::Over) {
            JobPhase::Due(sparse) => {
                self.phase = JobPhase::Merging(self.begin(sparse)?);
                Ok(StepProgress::More)
            }
            JobPhase::Merging(mut merging) => {
                if merging.step(records)? == StepProgress::More {
                    self.phase = JobPhase::Merging(merging);
                    return Ok(StepProgress::More);
                }
                let has_looked = merging.is_stitching();
                let (built, taken, adopted) = merging.finish()?;
                self.note(&taken, built.as_ref());
                if has_looked {
                    let UnreadLeaves { adopted, dropped } = taken.unread;
                    self.trunk.note_adoption(adopted + dropped);
                }
                match built {
                    Some(built) => self.begin_mapping(built, &adopted),
                    None => {
                        self.install(None);
                        Ok(StepProgress::Done)
                    }
                }
            }
            JobPhase::Mapping(built, mut merger) => match merger.step(records.saturating_mul(4)) {
                Ok(maplet::MapletMergeProgress::More) => {
                    self.phase = JobPhase::Mapping(built, merger);
                    Ok(StepProgress::More)
                }
                Ok(maplet::MapletMergeProgress::Done(written)) => {
                    self.install(Some((*built, written)));
                    Ok(StepProgress::Done)
                }
                Err(error) => {
                    built.abandon(&self.trunk.store);
                    Err(error)
                }
            },
            JobPhase::Over => Ok(StepProgress::Done),
        }
    }

    fn note(&self, taken: &InputCounts, built: Option<&BuiltRun>) {
        let tallies = &self.trunk.tallies;
        tallies.read.fetch_add(taken.records, Ordering::Relaxed);
        if self.stretch.reason != CompactionReason::Writes {
            tallies.rewritten.fetch_add(taken.records, Ordering::Relaxed);
        }
        if let Some(built) = built {
            let summary = built.run.summary();
            tallies.written.fetch_add(summary.records, Ordering::Relaxed);
            tallies
                .compacted_bytes
                .fetch_add(summary.bytes, Ordering::Relaxed);
            tallies
                .adopted_bytes
                .fetch_add(built.adopted_bytes, Ordering::Relaxed);
        }
        tallies
            .gathered_bytes
            .fetch_add(taken.gathered_bytes, Ordering::Relaxed);
        let UnreadLeaves { adopted, dropped } = taken.unread;
        tallies.adopted_leaves.fetch_add(adopted, Ordering::Relaxed);
        tallies.dropped_leaves.fetch_add(dropped, Ordering::Relaxed);
    }

    fn begin_mapping(&mut self, mut built: BuiltRun, adopted: &[AdoptedRun]) -> Result<StepProgress> {
        let mut value = 0;
        let mut sources = Vec::new();
        for owned in &self.base {
            let group = &owned.part.group;
            let rewrite = (0..group.runs.len())
                .map(|run| Some((value + run) as u16))
                .collect();
            sources.push(maplet::MapletSource {
                maplet: group.maplet.clone(),
                rewrite,
            });
            value += group.runs.len();
        }
        assert!(
            value <= usize::from(u16::MAX),
            "run {value} has a value of its own in the maplet (T6)"
        );
        // The merge did not read the keys of adopted leaves, so their fingerprints come from the
        // maplets of their groups (T6).
        let mut groups: Vec<&Arc<MapletGroup>> = Vec::new();
        for adopted in adopted {
            let group = self
                .whole_group_of(&adopted.run)
                .expect("leaves are taken over from groups that are whole");
            if !groups.iter().any(|other| other.id == group.id) {
                groups.push(group);
                sources.push(maplet::MapletSource {
                    maplet: group.maplet.clone(),
                    rewrite: vec![Some(value as u16); group.runs.len()].into(),
                });
            }
        }
        let hashes = std::mem::take(&mut built.hashes);
        let adopted_records = adopted.iter().map(|adopted| adopted.records).sum();
        self.renews =
            self.estimate_superseding(&hashes) + self.estimate_superseding_adopted(&groups, adopted_records);
        let tier = self
            .trunk
            .maplet_tier(hashes.len() as u64 * FINGERPRINT, self.tier);
        let spec = self.trunk.maplet_spec(Purpose::Compact, self.class(), tier);
        match MapletMerger::new(&self.trunk.store, &spec, sources, Some((hashes, value as u16))) {
            Ok(merger) => {
                self.phase = JobPhase::Mapping(Box::new(built), Box::new(merger));
                Ok(StepProgress::More)
            }
            Err(error) => {
                built.abandon(&self.trunk.store);
                Err(error)
            }
        }
    }

    /// Estimates how many keys of a new run the leaf already contains. `hashes` are the hashes of
    /// all keys of the run. Only the keys with the lowest hashes are looked up, because the first
    /// pages of the maplets cover them. An unreadable maplet counts as empty, which is harmless:
    /// the estimate only affects when the leaf is rewritten.
    fn estimate_superseding(&self, hashes: &[u64]) -> u64 {
        let count = hashes.len() as u64;
        let highest = (u64::MAX / count.max(1)).saturating_mul(policy::SAMPLE);
        let sample: Vec<u64> = hashes.iter().copied().filter(|&hash| hash <= highest).collect();
        count * self.count_held_keys(&sample) / (sample.len() as u64).max(1)
    }

    /// Estimates how many records in adopted leaves supersede older records in the leaf. `groups`
    /// are the groups that the leaves were adopted from, and `records` is the number of records in
    /// the leaves. The first page of each group's maplet serves as the sample.
    fn estimate_superseding_adopted(&self, groups: &[&Arc<MapletGroup>], records: u64) -> u64 {
        // The estimate is used only in leaves, and is zero if the leaf has no older parts.
        if self.claim.height > 0 || self.stretch.own.start == 0 || records == 0 {
            return 0;
        }
        let (mut held, mut asked) = (0, 0);
        for group in groups {
            let bits = group.maplet.geometry().fingerprint_bits();
            let tiers = self.trunk.store.tiers();
            let reading = group.maplet.read_entries(tiers, Purpose::Compact);
            let Ok(mut reading) = reading else { continue };
            let Ok(Some(page)) = reading.next_page() else {
                continue;
            };
            let entries = page.iter().take(policy::SAMPLE as usize);
            let hash = |number: u64| number << (u64::BITS - bits);
            let sample: Vec<u64> = entries
                .map(|entry| hash(entry.fingerprint().number(bits)))
                .collect();
            held += self.count_held_keys(&sample);
            asked += sample.len() as u64;
        }
        records * held / asked.max(1)
    }

    /// Returns approximately how many of these hashes belong to keys in the older parts of the
    /// leaf.
    fn count_held_keys(&self, hashes: &[u64]) -> u64 {
        hashes.iter().filter(|&&hash| self.holds_older(hash)).count() as u64
    }

    /// Returns whether the older parts of the leaf may contain a key with this hash. Like a lookup,
    /// this pins a guard for a single hash only: while a guard is pinned, no cache frame can be
    /// freed, so compactions and lookups would have to read the same uncached nodes over and over.
    fn holds_older(&self, hash: u64) -> bool {
        let trunk = &self.trunk;
        let guard = trunk.store.epochs().pin();
        let version = trunk.version();
        let leaf = find_claimed_pivot(&version.root, &self.claim).filter(|(node, _)| node.is_leaf());
        let older = leaf.and_then(|(node, index)| node.pivots[index].own.get(..self.stretch.own.start));
        older.unwrap_or_default().iter().any(|owned| {
            let maplet = &owned.part.group.maplet;
            let hits = maplet.lookup(hash, trunk.store.cache(), &guard);
            hits.is_ok_and(|hits| !hits.is_empty())
        })
    }

    /// Replaces the job's inputs in the trunk with its result if the pivot is unchanged, and
    /// discards the result otherwise.
    fn install(&mut self, result: Option<(BuiltRun, maplet::WrittenMaplet)>) {
        let trunk = Arc::clone(&self.trunk);
        let mut writer = trunk.lock();
        let version = trunk.version();
        if !writer.inflight.is_wanted(self.id) || !is_claim_valid(&version.root, &self.claim) {
            drop(writer);
            if let Some((built, written)) = result {
                built.abandon(&trunk.store);
                written.abandon(&trunk.store);
            }
            self.give_up();
            return;
        }
        let owned = result.map(|(built, written)| self.adopt_result(built, written));
        let (node, index) = find_claimed_pivot(&version.root, &self.claim).expect("the claim holds");
        let mut draft = node.draft();
        let pivot = &mut draft.pivots[index];
        assert!(
            self.base.len() <= self.stretch.own.start && self.stretch.bundles <= pivot.live.len(),
            "a job takes what its pivot has (T4)"
        );
        let from = self.stretch.own.start - if owned.is_some() { self.base.len() } else { 0 };
        pivot.own.splice(from..self.stretch.own.end, owned);
        pivot.live.drain(..self.stretch.bundles);
        pivot.first += self.stretch.bundles as u64;
        if self.stretch.reason == CompactionReason::Full {
            writer.full.remove(&self.claim.range.low);
        }
        draft.drop_dead_bundles();
        let root = replace(&version.root, self.claim.height, &self.claim.range.low, draft);
        writer.inflight.installed(self.id);
        writer.unpin(self.id);
        writer.publish(&version, root, version.stamp.cut, &[]);
        drop(writer);
        self.give_up();
    }

    /// Turns the new run and its maplet into a part of the pivot's stack. Their extents join the
    /// generation that is being built.
    fn adopt_result(&self, built: BuiltRun, written: maplet::WrittenMaplet) -> OwnedPart {
        let trunk = &self.trunk;
        trunk.install_extents(&built.run, &built.extents, &written.extents);
        let (summary, adopted_bytes) = (*built.run.summary(), built.adopted_bytes);
        trunk
            .tallies
            .compacted_bytes
            .fetch_add(written.maplet.bytes(), Ordering::Relaxed);
        let mut runs: Vec<Option<IndexedRun>> = Vec::new();
        for owned in &self.base {
            runs.extend(owned.part.group.runs.iter().map(|run| run.get().cloned()));
        }
        runs.push(Some(built.run));
        debug_assert!(
            written
                .maplet
                .values()
                .last()
                .is_none_or(|&(value, _)| usize::from(value) < runs.len()),
            "a maplet's values are places of its runs (T6)"
        );
        let base = self.base.iter();
        let base = base.fold(RangeWeight::default(), |sum, owned| sum + owned.weight);
        let renews: u64 = self.base.iter().map(|owned| owned.renews).sum();
        let own = RangeWeight {
            bytes: summary.bytes + adopted_bytes,
            records: summary.records,
            tombstones: summary.tombstones,
        };
        OwnedPart {
            part: TrunkPart {
                group: Arc::new(MapletGroup::new(trunk.next_group(), runs, written.maplet)),
                clip: None,
            },
            weight: base + own,
            renews: renews + self.renews,
        }
    }

    /// Releases the job's inputs and discards any output that was not installed.
    fn give_up(&mut self) {
        if let JobPhase::Mapping(built, _) = std::mem::replace(&mut self.phase, JobPhase::Over) {
            built.abandon(&self.trunk.store);
        }
        let mut writer = self.trunk.lock();
        writer.unpin(self.id);
        writer.sweep();
        writer.overtaken.remove(&self.id);
    }
}

impl Drop for CompactionJob {
    fn drop(&mut self) {
        let compactions = &self.trunk.totals.compactions;
        let before = compactions.fetch_sub(self.memory, Ordering::Relaxed);
        debug_assert!(before >= self.memory, "memory of compactions is counted");
        self.give_up();
        self.trunk.lock().inflight.failed(self.id);
    }
}
