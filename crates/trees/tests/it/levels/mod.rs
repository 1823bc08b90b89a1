//! Levels of runs under every policy: random user operations and background work, compared with the
//! reference.

mod apart;
mod cases;
mod differential;
mod ranges;
mod rehash;
mod rules;
mod scans;
mod slices;

use crate::history::History;
use crate::schema::schema_with;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::{
    BulkIngest, Dictionary, DictionaryScan, LookupReader, MaintenanceStep, MemtableIncorporation,
    OrderedDictionary, PointLookup, StepProgress,
};
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_storage::extents::{AllocationClass, ExtentOptions, UNIT};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{NodeCodec, Result};
use alluvium_stories::MemtableStack;
use alluvium_trees::levels::{FilterSource, LevelsDictionary, LevelsOptions, StitchPolicy};
use alluvium_trees::map::StructureContext;
use std::sync::Arc;

const KEYS: u32 = 1500;
const UNIT_BYTES: u64 = 16 << 10;
/// Number of concurrent merges.
const WORKERS: usize = 4;

fn store_options() -> StoreOptions {
    StoreOptions {
        id: 0xa11,
        cache_bytes: 1 << 20,
        extents: ExtentOptions {
            min_reserve: UNIT,
            max_reserve: 4 * UNIT,
            min_map_deltas: 4 << 10,
            ..ExtentOptions::default()
        },
        ..StoreOptions::default()
    }
}

/// A memtable being flushed into the structure. It holds the commits above the first number and up
/// to the second.
type Sealed = (
    Arc<Memtable>,
    SequenceNumber,
    SequenceNumber,
    Box<dyn MemtableIncorporation>,
);

/// A structure with a memtable above it.
struct World {
    directory: Arc<dyn Directory>,
    home: StructureContext,
    options: LevelsOptions,
    // Declared first, so that unfinished work is dropped before the structure.
    steps: Vec<Box<dyn MaintenanceStep>>,
    sealed: Option<Sealed>,
    levels: LevelsDictionary,
    memtable: Arc<Memtable>,
    base: SequenceNumber,
    stack: Arc<MemtableStack>,
    history: History,
    random: fastrand::Rng,
    sequence: SequenceNumber,
    durable: SequenceNumber,
    snapshots: Vec<SequenceNumber>,
    now_ms: u64,
    /// Number of finished merges.
    merges: u64,
    /// Whether to write only deletes and puts of short values, in bursts of neighbouring keys.
    is_plain: bool,
}

fn home(store: Store) -> StructureContext {
    StructureContext {
        store: Arc::new(store),
        schema: schema_with(0, NodeCodec::None, Some(200)),
        horizon: Arc::new(GcHorizon::default()),
    }
}

impl World {
    fn new(policy: &str, seed: u64) -> World {
        World::stitching(policy, StitchPolicy::default(), seed)
    }

    fn stitching(policy: &str, stitching: StitchPolicy, seed: u64) -> World {
        World::of(
            policy,
            stitching,
            seed,
            schema_with(0, NodeCodec::None, Some(200)),
        )
    }

    fn of(policy: &str, stitching: StitchPolicy, seed: u64, schema: Arc<dyn KeyspaceSchema>) -> World {
        World::with(World::options(policy, stitching), seed, schema)
    }

    fn options(policy: &str, stitching: StitchPolicy) -> LevelsOptions {
        LevelsOptions {
            policy: policy.parse().unwrap(),
            unit_bytes: UNIT_BYTES,
            fingerprint_bits: 24,
            stitching,
            filters: FilterSource::default(),
        }
    }

    fn with(options: LevelsOptions, seed: u64, schema: Arc<dyn KeyspaceSchema>) -> World {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let store = Store::create(Arc::clone(&directory), &store_options(), b"").unwrap();
        let home = StructureContext {
            schema,
            ..home(store)
        };
        let is_plain = options.stitching.is_on();
        let world = World {
            directory,
            levels: LevelsDictionary::create(home.clone(), options.clone(), 0).unwrap(),
            home,
            options,
            steps: Vec::new(),
            sealed: None,
            memtable: Arc::new(Memtable::new(256 << 10)),
            base: 0,
            stack: Arc::default(),
            history: History::default(),
            random: fastrand::Rng::with_seed(seed),
            sequence: 0,
            durable: 0,
            snapshots: Vec::new(),
            now_ms: 1000,
            merges: 0,
            is_plain,
        };
        world.restack();
        world
    }

    fn restack(&self) {
        let sealed = self.sealed.iter().map(|(memtable, base, ..)| (memtable, *base));
        self.stack
            .set(std::iter::once((&self.memtable, self.base)).chain(sealed));
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:05}", self.random.u32(..KEYS)).into_bytes()
    }

    fn write(&mut self) -> Result<()> {
        self.sequence += 1;
        let at = self.sequence;
        // Operands and range deletes would keep the leaves of their runs from being adopted.
        if self.is_plain && self.random.u32(..2000) > 0 {
            return self.write_plain(at);
        }
        let key = self.key();
        let len = if self.random.u32(..30) == 0 { 1000 } else { 60 };
        let operand = vec![self.random.u8(..); self.random.usize(..len)];
        let (kind, expires_ms, operand) = match self.random.u32(..1000) {
            0..3 => {
                let other = self.key();
                let (start, end) = if key < other { (key, other) } else { (other, key) };
                self.memtable.delete_range(&start, &end, at).unwrap();
                self.history.delete_range(&start, &end, at);
                return Ok(());
            }
            3..150 => (MessageKind::Delete, 0, Vec::new()),
            150..300 => (MessageKind::Merge, 0, operand[..operand.len().min(3)].to_vec()),
            300..320 => (MessageKind::Put, self.now_ms + self.random.u64(..200), operand),
            _ => (MessageKind::Put, 0, operand),
        };
        let message = Message {
            sequence: at,
            kind,
            expires_ms,
            operand: &operand,
        };
        self.memtable.insert(&key, message).unwrap();
        self.history.add(&key, at, kind, expires_ms, &operand);
        if self.memtable.bytes() as u64 > UNIT_BYTES + (64 << 10) {
            self.seal()?;
        }
        Ok(())
    }

    /// Puts, or occasionally deletes, a key close to the last ones written.
    fn write_plain(&mut self, at: SequenceNumber) -> Result<()> {
        let burst = at / 300;
        let number = (burst * 7919 % 50) * 400 + self.random.u64(..400);
        let key = format!("{number:05}").into_bytes();
        let value = [self.random.u8(..); 100];
        let message = match self.random.u8(..40) {
            0 => Message::delete(at),
            _ => Message::put(at, &value),
        };
        self.memtable.insert(&key, message).unwrap();
        self.history.add(&key, at, message.kind, 0, message.operand);
        if self.memtable.bytes() as u64 > 2 * UNIT_BYTES + (64 << 10) {
            self.seal()?;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<()> {
        while self.sealed.is_some() {
            self.poll_incorporation()?;
        }
        if self.sequence > self.levels.cut() {
            let sealed = std::mem::replace(&mut self.memtable, Arc::new(Memtable::new(256 << 10)));
            let base = std::mem::replace(&mut self.base, self.sequence);
            self.raise_horizon();
            let share = MemtableSlice::whole(Arc::clone(&sealed), self.sequence);
            let taking = self.levels.incorporate(share, AllocationClass::Normal)?;
            self.sealed = Some((sealed, base, self.sequence, taking));
        }
        self.restack();
        Ok(())
    }

    fn poll_incorporation(&mut self) -> Result<()> {
        let slice = self.random.usize(1..200);
        let Some((_, _, cut, taking)) = &mut self.sealed else {
            return Ok(());
        };
        if taking.poll(slice)? == StepProgress::Done {
            taking.publish()?;
            assert_eq!(self.levels.cut(), *cut);
            self.sealed = None;
            // The list may still contain a memtable that is already in the structure. Readers must
            // cope with this.
            if self.random.bool() {
                self.restack();
            }
        }
        Ok(())
    }

    fn raise_horizon(&self) {
        let mut snapshots = self.snapshots.clone();
        snapshots.sort_unstable();
        self.home.horizon.raise_past(snapshots, self.sequence);
        self.home.horizon.tick(self.now_ms);
    }

    fn poll_step(&mut self) -> Result<()> {
        self.raise_horizon();
        if self.steps.len() < WORKERS
            && let Some(step) = self.levels.next_step()?
        {
            self.steps.push(step);
        }
        if !self.steps.is_empty() {
            let (worker, slice) = (self.random.usize(..self.steps.len()), self.random.usize(1..400));
            if self.steps[worker].poll(slice)? == StepProgress::Done {
                drop(self.steps.swap_remove(worker));
                self.merges += 1;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        while self.sealed.is_some() {
            self.poll_incorporation()?;
        }
        for turn in 0.. {
            assert!(
                turn < 100_000,
                "there is always something to do: {:?}",
                self.levels
            );
            if self.levels.pending_work().steps == 0 {
                assert!(self.steps.is_empty() && self.levels.next_step()?.is_none());
                return Ok(());
            }
            self.poll_step()?;
        }
        Ok(())
    }

    fn ingest(&mut self) -> Result<()> {
        self.seal()?;
        while self.sealed.is_some() {
            self.poll_incorporation()?;
        }
        let mut ingest: Box<dyn BulkIngest> = self.levels.ingest(AllocationClass::Normal)?;
        let mut own = History::default();
        for layer in 1..=self.random.u64(1..4) {
            if self.random.u8(..4) == 0 {
                let (one, other) = (self.key(), self.key());
                let (start, end) = if one < other { (one, other) } else { (other, one) };
                ingest.delete_range(&start, &end);
                own.delete_range(&start, &end, layer);
            } else {
                let from = self.random.u32(..KEYS);
                for number in (from..KEYS).step_by(1 + self.random.usize(..20)) {
                    let (key, value) = (format!("{number:05}"), [self.random.u8(..); 40]);
                    ingest.push(key.as_bytes(), Message::put(0, &value))?;
                    own.add(key.as_bytes(), layer, MessageKind::Put, 0, &value);
                }
            }
            ingest.end_layer()?;
        }
        let layers = ingest.layers();
        ingest.attach(self.sequence + 1)?;
        self.history.append(own, self.sequence);
        self.sequence += layers;
        self.base = self.sequence;
        self.restack();
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let keys: Vec<Vec<u8>> = (0..4).map(|_| self.key()).collect();
        let at = self.snapshots.first().copied().filter(|_| self.random.bool());
        let at = at.unwrap_or(MAX_SEQUENCE);
        let hashed: Vec<LookupKey<'_>> = keys.iter().map(|key| LookupKey::new(key)).collect();
        let mut gathers: Vec<LookupState<'_>> = keys
            .iter()
            .map(|_| LookupState::new(at, self.now_ms, Some(&AppendOperator)))
            .collect();
        let list = self.stack.newest_first();
        let reader = self.levels.reader();
        for entry in list.iter().filter(|entry| entry.base >= reader.cut()) {
            for (&key, gather) in hashed.iter().zip(&mut gathers) {
                gather.memtable(&entry.memtable, key);
            }
        }
        if self.random.bool() {
            lookup::batch::gather_many(&reader, &hashed, &mut gathers)?;
        } else {
            for (&key, gather) in hashed.iter().zip(&mut gathers) {
                lookup::gather(&reader, key, gather)?;
            }
        }
        for (key, gather) in keys.iter().zip(gathers) {
            let expected = self.history.read(key, at, self.now_ms);
            assert_eq!(
                gather.finish(),
                expected,
                "{:?} at {at}",
                key.escape_ascii().to_string()
            );
        }
        Ok(())
    }

    fn compare_scans(&mut self) -> Result<()> {
        for at in self.snapshots.clone().into_iter().chain([self.sequence]) {
            let mut expected = self.history.scan(at, self.now_ms);
            let (one, other) = (self.key(), self.key());
            let range = if self.random.bool() {
                KeyRange::everything()
            } else {
                KeyRange::new(&one, Some(&other))
            };
            expected.retain(|(key, _)| range.contains(key));
            for direction in [MergeDirection::Forward, MergeDirection::Backward] {
                let stack: Arc<dyn MemtableOwner> = Arc::<MemtableStack>::clone(&self.stack);
                let mut scan = self.levels.scan(stack, range.clone(), direction, at, self.now_ms);
                let mut found = Vec::new();
                // Concurrent work must not affect the result.
                while let Some((key, value)) = scan.next()? {
                    found.push((key.to_vec(), value.to_vec()));
                    if found.len() % 100 == 99 {
                        self.poll_step()?;
                    }
                }
                if direction == MergeDirection::Backward {
                    found.reverse();
                }
                assert!(found == expected, "a scan at {at} of {range:?}, {direction:?}");
                scan.seek(&one);
                let after = |(key, _): &&(Vec<u8>, Vec<u8>)| match direction {
                    MergeDirection::Forward => *key >= one,
                    MergeDirection::Backward => *key <= one,
                };
                let mut after: Vec<_> = expected.iter().filter(after).collect();
                if direction == MergeDirection::Backward {
                    after.reverse();
                }
                let found = scan.next()?.map(|(key, value)| (key.to_vec(), value.to_vec()));
                assert_eq!(found.as_ref(), after.first().copied());
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        let store = Arc::clone(&self.home.store);
        self.levels.prepare()?;
        let cut = self.levels.checkpoint_root()?;
        let begun = store.begin_checkpoint()?;
        let (root, at) = (cut.root.clone(), cut.at);
        drop(cut);
        begun.finish(&root, at)?;
        self.durable = at;
        Ok(())
    }

    fn toggle_snapshot(&mut self) {
        if self.snapshots.len() < 3 && self.random.bool() {
            self.snapshots.push(self.levels.cut());
            self.snapshots.sort_unstable();
        } else if !self.snapshots.is_empty() {
            let index = self.random.usize(..self.snapshots.len());
            self.snapshots.remove(index);
        }
        self.now_ms += self.random.u64(..20);
    }

    fn check(&self, depth: CheckLevel) -> Result<()> {
        let payload = self.home.store.superblock().payload;
        let durable = Some(&payload[..]).filter(|payload| !payload.is_empty());
        let steps: Vec<&dyn MaintenanceStep> = self.steps.iter().map(|step| &**step).collect();
        let examined = self.levels.check(depth, &steps, durable, &mut |_| Ok(()))?;
        let mut found = self.home.store.check(examined.reachable.into_iter())?;
        found.extend(examined.findings.into_sentences());
        assert_eq!(found, Vec::<String>::new(), "{:?}", self.levels);
        Ok(())
    }

    /// Closes and reopens the store. Everything after the last checkpoint is lost.
    fn reopen(self) -> Result<World> {
        let World {
            directory,
            home: old,
            options,
            steps,
            sealed,
            levels,
            mut history,
            mut snapshots,
            durable,
            ..
        } = self;
        drop((steps, sealed, levels, old));
        let store = Store::open(Arc::clone(&directory), &store_options())?.replay(&mut |_| Ok(()))?;
        let home = home(store);
        let saved = home.store.superblock();
        let levels = match saved.payload.is_empty() {
            true => LevelsDictionary::create(home.clone(), options.clone(), 0)?,
            // The policy stored in the root overrides the one given here.
            false => {
                let other = options.clone().with_policy("never".parse()?);
                LevelsDictionary::open(home.clone(), &other, &saved.payload, saved.cut)?
            }
        };
        assert_eq!(levels.options(), &options);
        assert_eq!(levels.cut(), durable);
        history.cut(durable);
        snapshots.retain(|at| *at <= durable);
        let world = World {
            directory,
            home,
            options,
            steps: Vec::new(),
            sealed: None,
            levels,
            memtable: Arc::new(Memtable::new(256 << 10)),
            base: durable,
            stack: Arc::default(),
            history,
            random: self.random,
            sequence: durable,
            durable,
            snapshots,
            now_ms: self.now_ms,
            merges: self.merges,
            is_plain: self.is_plain,
        };
        world.restack();
        Ok(world)
    }
}
