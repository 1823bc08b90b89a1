//! Compaction: a stretch of one pivot's stack becomes one run, outside of the trunk and without a
//! lock, and takes the stretch's place if nothing else has happened to it meanwhile.

use super::estimate::compaction_bytes;
use super::fuse::{Fused, Plan, Source, Taken};
use super::inflight::{Claim, JobId};
use super::maintain::longest_path;
use super::node::{Group, Node, Owned, Part};
use super::policy;
use super::shape::leaf_view;
use super::tree::{Tree, Trunk, Version, find, holds, replace};
use crate::maplet::{self, MapletSpec, Merger};
use crate::run::{Built, Run, RunOptions, Weight};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::Progress;
use alluvium_dictionary::merge::Older;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::{Class, Extent, UNIT};
use std::ops::{Add, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which stretch of a stack a job takes, and what it may do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Own parts, by place.
    own: Range<usize>,
    /// Live bundles, the oldest ones; none unless the own parts reach the last.
    bundles: usize,
    older: Older,
    reason: Reason,
}

/// What asks for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The writes of users: what a node has received.
    Writes,
    /// A leaf has too many runs: its oldest become one.
    Crowd,
    /// All of a leaf is compacted: it was asked for, or much of it is stale.
    Full,
}

/// A compaction under way. Dropped, it gives up what it wrote.
#[derive(Debug)]
pub struct Job {
    tree: Tree,
    id: JobId,
    claim: Claim,
    stretch: Stretch,
    /// The inputs, whose extents must stay until it is over.
    pins: Arc<[(Part, KeyRange)]>,
    /// The own maplets that the new run's fingerprints are merged with, and their runs.
    base: Vec<Owned>,
    /// How many of the new run's records a leaf holds in older versions, about.
    renews: u64,
    phase: Phase,
    /// Memory that it takes, about.
    memory: u64,
    /// Whether it frees as much space as it takes, if space is scarce.
    frees: bool,
}

#[derive(Debug)]
enum Phase {
    /// Nothing was read yet. Of the extents, so little is live that values in them are copied.
    Due(Vec<Extent>),
    Merging(Box<Fused>),
    /// The run is written, its maplet is being merged.
    Mapping(Box<Built>, Box<Merger>),
    Over,
}

impl Tree {
    /// The next compaction that is due, if any, by the rule of `policy::turn`.
    ///
    /// # Errors
    /// As the device says, or [`Error::Full`](alluvium_storage::Error::Full); it is due again then.
    pub fn next_job(&self) -> Result<Option<Job>> {
        let room = self.room();
        let mut trunk = self.lock();
        let version = self.version();
        let Some(id) = self.due_job(&trunk, &version, room) else {
            return Ok(None);
        };
        let claim = trunk.inflight.claim(id).expect("it was just found").clone();
        let (node, index) = find(&version.root, &claim).expect("a job whose pivot is gone was abandoned");
        debug_assert!(
            holds(&version.root, &claim),
            "a job is due while its pivot is as claimed"
        );
        let stretch = trunk.stretch(node, index);
        let frees = room.is_some() && trunk.balance(node, index, &stretch).frees();
        let pins: Arc<[(Part, KeyRange)]> = stretch
            .inputs(node, index)
            .filter(|part| part.touches(&claim.range))
            .map(|part| (part.clone(), part.within(&claim.range)))
            .collect();
        trunk.pin(id, Arc::clone(&pins));
        trunk.inflight.take(id);
        let runs = pins.iter().flat_map(|(part, _)| part.group.runs());
        let mut sparse: Vec<Extent> = runs.flat_map(|(_, run)| trunk.uses.sparse(run)).collect();
        sparse.sort_unstable();
        sparse.dedup();
        drop(trunk);
        let runs: usize = pins.iter().map(|(part, within)| part.runs_in(within)).sum();
        let deletes = pins.iter().flat_map(|(part, _)| part.group.runs());
        let deletes = deletes.map(|(_, run)| run.range_deletes().len() as u64).sum();
        let weight = stretch.weight(node, index);
        let memory = compaction_bytes(self.shared.store.device(), runs, weight.records, deletes);
        let totals = &self.shared.totals;
        totals.compactions.fetch_add(memory, Ordering::Relaxed);
        Ok(Some(Job {
            tree: self.clone(),
            id,
            base: self.base(node, index, &stretch),
            frees,
            claim,
            stretch,
            pins,
            renews: 0,
            phase: Phase::Due(sparse),
            memory,
        }))
    }

    /// Returns whether a compaction is under way, or due and not known to need more space than
    /// there is.
    #[must_use]
    pub fn may_compact(&self) -> bool {
        let room = self.room();
        let trunk = self.lock();
        let running = trunk.inflight.debt().running_jobs;
        running > 0 || self.due_job(&trunk, &self.version(), room).is_some()
    }

    /// While space is scarce: whether there is any for a compaction that frees none.
    fn room(&self) -> Option<bool> {
        let extents = self.shared.store.extents();
        self.is_scarce()
            .then(|| extents.has_room(self.tier(Purpose::Compact), Class::Essential))
    }

    /// The job that is done next, by the rule of [`policy::turn`].
    fn due_job(&self, trunk: &Trunk, version: &Version, room: Option<bool>) -> Option<JobId> {
        let crowded = (self.crowding() > 100).then(|| longest_path(&version.root).1);
        trunk.inflight.queued(|claim, has_failed| {
            let scarce = room.map(|has_room| {
                let (node, index) =
                    find(&version.root, claim).expect("a job whose pivot is gone was abandoned");
                let balance = trunk.balance(node, index, &trunk.stretch(node, index));
                policy::Scarce {
                    takes_bytes: balance.takes_bytes,
                    frees: balance.frees(),
                    has_room,
                    has_failed,
                }
            });
            let crowd = crowded
                .filter(|key| claim.range.contains(key))
                .and_then(|_| find(&version.root, claim));
            let runs = crowd.map_or(0, |(node, index)| node.runs(index));
            policy::turn(scarce.as_ref(), runs, claim.height)
        })
    }

    /// The newest own parts whose maplets become one with the new run's.
    fn base(&self, node: &Node, index: usize, stretch: &Stretch) -> Vec<Owned> {
        assert!(
            stretch.own.start <= node.pivots[index].own.len(),
            "a stretch of its pivot"
        );
        let before = &node.pivots[index].own[..stretch.own.start];
        let runs: Vec<usize> = before.iter().map(|owned| owned.part.group.runs.len()).collect();
        let is_ours = |owned: &Owned| {
            let records: u64 = owned
                .part
                .group
                .runs()
                .map(|(_, run)| run.summary().records)
                .sum();
            owned.part.clip.is_none() && owned.weight.records * 4 >= records * 3
        };
        let shares: Vec<bool> = before.iter().map(is_ours).collect();
        before[policy::maplets_to_merge(&runs, &shares)].to_vec()
    }

    pub(super) fn run_options(&self, purpose: Purpose, class: Class) -> RunOptions {
        RunOptions {
            class,
            tier: self.tier(purpose),
            value_tier: self.tier(purpose),
            ..RunOptions::new(purpose)
        }
    }

    pub(super) fn maplet_spec(&self, purpose: Purpose, class: Class) -> MapletSpec {
        MapletSpec {
            fingerprint_bits: self.shared.options.fingerprint_bits,
            purpose,
            class,
            tier: self.tier(purpose),
        }
    }

    /// Returns the tier that the tree's writes of a purpose go to.
    fn tier(&self, purpose: Purpose) -> u8 {
        match purpose {
            Purpose::Compact => self.shared.options.compacted_tier,
            _ => 0,
        }
    }
}

impl Trunk {
    /// What a job for this pivot takes.
    pub(super) fn stretch(&self, node: &Node, index: usize) -> Stretch {
        let pivot = &node.pivots[index];
        let (own, live) = (pivot.own.len(), pivot.live.len());
        let everything = Stretch {
            own: 0..own,
            bundles: live,
            older: Older::None,
            reason: Reason::Full,
        };
        if node.is_leaf() {
            if self.full.contains(&pivot.low) {
                return everything;
            }
            if policy::rewrites(&self.shape, &leaf_view(node), self.crowding) {
                return everything;
            }
            if live == 0 {
                let parts: Vec<(usize, u64)> = pivot
                    .own
                    .iter()
                    .map(|owned| (owned.part.runs_in(&node.range), owned.weight.bytes))
                    .collect();
                let oldest = policy::oldest_parts(&self.shape, &parts).max(1).min(own);
                return Stretch {
                    own: 0..oldest,
                    reason: Reason::Crowd,
                    ..everything
                };
            }
        }
        debug_assert_eq!(
            pivot.child.is_none(),
            node.is_leaf(),
            "only pivots of leaves have no child"
        );
        let nothing_older = node.is_leaf() && own == 0;
        Stretch {
            own: own..own,
            bundles: live,
            older: if nothing_older {
                Older::None
            } else {
                Older::Elsewhere
            },
            reason: Reason::Writes,
        }
    }
}

impl Stretch {
    /// What a job reads that takes it, about.
    pub(super) fn weight(&self, node: &Node, index: usize) -> Weight {
        let pivot = &node.pivots[index];
        debug_assert!(
            self.own.end <= pivot.own.len() && self.bundles <= pivot.live.len(),
            "a stretch of its pivot"
        );
        let own = pivot.own[self.own.clone()].iter().map(|owned| owned.weight);
        let live = pivot.live[..self.bundles].iter().flatten().copied();
        own.chain(live).fold(Weight::default(), Weight::add)
    }

    /// The parts that a job reads that takes it, oldest first; some may have nothing of the pivot's
    /// range.
    fn inputs<'n>(&self, node: &'n Node, index: usize) -> impl Iterator<Item = &'n Part> {
        let own = &node.pivots[index].own[self.own.clone()];
        let bundles = &node.live_bundles(index)[..self.bundles];
        let own = own.iter().map(|owned| &owned.part);
        own.chain(bundles.iter().flat_map(|bundle| &bundle.parts))
    }
}

/// What a compaction does to what is free.
#[derive(Clone, Copy, Debug)]
struct Balance {
    /// Bytes that it takes, about.
    takes_bytes: u64,
    /// Bytes that come free when it is done and a checkpoint has followed.
    frees_bytes: u64,
}

impl Balance {
    /// Returns whether it frees at least as much space as it takes, about.
    fn frees(self) -> bool {
        self.frees_bytes >= self.takes_bytes
    }
}

impl Trunk {
    /// What a job for this pivot that takes this stretch would do to what is free.
    fn balance(&self, node: &Node, index: usize, stretch: &Stretch) -> Balance {
        let range = node.pivot_range(index);
        let inputs = stretch
            .inputs(node, index)
            .map(|part| (part, part.within(&range)));
        let weight = stretch.weight(node, index);
        let left = match stretch.older {
            Older::None => policy::left_by_deletes(&weight),
            Older::Elsewhere => weight.bytes,
        };
        // A run and its maplet.
        let units = if left == 0 { 0 } else { left.div_ceil(UNIT) + 1 };
        Balance {
            takes_bytes: units * UNIT,
            frees_bytes: self.uses.alone(inputs),
        }
    }
}

impl Job {
    /// Its number.
    pub(super) fn id(&self) -> JobId {
        self.id
    }

    /// What is compacted, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let Claim { height, range, .. } = &self.claim;
        let Stretch { own, bundles, .. } = &self.stretch;
        format!("compaction at height {height} of {range:?}: own parts {own:?} and {bundles} bundles")
    }

    /// What makes deletes and old versions free space may use the reserve, and what has been asked
    /// for in vain while space is scarce a part of it.
    fn class(&self) -> Class {
        match self.stretch.reason {
            _ if self.tree.is_scarce() && self.frees => Class::Freeing,
            _ if self.tree.is_scarce() => Class::Essential,
            Reason::Writes => Class::Normal,
            Reason::Crowd | Reason::Full => Class::Freeing,
        }
    }

    fn begin(&self, sparse: Vec<Extent>) -> Result<Fused> {
        let tree = &self.tree;
        // A source for each run, newest first.
        let mut sources = Vec::new();
        for (part, within) in self.pins.iter().rev() {
            for (_, run) in part.group.runs().rev() {
                if within.overlaps(run.low(), run.high()) {
                    sources.push(Source {
                        run: run.clone(),
                        range: within.clone(),
                    });
                }
            }
        }
        let rule = tree.shared.horizon.rule(self.stretch.older);
        let options = tree.run_options(Purpose::Compact, self.class());
        let plan = Plan {
            rule,
            schema: &tree.shared.options.schema,
            asks_filters: tree.shared.horizon.asks_filters(),
            sparse,
        };
        Fused::new(&tree.shared.store, sources, plan, &options)
    }

    /// Does a slice of the work: reads about `records` records.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full), and as the device says. What was written is
    /// given up, and the compaction is due again.
    pub fn poll(&mut self, records: usize) -> Result<Progress> {
        if !self.tree.lock().inflight.is_wanted(self.id) {
            self.give_up();
            return Ok(Progress::Done);
        }
        let result = self.go_on(records);
        let result = self.tree.judge(result);
        if result.is_err() {
            self.give_up();
            self.tree.lock().inflight.failed(self.id);
        }
        result
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Due(sparse) => {
                self.phase = Phase::Merging(Box::new(self.begin(sparse)?));
                Ok(Progress::More)
            }
            Phase::Merging(mut fused) => {
                if fused.step(records)? == Progress::More {
                    self.phase = Phase::Merging(fused);
                    return Ok(Progress::More);
                }
                let (built, taken) = fused.finish()?;
                self.note(&taken, built.as_ref());
                match built {
                    Some(built) => self.begin_mapping(built),
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
                    built.abandon(&self.tree.shared.store);
                    Err(error)
                }
            },
            Phase::Over => Ok(Progress::Done),
        }
    }

    fn note(&self, taken: &Taken, built: Option<&Built>) {
        let tallies = &self.tree.shared.tallies;
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
        }
    }

    fn begin_mapping(&mut self, mut built: Built) -> Result<Progress> {
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
        let hashes = std::mem::take(&mut built.hashes);
        self.renews = self.renews(&hashes);
        let spec = self.tree.maplet_spec(Purpose::Compact, self.class());
        match Merger::new(
            &self.tree.shared.store,
            &spec,
            sources,
            Some((hashes, value as u16)),
        ) {
            Ok(merger) => {
                self.phase = Phase::Mapping(Box::new(built), Box::new(merger));
                Ok(Progress::More)
            }
            Err(error) => {
                built.abandon(&self.tree.shared.store);
                Err(error)
            }
        }
    }

    /// How many of these keys, of a run that a leaf gets beside its others, the leaf holds already,
    /// about. Those with the lowest hashes are looked up: they are in the first pages of all
    /// maplets. What cannot be read is as if it held none: nothing depends on this but when the
    /// leaf is rewritten.
    fn renews(&self, hashes: &[u64]) -> u64 {
        let tree = &self.tree;
        let guard = tree.shared.store.epochs().pin();
        let version = tree.version();
        let leaf = find(&version.root, &self.claim).filter(|(node, _)| node.is_leaf());
        let older = leaf.and_then(|(node, index)| node.pivots[index].own.get(..self.stretch.own.start));
        let older = older.unwrap_or_default();
        let count = hashes.len() as u64;
        let highest = (u64::MAX / count.max(1)).saturating_mul(policy::SAMPLE);
        let is_held = |&hash: &u64| {
            older.iter().any(|owned| {
                let hits = owned
                    .part
                    .group
                    .maplet
                    .lookup(hash, tree.shared.store.cache(), &guard);
                hits.is_ok_and(|hits| !hits.is_empty())
            })
        };
        let sample = || hashes.iter().filter(|&&hash| hash <= highest);
        let held = sample().filter(|&hash| is_held(hash)).count() as u64;
        count * held / (sample().count() as u64).max(1)
    }

    /// Puts the result in the place of its inputs, if they are still where they were.
    fn install(&mut self, result: Option<(Built, maplet::Written)>) {
        let tree = self.tree.clone();
        let mut trunk = tree.lock();
        let version = tree.version();
        if !trunk.inflight.is_wanted(self.id) || !holds(&version.root, &self.claim) {
            drop(trunk);
            if let Some((built, written)) = result {
                built.abandon(&tree.shared.store);
                written.abandon(&tree.shared.store);
            }
            self.give_up();
            return;
        }
        let owned = result.map(|(built, written)| self.adopt_result(built, written));
        let (node, index) = find(&version.root, &self.claim).expect("the claim holds");
        let mut draft = node.draft();
        let pivot = &mut draft.pivots[index];
        let from = self.stretch.own.start - if owned.is_some() { self.base.len() } else { 0 };
        pivot.own.splice(from..self.stretch.own.end, owned);
        pivot.live.drain(..self.stretch.bundles);
        pivot.first += self.stretch.bundles as u64;
        if self.stretch.reason == Reason::Full {
            trunk.full.remove(&self.claim.range.low);
        }
        draft.drop_dead_bundles();
        let root = replace(&version.root, self.claim.height, &self.claim.range.low, draft);
        trunk.inflight.installed(self.id);
        trunk.unpin(self.id);
        tree.publish(&mut trunk, &version, root, version.cut, &[]);
        drop(trunk);
        self.give_up();
    }

    /// The new run and maplet as a part of the stack; their extents belong to the store now.
    fn adopt_result(&self, built: Built, written: maplet::Written) -> Owned {
        let tree = &self.tree;
        tree.install_extents(&built.run, &built.extents, &written.extents);
        let summary = *built.run.summary();
        tree.shared
            .tallies
            .compacted_bytes
            .fetch_add(written.maplet.bytes(), Ordering::Relaxed);
        let mut runs: Vec<Option<Run>> = Vec::new();
        for owned in &self.base {
            runs.extend(owned.part.group.runs.iter().map(|run| run.get().cloned()));
        }
        runs.push(Some(built.run));
        let base = self.base.iter();
        let base = base.fold(Weight::default(), |sum, owned| sum + owned.weight);
        let renews: u64 = self.base.iter().map(|owned| owned.renews).sum();
        let own = Weight {
            bytes: summary.bytes,
            records: summary.records,
            tombstones: summary.tombstones,
        };
        Owned {
            part: Part {
                group: Arc::new(Group::new(tree.next_group(), runs, written.maplet)),
                clip: None,
            },
            weight: base + own,
            renews: renews + self.renews,
        }
    }

    /// Gives up the inputs, and whatever was written and not installed.
    fn give_up(&mut self) {
        if let Phase::Mapping(built, _) = std::mem::replace(&mut self.phase, Phase::Over) {
            built.abandon(&self.tree.shared.store);
        }
        let mut trunk = self.tree.lock();
        trunk.unpin(self.id);
        self.tree.sweep(&mut trunk);
        trunk.overtaken.remove(&self.id);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let compactions = &self.tree.shared.totals.compactions;
        compactions.fetch_sub(self.memory, Ordering::Relaxed);
        self.give_up();
        self.tree.lock().inflight.failed(self.id);
    }
}

impl Tree {
    /// Makes what a step wrote part of the generation being built.
    pub(super) fn install_extents(&self, run: &Run, own: &[(Extent, u64)], maplet: &[(Extent, u64)]) {
        let extents = self.shared.store.extents();
        extents.install(own);
        extents.install(maplet);
        for used in run.extents().iter().filter(|used| used.inherited) {
            extents.retain(used.extent);
        }
    }
}
