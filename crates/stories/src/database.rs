//! A small database under test: a log, memtables, and the structure below them.
//!
//! Each commit is a single log record with one sequence number per write. After logging, the writes
//! are applied to the memtable. A full memtable is sealed and flushed to the structure in slices.
//! Readers search the sealed memtable until its flush has ended.

use crate::flaw::CallerFlaw;
use crate::format::{decode, encode};
use crate::ingest::UnattachedIngest;
use crate::root::RootKeeper;
use crate::stack::MemtableStack;
use crate::story::StructureStory;
use crate::subject::StructureSubject;
use alluvium_base::{Message, SequenceNumber};
use alluvium_dictionary::contract::{
    Dictionary as _, DictionaryScan, MaintenanceStep, MemtableIncorporation,
};
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_sim::PromisedDurability;
use alluvium_sim::ops::WriteOp;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{Result, TierDirectories, log};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Capacity of a memtable in bytes. It is much larger than the size at which a memtable is sealed,
/// because a replay inserts all records of the log into a single memtable.
const MEMTABLE_BYTES: usize = 1 << 20;

pub(crate) struct SealedMemtable {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) base: SequenceNumber,
    pub(crate) cut: SequenceNumber,
    pub(crate) incorporation: Option<Box<dyn MemtableIncorporation>>,
}

/// A reader with an open snapshot, and the contents of the store when the snapshot was taken.
pub(crate) struct SlowReader {
    pub(crate) at: SequenceNumber,
    pub(crate) pairs: KeyValuePairs,
    pub(crate) scan: Box<dyn DictionaryScan>,
    pub(crate) read: KeyValuePairs,
}

pub(crate) type KeyValuePairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The space allocated since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct AllocatedSpace {
    /// Bytes in extents that were allocated when the space was last counted.
    pub(crate) taken: u64,
    /// Lower bound of the total number of bytes that have ever been allocated.
    pub(crate) ever: u64,
    /// The largest total size of the files so far, in bytes.
    pub(crate) file: u64,
}

/// An open database. The field order makes work in progress drop before the structure, and the
/// structure before the store.
pub struct StoryDatabase<S: StructureSubject> {
    pub(crate) steps: [Option<Box<dyn MaintenanceStep>>; 2],
    pub(crate) sealed: Option<SealedMemtable>,
    pub(crate) load: Option<UnattachedIngest>,
    pub(crate) snapshot: Option<SlowReader>,
    pub(crate) dictionary: S::Dictionary,
    pub(crate) root: RootKeeper,
    pub(crate) home: StructureContext,
    pub(crate) subject: S,
    pub(crate) flaw: CallerFlaw,
    /// Whether an ingest was attached that is not yet part of a durable generation.
    pub(crate) is_unlogged: bool,
    pub(crate) memtable: Arc<Memtable>,
    /// The memtable contains the commits with sequence numbers greater than this one.
    pub(crate) base: SequenceNumber,
    pub(crate) stack: Arc<MemtableStack>,
    /// Total size of the keys and values in the memtable, in bytes.
    pub(crate) filled: u64,
    /// The sequence number that the next write will get.
    pub(crate) next: SequenceNumber,
    /// For each commit since the store was opened: its last sequence number and its number in the
    /// ledger.
    pub(crate) commits: Vec<(SequenceNumber, usize)>,
    /// The values of the structure's counters when they were last added to the coverage.
    pub(crate) figures: Vec<(&'static str, u64)>,
    /// Whether a maintenance step has ended since the counters were last added to the coverage.
    pub(crate) has_maintained: bool,
    pub(crate) space: AllocatedSpace,
}

fn durability_of_log(durability: PromisedDurability) -> log::LogDurability {
    match durability {
        PromisedDurability::Memory => log::LogDurability::Memory,
        PromisedDurability::Process => log::LogDurability::Process,
        PromisedDurability::Disk => log::LogDurability::Disk,
    }
}

fn insert(memtable: &Memtable, op: &WriteOp, at: SequenceNumber) {
    match op {
        WriteOp::Put { key, value } => memtable.insert(key, Message::put(at, value)),
        WriteOp::Delete { key } => memtable.insert(key, Message::delete(at)),
        WriteOp::Merge { key, operand } => memtable.insert(key, Message::merge(at, operand)),
        WriteOp::DeleteRange { start, end } => memtable.delete_range(start, end, at),
    }
    .expect("a memtable holds all of the log");
}

fn size(op: &WriteOp) -> u64 {
    let (key, operand) = match op {
        WriteOp::Put { key, value } => (key.len(), value.len()),
        WriteOp::Delete { key } => (key.len(), 0),
        WriteOp::Merge { key, operand } => (key.len(), operand.len()),
        WriteOp::DeleteRange { start, end } => (start.len(), end.len()),
    };
    (key + operand) as u64
}

impl<S: StructureSubject> StoryDatabase<S> {
    pub(crate) fn create(
        story: &StructureStory<S>,
        directories: TierDirectories,
        options: &StoreOptions,
    ) -> Result<StoryDatabase<S>> {
        let home = Self::home(story, Store::create(directories, options, b"")?);
        let dictionary = story.subject.create(home.clone())?;
        let fresh = (Memtable::new(MEMTABLE_BYTES), 0, 1);
        Ok(Self::assemble(
            story,
            home,
            (dictionary, RootKeeper::default()),
            fresh,
        ))
    }

    /// Opens the store and the structure, and replays the log records whose sequence numbers are
    /// above the structure's cut.
    pub(crate) fn open(
        story: &StructureStory<S>,
        directories: TierDirectories,
        options: &StoreOptions,
    ) -> Result<StoryDatabase<S>> {
        let opening = Store::open(directories, options)?;
        let cut = opening.superblock().cut;
        let memtable = Memtable::new(MEMTABLE_BYTES);
        let (mut last, mut filled) = (cut, 0);
        let store = opening.replay(&mut |record| {
            let is_skipped = story.flaw == CallerFlaw::ReplaysOneLess && record.first == cut + 1;
            for (op, at) in decode(record.payload)?.iter().zip(record.first..) {
                let is_forgotten = match op {
                    WriteOp::Delete { .. } => story.flaw == CallerFlaw::ForgetsDeletes,
                    WriteOp::DeleteRange { .. } => story.flaw == CallerFlaw::ForgetsRangeDeletes,
                    _ => false,
                };
                if at > cut && !is_skipped && !is_forgotten {
                    insert(&memtable, op, at);
                    filled += size(op);
                }
            }
            last = record.first + u64::from(record.count) - 1;
            Ok(())
        })?;
        let next = store.log().completed().max(last) + 1;
        let home = Self::home(story, store);
        let root = RootKeeper::open(&home.store)?;
        let dictionary = match &root.durable {
            None => story.subject.create(home.clone())?,
            Some(durable) => story.subject.open(home.clone(), durable, cut)?,
        };
        let replayed = (memtable, filled, next);
        Ok(Self::assemble(story, home, (dictionary, root), replayed))
    }

    fn home(story: &StructureStory<S>, store: Store) -> StructureContext {
        StructureContext {
            store: Arc::new(store),
            schema: story.subject.schema(),
            horizon: Arc::new(GcHorizon::default()),
        }
    }

    fn assemble(
        story: &StructureStory<S>,
        home: StructureContext,
        (dictionary, root): (S::Dictionary, RootKeeper),
        (memtable, filled, next): (Memtable, u64, SequenceNumber),
    ) -> StoryDatabase<S> {
        let usage = home.store.usage().0.total();
        let taken = usage.live_extent_bytes + usage.provisional_bytes + usage.dead_bytes;
        story.subject.prepare(&dictionary, next);
        let database = StoryDatabase {
            steps: [None, None],
            sealed: None,
            load: None,
            snapshot: None,
            base: dictionary.cut(),
            figures: story.subject.figures(&dictionary),
            dictionary,
            root,
            home,
            subject: story.subject.clone(),
            flaw: story.flaw,
            is_unlogged: false,
            memtable: Arc::new(memtable),
            stack: Arc::default(),
            filled,
            next,
            commits: Vec::new(),
            has_maintained: false,
            space: AllocatedSpace {
                taken,
                ever: taken,
                file: usage.file_bytes,
            },
        };
        database.publish_memtables();
        database
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.home.store
    }

    /// Returns the sequence number of the last committed write.
    pub(crate) fn last(&self) -> SequenceNumber {
        self.next - 1
    }

    /// Returns the maintenance steps that are in progress.
    pub(crate) fn under_way(&self) -> Vec<&dyn MaintenanceStep> {
        self.steps.iter().flatten().map(|step| &**step).collect()
    }

    /// Appends a commit to the log and then applies its writes to the memtable.
    pub(crate) fn commit(&mut self, ops: &[WriteOp], durability: PromisedDurability) -> Result<()> {
        let durability = match self.flaw {
            CallerFlaw::AcknowledgesEarly if durability == PromisedDurability::Disk => {
                PromisedDurability::Process
            }
            _ => durability,
        };
        self.append(ops.len() as u32, &encode(ops), durability)?;
        for (op, at) in ops.iter().zip(self.next..) {
            insert(&self.memtable, op, at);
            self.filled += size(op);
        }
        self.next += ops.len() as u64;
        Ok(())
    }

    /// Appends a log record, which is assigned `count` consecutive sequence numbers.
    pub(crate) fn append(&self, count: u32, payload: &[u8], durability: PromisedDurability) -> Result<()> {
        let store = self.store();
        store.health()?;
        let result = store
            .log()
            .append(self.next, count, payload, durability_of_log(durability));
        store.poison_on_error(result).map(drop)
    }

    /// Makes the current list of memtables visible to readers.
    pub(crate) fn publish_memtables(&self) {
        let sealed = self.sealed.iter().map(|sealed| (&sealed.memtable, sealed.base));
        self.stack
            .set(std::iter::once((&self.memtable, self.base)).chain(sealed));
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.subject.get(&self.dictionary, &self.stack, key)
    }

    /// Starts a scan of a range as of sequence number `at`.
    pub(crate) fn scan(
        &self,
        range: &KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan> {
        let stack: Arc<dyn MemtableOwner> = Arc::<MemtableStack>::clone(&self.stack);
        let range = range.clone();
        self.subject.walk(&self.dictionary, stack, range, direction, at)
    }

    /// Returns all key-value pairs of a range, read by one scan. Returns an error message if they
    /// are out of order.
    pub(crate) fn walk(
        &self,
        range: &KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Result<std::result::Result<KeyValuePairs, String>> {
        let mut scan = self.scan(range, direction, at);
        let (mut pairs, mut last) = (KeyValuePairs::new(), None);
        while let Some((key, value)) = scan.next()? {
            let place = Some((self.subject.rank(&self.dictionary, key), key.to_vec()));
            let is_in_order = match direction {
                MergeDirection::Forward => last < place,
                MergeDirection::Backward => last.is_none() || last > place,
            };
            if !is_in_order {
                return Ok(Err(format!("{} is out of order", key.escape_ascii())));
            }
            pairs.insert(key.to_vec(), value.to_vec());
            last = place;
        }
        Ok(Ok(pairs))
    }

    /// Returns all key-value pairs of a range, read by one scan in each direction. Returns an error
    /// message if the results differ or are out of order.
    pub(crate) fn walk_each_way(
        &self,
        range: &KeyRange,
    ) -> Result<std::result::Result<KeyValuePairs, String>> {
        let mut all = None;
        for &direction in self.subject.directions() {
            let pairs = self.walk(range, direction, self.last())?;
            match (&all, &pairs) {
                (_, Err(_)) => return Ok(pairs),
                (Some(Ok(forward)), Ok(backward)) if forward != backward => {
                    return Ok(Err("forward and backward are not the same".into()));
                }
                _ => all = Some(pairs),
            }
        }
        Ok(all.expect("a walk has a direction"))
    }
}
