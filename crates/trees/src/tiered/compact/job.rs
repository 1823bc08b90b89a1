//! A compaction: merges part of one pivot's stack into one run. It runs outside of the trunk
//! without a lock. Its output replaces the inputs if they have not changed since (T4).

use super::merging::{Adopted, Choice, Merging};
use crate::fuse::{Plan, Source, Taken};
use crate::maplet::{self, Merger};
use crate::merge_memory::merge_bytes;
use crate::run::{Built, Run, Weight};
use crate::tiered::policy;
use crate::tiered::trunk::{
    Adoption, Claim, Group, JobId, Owned, Part, Reason, Stretch, Trunk, find, holds, replace,
};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::Progress;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::{Class, Extent};
use alluvium_storage::{NodePointer, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The parameters of a job.
pub(super) struct Task {
    pub(super) claim: Claim,
    pub(super) stretch: Stretch,
    /// The inputs, which are pinned for the job.
    pub(super) pins: Arc<[(Part, KeyRange)]>,
    /// The own parts whose maplets are merged with the new run's.
    pub(super) base: Vec<Owned>,
    /// The groups whose leaves may be adopted.
    pub(super) whole: Vec<u64>,
    /// Sparsely used extents of the inputs, whose values are copied.
    pub(super) sparse: Vec<Extent>,
    /// Approximate number of records and bytes that the job reads.
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Whether the job frees as much space as it needs, if space is scarce.
    pub(super) frees: bool,
}

/// Approximate size of a fingerprint in a maplet, in bytes.
const FINGERPRINT: u64 = 6;

/// A running compaction. Dropping it discards its output.
#[derive(Debug)]
pub struct Job {
    trunk: Arc<Trunk>,
    id: JobId,
    claim: Claim,
    stretch: Stretch,
    /// The inputs, whose extents must stay until the job ends.
    pins: Arc<[(Part, KeyRange)]>,
    /// The own maplets that are merged with the new run's fingerprints, and their runs.
    base: Vec<Owned>,
    /// The groups whose leaves may be adopted.
    whole: Vec<u64>,
    /// Approximate number of the new run's records that supersede records of the leaf.
    renews: u64,
    phase: Phase,
    /// Approximate number of bytes that the job reads.
    bytes: u64,
    /// The tier for the run.
    tier: u8,
    /// Approximate memory in bytes.
    memory: u64,
    /// Whether the job frees as much space as it needs, if space is scarce.
    frees: bool,
}

#[derive(Debug)]
enum Phase {
    /// Nothing has been read yet. Contains the sparsely used extents whose values are copied.
    Due(Vec<Extent>),
    Merging(Merging),
    /// The run is written, and its maplet is being merged.
    Mapping(Box<Built>, Box<Merger>),
    Over,
}

impl Job {
    /// Creates a job that was marked as running and whose inputs are pinned.
    pub(super) fn new(trunk: &Arc<Trunk>, id: JobId, task: Task) -> Job {
        let pins = &task.pins;
        let runs: usize = pins.iter().map(|(part, within)| part.runs_in(within)).sum();
        let deletes = pins.iter().flat_map(|(part, _)| part.group.runs());
        let deletes = deletes.map(|(_, run)| run.range_deletes().len() as u64).sum();
        let memory = merge_bytes(trunk.store.device(), runs, task.bytes, task.records, deletes);
        let compactions = &trunk.totals.compactions;
        compactions.fetch_add(memory, Ordering::Relaxed);
        Job {
            trunk: Arc::clone(trunk),
            id,
            claim: task.claim,
            stretch: task.stretch,
            pins: task.pins,
            base: task.base,
            whole: task.whole,
            renews: 0,
            phase: Phase::Due(task.sparse),
            bytes: task.bytes,
            tier: 0,
            memory,
            frees: task.frees,
        }
    }

    /// Returns the job's identifier.
    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    /// Returns a description of the compaction.
    #[must_use]
    pub fn describe(&self) -> String {
        let Claim { height, range, .. } = &self.claim;
        let Stretch { own, bundles, .. } = &self.stretch;
        format!("compaction at height {height} of {range:?}: own parts {own:?} and {bundles} bundles")
    }

    /// Returns the space class. A job that frees space by dropping deletes and old versions may use
    /// the whole reserve. While space is scarce, a job that frees none may use part of it.
    fn class(&self) -> Class {
        match self.stretch.reason {
            _ if self.trunk.is_scarce() && self.frees => Class::Freeing,
            _ if self.trunk.is_scarce() => Class::Essential,
            Reason::Writes => Class::Normal,
            // Another tier may have space.
            _ if self.trunk.store.tiers().count() > 1 => Class::Normal,
            Reason::Crowd | Reason::Full => Class::Freeing,
        }
    }

    fn begin(&mut self, mut sparse: Vec<Extent>) -> Result<Merging> {
        self.tier = self.trunk.compacted_tier(self.claim.height, self.bytes);
        let trunk = &self.trunk;
        // A source for each run, newest first.
        let (mut sources, mut left) = (Vec::new(), Vec::new());
        for (part, within) in self.pins.iter().rev() {
            for (_, run) in part.group.runs().rev() {
                if within.overlaps(run.low(), run.high()) {
                    left.extend(trunk.left_behind(run, self.tier));
                    sources.push(Source {
                        run: run.clone(),
                        range: within.clone(),
                    });
                }
            }
        }
        let rule = trunk.horizon.rule(self.stretch.older);
        // Adopted leaves stay on their tier.
        let adoption = match left.is_empty() {
            true => trunk.adoption(self.stretch.reason == Reason::Full),
            false => Adoption::Never,
        };
        sparse.append(&mut left);
        sparse.sort_unstable();
        sparse.dedup();
        let options = trunk.run_options(Purpose::Compact, self.class(), self.tier);
        let plan = Plan {
            rule,
            schema: &trunk.options.schema,
            asks_filters: trunk.horizon.asks_filters(),
            sparse,
            moves_values: false,
        };
        let choice = Choice {
            adoption,
            rewrites: u64::from(self.claim.height) + 1,
            is_whole: &|run| self.whole_group_of(run.pointer()).is_some(),
        };
        Merging::new(&trunk.store, sources, plan, &options, &choice)
    }

    /// Returns the group of a run if its leaves may be adopted.
    fn whole_group_of(&self, run: &NodePointer) -> Option<&Arc<Group>> {
        let groups = self.pins.iter().map(|(part, _)| &part.group);
        let mut whole = groups.filter(|group| self.whole.contains(&group.id));
        whole.find(|group| group.runs().any(|(_, other)| other.pointer() == run))
    }

    /// Runs a slice of the work: reads about `records` records.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full), and I/O errors. The output is discarded, and
    /// the compaction becomes due again.
    pub fn poll(&mut self, records: usize) -> Result<Progress> {
        if !self.trunk.lock().inflight.is_wanted(self.id) {
            self.give_up();
            return Ok(Progress::Done);
        }
        let result = self.go_on(records);
        let result = self.trunk.judge(result);
        if result.is_err() {
            self.give_up();
            self.trunk.lock().inflight.failed(self.id);
        }
        match &result {
            Ok(Progress::Done) => self.trunk.note_space(true),
            Err(error) if error.is_full() => self.trunk.note_space(false),
            _ => {}
        }
        result
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Due(sparse) => {
                self.phase = Phase::Merging(self.begin(sparse)?);
                Ok(Progress::More)
            }
            Phase::Merging(mut merging) => {
                if merging.step(records)? == Progress::More {
                    self.phase = Phase::Merging(merging);
                    return Ok(Progress::More);
                }
                let has_looked = merging.looks();
                let (built, taken, adopted) = merging.finish()?;
                self.note(&taken, built.as_ref());
                if has_looked {
                    self.trunk.note_adoption(taken.leaves);
                }
                match built {
                    Some(built) => self.begin_mapping(built, &adopted),
                    None => {
                        self.install(None);
                        Ok(Progress::Done)
                    }
                }
            }
            Phase::Mapping(built, mut merger) => match merger.step(records.saturating_mul(4)) {
                Ok(maplet::Progress::More) => {
                    self.phase = Phase::Mapping(built, merger);
                    Ok(Progress::More)
                }
                Ok(maplet::Progress::Done(written)) => {
                    self.install(Some((*built, written)));
                    Ok(Progress::Done)
                }
                Err(error) => {
                    built.abandon(&self.trunk.store);
                    Err(error)
                }
            },
            Phase::Over => Ok(Progress::Done),
        }
    }

    fn note(&self, taken: &Taken, built: Option<&Built>) {
        let tallies = &self.trunk.tallies;
        tallies.read.fetch_add(taken.records, Ordering::Relaxed);
        if self.stretch.reason != Reason::Writes {
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
        tallies.adopted_leaves.fetch_add(taken.leaves, Ordering::Relaxed);
    }

    fn begin_mapping(&mut self, mut built: Built, adopted: &[Adopted]) -> Result<Progress> {
        let mut value = 0;
        let mut sources = Vec::new();
        for owned in &self.base {
            let group = &owned.part.group;
            let rewrite = (0..group.runs.len())
                .map(|run| Some((value + run) as u16))
                .collect();
            sources.push(maplet::Source {
                maplet: group.maplet.clone(),
                rewrite,
            });
            value += group.runs.len();
        }
        assert!(
            value <= usize::from(u16::MAX),
            "run {value} has a value of its own in the maplet (T6)"
        );
        // The keys of adopted leaves were not read. The maplets of their groups contain them (T6).
        let mut groups: Vec<&Arc<Group>> = Vec::new();
        for adopted in adopted {
            let group = self
                .whole_group_of(&adopted.run)
                .expect("leaves are taken over from groups that are whole");
            if !groups.iter().any(|other| other.id == group.id) {
                groups.push(group);
                sources.push(maplet::Source {
                    maplet: group.maplet.clone(),
                    rewrite: vec![Some(value as u16); group.runs.len()].into(),
                });
            }
        }
        let hashes = std::mem::take(&mut built.hashes);
        let adopted_records = adopted.iter().map(|adopted| adopted.records).sum();
        self.renews = self.renews(&hashes) + self.renews_adopted(&groups, adopted_records);
        let tier = self
            .trunk
            .maplet_tier(hashes.len() as u64 * FINGERPRINT, self.tier);
        let spec = self.trunk.maplet_spec(Purpose::Compact, self.class(), tier);
        match Merger::new(&self.trunk.store, &spec, sources, Some((hashes, value as u16))) {
            Ok(merger) => {
                self.phase = Phase::Mapping(Box::new(built), Box::new(merger));
                Ok(Progress::More)
            }
            Err(error) => {
                built.abandon(&self.trunk.store);
                Err(error)
            }
        }
    }

    /// Returns the approximate number of these keys, of a new run in a leaf, that the leaf already
    /// contains. It looks up the keys with the lowest hashes, which are in the first pages of all
    /// maplets. Unreadable maplets count as empty; the result only affects when the leaf is
    /// rewritten.
    fn renews(&self, hashes: &[u64]) -> u64 {
        let count = hashes.len() as u64;
        let highest = (u64::MAX / count.max(1)).saturating_mul(policy::SAMPLE);
        let sample: Vec<u64> = hashes.iter().copied().filter(|&hash| hash <= highest).collect();
        count * self.held(&sample) / (sample.len() as u64).max(1)
    }

    /// Like [`Job::renews`], for `records` records of leaves adopted from these groups. The sample
    /// is the first page of each maplet.
    fn renews_adopted(&self, groups: &[&Arc<Group>], records: u64) -> u64 {
        // The result matters only in leaves, and only if there are older parts.
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
            held += self.held(&sample);
            asked += sample.len() as u64;
        }
        records * held / asked.max(1)
    }

    /// Returns the approximate number of these hashes whose keys are in the older parts of the
    /// leaf.
    fn held(&self, hashes: &[u64]) -> u64 {
        hashes.iter().filter(|&&hash| self.holds_older(hash)).count() as u64
    }

    /// Returns whether the older parts of the leaf may contain a key with this hash. The guard is
    /// held for a single hash, as in a lookup: while a guard is pinned, no cache frame can be
    /// freed, and every missed node would be read again and again by this compaction and by
    /// readers.
    fn holds_older(&self, hash: u64) -> bool {
        let trunk = &self.trunk;
        let guard = trunk.store.epochs().pin();
        let version = trunk.version();
        let leaf = find(&version.root, &self.claim).filter(|(node, _)| node.is_leaf());
        let older = leaf.and_then(|(node, index)| node.pivots[index].own.get(..self.stretch.own.start));
        older.unwrap_or_default().iter().any(|owned| {
            let maplet = &owned.part.group.maplet;
            let hits = maplet.lookup(hash, trunk.store.cache(), &guard);
            hits.is_ok_and(|hits| !hits.is_empty())
        })
    }

    /// Replaces the inputs by the result, if the claim still holds.
    fn install(&mut self, result: Option<(Built, maplet::Written)>) {
        let trunk = Arc::clone(&self.trunk);
        let mut writer = trunk.lock();
        let version = trunk.version();
        if !writer.inflight.is_wanted(self.id) || !holds(&version.root, &self.claim) {
            drop(writer);
            if let Some((built, written)) = result {
                built.abandon(&trunk.store);
                written.abandon(&trunk.store);
            }
            self.give_up();
            return;
        }
        let owned = result.map(|(built, written)| self.adopt_result(built, written));
        let (node, index) = find(&version.root, &self.claim).expect("the claim holds");
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
        if self.stretch.reason == Reason::Full {
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

    /// Returns the new run and maplet as a part of the stack. Their extents now belong to the
    /// store.
    fn adopt_result(&self, built: Built, written: maplet::Written) -> Owned {
        let trunk = &self.trunk;
        trunk.install_extents(&built.run, &built.extents, &written.extents);
        let (summary, adopted_bytes) = (*built.run.summary(), built.adopted_bytes);
        trunk
            .tallies
            .compacted_bytes
            .fetch_add(written.maplet.bytes(), Ordering::Relaxed);
        let mut runs: Vec<Option<Run>> = Vec::new();
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
        let base = base.fold(Weight::default(), |sum, owned| sum + owned.weight);
        let renews: u64 = self.base.iter().map(|owned| owned.renews).sum();
        let own = Weight {
            bytes: summary.bytes + adopted_bytes,
            records: summary.records,
            tombstones: summary.tombstones,
        };
        Owned {
            part: Part {
                group: Arc::new(Group::new(trunk.next_group(), runs, written.maplet)),
                clip: None,
            },
            weight: base + own,
            renews: renews + self.renews,
        }
    }

    /// Releases the inputs, and discards output that was not installed.
    fn give_up(&mut self) {
        if let Phase::Mapping(built, _) = std::mem::replace(&mut self.phase, Phase::Over) {
            built.abandon(&self.trunk.store);
        }
        let mut writer = self.trunk.lock();
        writer.unpin(self.id);
        writer.sweep();
        writer.overtaken.remove(&self.id);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let compactions = &self.trunk.totals.compactions;
        let before = compactions.fetch_sub(self.memory, Ordering::Relaxed);
        debug_assert!(before >= self.memory, "memory of compactions is counted");
        self.give_up();
        self.trunk.lock().inflight.failed(self.id);
    }
}
