//! A tree with a memtable above it, driven by a seed and compared with the reference after every
//! step.

use crate::alone::Alone;
use crate::history::History;
use crate::schema::schema_with;
use crate::under_way::UnderWay;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_device::Directory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::{AllocationClass, ExtentOptions, ReclaimLimit, UNIT};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{LogOptions, NodeCodec, PageSize, Result};
use alluvium_stories::MemtableStack;
use alluvium_trees::tiered::{
    AdoptionPolicy, CheckLevel, CompactionJob, JobTransition, MaintenanceLimits, RootFilterBuilder,
    StepProgress, TieredTree, TreeIncorporation, TreeOptions, TreeStep, TrunkShape, VictimPolicy,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of concurrent compactions.
const WORKERS: usize = 20;

/// The distribution of keys and the frequency of operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) keys: u32,
    /// Percentage of sequential keys.
    pub(crate) sequential: u32,
    /// Percentage of keys within one 64th of the key space.
    pub(crate) local: u32,
    pub(crate) deletes: u32,
    pub(crate) merges: u32,
    /// Whether some values expire.
    pub(crate) expires: bool,
    pub(crate) range_deletes_in_10000: u32,
    pub(crate) long_values: u32,
    pub(crate) shape: TrunkShape,
    pub(crate) victim: VictimPolicy,
    pub(crate) codec: NodeCodec,
    /// Length in bytes of the keyspace prefix. If 0, all keys are in one keyspace.
    pub(crate) prefix: usize,
    /// Maximum number of concurrent snapshots.
    pub(crate) snapshots: usize,
    /// Page size in bytes.
    pub(crate) page: u32,
    /// Values longer than this are stored separately from their keys.
    pub(crate) value_threshold: Option<usize>,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            keys: 4000,
            sequential: 0,
            local: 0,
            deletes: 15,
            merges: 15,
            expires: true,
            range_deletes_in_10000: 20,
            long_values: 1,
            shape: TrunkShape {
                fanout: 4,
                memtable: 24 << 10,
            },
            victim: VictimPolicy::Fullest,
            codec: NodeCodec::None,
            prefix: 0,
            snapshots: 3,
            page: 4096,
            value_threshold: None,
        }
    }
}

impl Workload {
    fn is_compressed(&self) -> bool {
        self.codec != NodeCodec::None || self.prefix > 0
    }
}

pub(crate) fn store_options() -> StoreOptions {
    StoreOptions {
        id: 0xa11,
        cache_bytes: 2 << 20,
        extents: ExtentOptions {
            max_bytes: None,
            min_reserve: UNIT,
            max_reserve: 4 * UNIT,
            min_map_deltas: 4 << 10,
            ..ExtentOptions::default()
        },
        log: LogOptions {
            identity: 7,
            ..LogOptions::with_limit(64 << 10)
        },
        ..StoreOptions::default()
    }
}

fn store_options_of(workload: &Workload) -> StoreOptions {
    StoreOptions {
        page_size: PageSize::new(workload.page).expect("a size of a page"),
        cache_bytes: store_options().cache_bytes.max(256 * u64::from(workload.page)),
        ..store_options()
    }
}

pub(crate) struct World {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) tree: TieredTree,
    pub(crate) workload: Workload,
    pub(crate) random: fastrand::Rng,
    pub(crate) history: History,
    pub(crate) memtable: Arc<Memtable>,
    /// The memtable holds the commits above this sequence number.
    base: SequenceNumber,
    /// A sealed memtable, its base, its cut, and its flush if that has started.
    sealed: Option<(
        Arc<Memtable>,
        SequenceNumber,
        SequenceNumber,
        Option<TreeIncorporation>,
    )>,
    pub(crate) stack: Arc<MemtableStack>,
    /// The compactions that run concurrently.
    steps: Vec<TreeStep>,
    digesting: Option<RootFilterBuilder>,
    ingest: Option<UnderWay>,
    /// Number of attached ingests.
    pub(crate) ingests: u64,
    pub(crate) snapshots: Vec<SequenceNumber>,
    pub(crate) sequence: SequenceNumber,
    /// Sequence number of the newest checkpoint, which is the state after reopening.
    durable: SequenceNumber,
    next_in_order: u32,
    pub(crate) now_ms: u64,
    /// A hash of all results, for comparing two runs of one seed.
    pub(crate) trace: u64,
    pub(crate) maintenance: MaintenanceLimits,
    /// Compaction outcomes before the last reopening.
    edges: BTreeMap<JobTransition, u64>,
    /// Bytes of values that compactions had gathered before the last reopening.
    gathered_bytes: u64,
}

impl World {
    pub(crate) fn new(directory: Arc<dyn Directory>, workload: Workload, seed: u64) -> World {
        let options = store_options_of(&workload);
        let store = Store::create(Arc::clone(&directory), &options, b"").unwrap();
        let tree = TieredTree::create(Arc::new(store), World::options(&workload));
        // Scan results must not depend on how much memory scans may hold between calls.
        tree.limit_scans([u64::MAX, 0, 20_000][(seed % 3) as usize]);
        let world = World {
            directory,
            tree,
            memtable: Arc::new(Memtable::new(256 << 10)),
            workload,
            random: fastrand::Rng::with_seed(seed),
            history: History::default(),
            base: 0,
            sealed: None,
            stack: Arc::default(),
            steps: Vec::new(),
            digesting: None,
            ingest: None,
            ingests: 0,
            snapshots: Vec::new(),
            sequence: 0,
            durable: 0,
            next_in_order: 0,
            now_ms: 1000,
            trace: 0,
            maintenance: MaintenanceLimits {
                is_idle: seed.is_multiple_of(2),
                ..MaintenanceLimits::default()
            },
            edges: BTreeMap::new(),
            gathered_bytes: 0,
        };
        world.restack();
        world
    }

    /// Memory of an empty memtable in bytes.
    const EMPTY: usize = 64 << 10;

    fn options(workload: &Workload) -> TreeOptions {
        TreeOptions {
            shape: workload.shape,
            victim: workload.victim,
            fingerprint_bits: 24,
            schema: schema_with(workload.prefix, workload.codec, workload.value_threshold),
            horizon: None,
            compacted_tier: None,
            adoption: AdoptionPolicy::Above(0),
        }
    }

    pub(crate) fn key(&mut self) -> Vec<u8> {
        let keys = self.workload.keys;
        let number = if self.random.u32(..100) < self.workload.sequential {
            self.next_in_order = (self.next_in_order + 1) % keys;
            self.next_in_order
        } else if self.random.u32(..100) < self.workload.local {
            keys / 3 + self.random.u32(..keys.div_ceil(64))
        } else {
            self.random.u32(..keys)
        };
        self.key_of(number)
    }

    /// Returns the key with this number. Keys are ordered by number. Some are long, and one is
    /// empty where that is permitted.
    fn key_of(&self, number: u32) -> Vec<u8> {
        match number {
            0 if self.workload.prefix == 0 => Vec::new(),
            number if number % 1000 == 999 => [format!("{number:08}").as_bytes(), &[b'k'; 3000]].concat(),
            number => format!("{number:08}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = if self.random.u32(..1000) < self.workload.long_values {
            self.random.usize(1000..100_000)
        } else {
            self.random.usize(..120)
        };
        let byte = self.random.u8(..);
        let mut value = vec![byte; len];
        // Some values compress well, some by half, and some not at all.
        if self.workload.is_compressed() {
            let random = [0, len / 2, len][self.random.usize(..3)];
            self.random.fill(&mut value[..random]);
        }
        value
    }

    /// Returns the lowest sequence number at which a read may still happen.
    fn horizon(&self) -> SequenceNumber {
        self.snapshots
            .iter()
            .copied()
            .min()
            .unwrap_or(MAX_SEQUENCE)
            .min(self.tree.cut())
    }

    /// Allows versions to be folded if no snapshot and no later reader can tell them apart.
    fn raise_horizon(&self) {
        let mut snapshots = self.snapshots.clone();
        snapshots.sort_unstable();
        self.tree.horizon().raise_past(snapshots, self.sequence);
    }

    /// Performs one user write.
    pub(crate) fn write(&mut self) -> Result<()> {
        self.sequence += 1;
        let at = self.sequence;
        if self.random.u32(..10_000) < self.workload.range_deletes_in_10000 {
            let (one, other) = (self.key(), self.key());
            let (start, end) = if one < other { (one, other) } else { (other, one) };
            self.memtable
                .delete_range(&start, &end, at)
                .expect("there is room");
            self.history.delete_range(&start, &end, at);
            return self.seal_if_full();
        }
        let key = self.key();
        let draw = self.random.u32(..100);
        let Workload { deletes, merges, .. } = self.workload;
        if draw < deletes {
            self.memtable
                .insert(&key, Message::delete(at))
                .expect("there is room");
            self.history.add(&key, at, MessageKind::Delete, 0, &[]);
        } else if draw < deletes + merges {
            let operand = vec![self.random.u8(..); 3];
            self.memtable
                .insert(&key, Message::merge(at, &operand))
                .expect("there is room");
            self.history.add(&key, at, MessageKind::Merge, 0, &operand);
        } else {
            let value = self.value();
            let expires_ms = if self.random.u32(..50) == 0 && self.workload.expires {
                self.now_ms + self.random.u64(..200)
            } else {
                0
            };
            let message = Message {
                expires_ms,
                ..Message::put(at, &value)
            };
            self.memtable.insert(&key, message).expect("there is room");
            self.history.add(&key, at, MessageKind::Put, expires_ms, &value);
        }
        self.seal_if_full()
    }

    fn seal_if_full(&mut self) -> Result<()> {
        if self.memtable.bytes() >= self.workload.shape.memtable as usize + World::EMPTY {
            self.seal()?;
        }
        Ok(())
    }

    /// Seals the memtable, after flushing the one sealed before.
    pub(crate) fn seal(&mut self) -> Result<()> {
        while self.sealed.is_some() {
            self.poll_incorporation()?;
        }
        if self.sequence > self.tree.cut() {
            let sealed = std::mem::replace(&mut self.memtable, Arc::new(Memtable::new(256 << 10)));
            let base = std::mem::replace(&mut self.base, self.sequence);
            self.sealed = Some((sealed, base, self.sequence, None));
        }
        self.restack();
        Ok(())
    }

    /// Runs one slice of the sealed memtable's flush.
    pub(crate) fn poll_incorporation(&mut self) -> Result<()> {
        self.raise_horizon();
        let slice = self.random.usize(1..200);
        let Some((memtable, _, cut, step)) = &mut self.sealed else {
            return Ok(());
        };
        let step = match step {
            Some(step) => step,
            none => none.insert(self.tree.incorporate(
                Arc::clone(memtable),
                *cut,
                AllocationClass::Normal,
            )?),
        };
        if step.poll(slice)? == StepProgress::Done {
            self.sealed = None;
            // The list may still contain a memtable that is already in the tree. Readers must cope
            // with this.
            if self.random.bool() {
                self.restack();
            }
        }
        Ok(())
    }

    /// Updates the list of memtables that readers use.
    fn restack(&self) {
        let sealed = self.sealed.iter().map(|(memtable, base, ..)| (memtable, *base));
        self.stack
            .set(std::iter::once((&self.memtable, self.base)).chain(sealed));
    }

    /// Runs one slice of background work.
    pub(crate) fn poll_step(&mut self) -> Result<()> {
        self.raise_horizon();
        self.tree.horizon().tick(self.now_ms);
        // Some workers are slow, so other work overtakes theirs.
        let slice = if self.random.u32(..3) == 0 {
            self.random.usize(1..400)
        } else {
            self.random.usize(1..25)
        };
        if self.steps.len() < WORKERS
            && let Some(step) = self.tree.next_step()?
        {
            self.steps.push(step);
        }
        if self.digesting.is_none() && self.random.u32(..20) == 0 {
            self.digesting = self.tree.digest();
        }
        if let Some(digesting) = &mut self.digesting
            && digesting.poll(slice)? == StepProgress::Done
        {
            self.digesting = None;
        }
        if !self.steps.is_empty() {
            let worker = self.random.usize(..self.steps.len());
            if self.steps[worker].poll(slice)? == StepProgress::Done {
                self.steps.swap_remove(worker);
            }
        }
        Ok(())
    }

    /// Runs all work that is due.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while self.sealed.is_some() {
            self.poll_incorporation()?;
        }
        for turn in 0.. {
            assert!(
                turn < 200_000,
                "there is always something to do\n{}",
                self.tree.draw()
            );
            self.poll_step()?;
            if self.steps.is_empty() && !self.tree.is_busy() {
                match self.tree.next_step()? {
                    None => return Ok(()),
                    Some(step) => self.steps.push(step),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn maintain(&mut self) -> Result<bool> {
        self.maintenance.budget_bytes = u64::MAX;
        self.tree.maintain(&mut self.maintenance.clone())
    }

    /// Takes a snapshot at the tree's cut and holds it until all snapshots are dropped.
    pub(crate) fn hold_snapshot(&mut self) {
        self.snapshots.push(self.tree.cut());
    }

    /// Flushes everything and maintains the tree until no step is worthwhile.
    pub(crate) fn maintain_all(&mut self) -> Result<()> {
        self.seal()?;
        self.settle()?;
        // A leaf may need maintenance again after it was merged with a neighbour, but not much more
        // often.
        let most = 100 + 8 * self.tree.draw().lines().count();
        for _ in 0..most {
            if !self.maintain()? {
                return Ok(());
            }
            self.settle()?;
        }
        panic!("maintenance does not come to an end\n{}", self.tree.draw());
    }

    pub(crate) fn forget_snapshots(&mut self) {
        self.snapshots.clear();
    }

    pub(crate) fn compact_somewhere(&mut self) -> Result<()> {
        let key = self.key();
        self.tree.compact_fully(&key)
    }

    /// Returns in how many of eight cases a snapshot begins. In the others, one ends.
    fn snapshots_in_8(&self) -> u8 {
        if self.workload.snapshots > 3 { 6 } else { 4 }
    }

    pub(crate) fn toggle_snapshot(&mut self) {
        if self.snapshots.len() < self.workload.snapshots && self.random.u8(..8) < self.snapshots_in_8() {
            self.snapshots.push(self.tree.cut());
        } else if !self.snapshots.is_empty() {
            let index = self.random.usize(..self.snapshots.len());
            self.snapshots.swap_remove(index);
        }
        self.now_ms += self.random.u64(..20);
        self.history.forget(self.horizon().min(self.durable));
    }

    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        let cut = self.tree.cut();
        self.tree.checkpoint()?;
        self.durable = cut;
        Ok(())
    }

    /// Returns the compaction outcomes since the start.
    pub(crate) fn gathered_bytes(&self) -> u64 {
        self.gathered_bytes + self.tree.stats().gathered_bytes
    }

    pub(crate) fn edges(&self) -> BTreeMap<JobTransition, u64> {
        let mut edges = self.edges.clone();
        for (edge, count) in self.tree.stats().edges {
            *edges.entry(edge).or_default() += count;
        }
        edges
    }

    /// Runs one step of an ingest: starts it, attaches it to the tree, drops it, or writes or drops
    /// layers and compares the contents with the reference.
    pub(crate) fn ingest(&mut self) -> Result<()> {
        let Some(mut under_way) = self.ingest.take() else {
            self.ingest = Some(UnderWay::new(self.tree.ingest(AllocationClass::Normal)?));
            return Ok(());
        };
        match self.random.u32(..20) {
            0 => return Ok(()),
            1..5 => return self.attach(under_way),
            5 => under_way.take_back(&mut self.random),
            _ => {
                let (workload, mut random) = (self.workload, self.random.fork());
                under_way.write_layer(&mut random, &workload, self.now_ms, |number| self.key_of(number))?;
            }
        }
        for _ in 0..20 {
            let key = self.key();
            under_way.compare(&key, self.now_ms)?;
        }
        let (one, other) = (self.key(), self.key());
        let range = KeyRange::new(&one, Some(&other));
        for direction in [MergeDirection::Forward, MergeDirection::Backward] {
            under_way.compare_walk(&range, direction, self.now_ms)?;
        }
        self.ingest = Some(under_way);
        Ok(())
    }

    fn attach(&mut self, under_way: UnderWay) -> Result<()> {
        self.seal()?;
        while self.sealed.is_some() {
            self.poll_incorporation()?;
        }
        let layers = under_way.attach(self.sequence, &mut self.history)?;
        self.sequence += layers.max(1);
        // The memtable's commits follow the ingest.
        self.base = self.sequence;
        self.restack();
        self.ingests += 1;
        Ok(())
    }

    /// Drops an unfinished compaction, as if its worker had stopped.
    pub(crate) fn drop_step(&mut self) {
        self.steps.pop();
    }

    pub(crate) fn note(&mut self, bytes: &[u8]) {
        self.trace = alluvium_base::checksum::seeded(self.trace, bytes);
    }

    pub(crate) fn reclaim(&mut self) -> Result<()> {
        self.tree.store().reclaim(ReclaimLimit::default())?;
        Ok(())
    }

    pub(crate) fn check(&mut self, depth: CheckLevel) {
        let jobs: Vec<&CompactionJob> = self
            .steps
            .iter()
            .filter_map(|step| match step {
                TreeStep::Compact(job) => Some(&**job),
                TreeStep::Reshaped => None,
            })
            .collect();
        let found = self.tree.check_with(depth, &jobs).unwrap();
        assert_eq!(found, Vec::<String>::new(), "{}", self.tree.draw());
        assert_eq!(self.tree.store().cache().check(), []);
    }

    /// Closes and reopens the store. Everything after the last checkpoint is lost.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.steps.clear();
        self.digesting = None;
        self.ingest = None;
        self.sealed = None;
        self.edges = self.edges();
        self.gathered_bytes = self.gathered_bytes();
        self.memtable = Arc::new(Memtable::new(256 << 10));
        let options = self.tree.options().clone();
        let directory = Arc::clone(&self.directory);
        // The old handles are dropped first, because a store can be open only once.
        let placeholder = TieredTree::create(
            Arc::new(Store::create(
                Arc::new(alluvium_device::memory::MemoryDirectory::new()),
                &store_options(),
                b"",
            )?),
            options.clone(),
        );
        drop(std::mem::replace(&mut self.tree, placeholder));
        let store = Store::open(directory, &store_options_of(&self.workload))?.replay(&mut |_| Ok(()))?;
        self.tree = TieredTree::open_alone(Arc::new(store), options)?;
        let cut = self.tree.cut();
        self.history.cut(cut);
        self.sequence = self.sequence.max(cut);
        self.snapshots.retain(|at| *at <= cut);
        self.base = cut;
        self.restack();
        Ok(())
    }
}
