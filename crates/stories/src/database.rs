//! A small database: a log, memtables, and the structure below them.
//!
//! A commit is one log record, with a sequence number for each of its writes; its writes are then
//! applied to the memtable. The memtable is sealed when it is full and flushed to the structure in
//! slices. Readers search it until the flush has ended.

use crate::flaw::Flaw;
use crate::format::{decode, encode};
use crate::load::Load;
use crate::root::RootKeeper;
use crate::stack::Stack;
use crate::story::StructureStory;
use crate::subject::Subject;
use alluvium_base::{Message, Sequence};
use alluvium_dictionary::contract::{Dictionary as _, Incorporate, Scan, Step};
use alluvium_dictionary::home::Home;
use alluvium_dictionary::horizon::Horizon;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::Durability;
use alluvium_sim::ops::Op;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{Directories, Result, log};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Capacity of a memtable in bytes: far more than the size at which it is sealed, because a
/// replayed log goes into a single memtable.
const MEMTABLE_BYTES: usize = 1 << 20;

/// A sealed memtable.
pub(crate) struct Sealed {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) base: Sequence,
    pub(crate) cut: Sequence,
    pub(crate) incorporation: Option<Box<dyn Incorporate>>,
}

/// A slow reader's state, and its contents when it was taken.
pub(crate) struct Snapshot {
    pub(crate) at: Sequence,
    pub(crate) pairs: Pairs,
    pub(crate) scan: Box<dyn Scan>,
    pub(crate) read: Pairs,
}

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Space allocated since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Bytes in extents that were not free at the last count.
    pub(crate) taken: u64,
    /// Lower bound of all bytes ever allocated.
    pub(crate) ever: u64,
    /// Largest size of the files so far.
    pub(crate) file: u64,
}

/// An open database. The order of the fields is the order of their destruction: running work before
/// the structure, and the structure before the store.
pub struct Database<S: Subject> {
    pub(crate) steps: [Option<Box<dyn Step>>; 2],
    pub(crate) sealed: Option<Sealed>,
    pub(crate) load: Option<Load>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) dictionary: S::Dictionary,
    pub(crate) root: RootKeeper,
    pub(crate) home: Home,
    pub(crate) subject: S,
    pub(crate) flaw: Flaw,
    /// Whether an ingest was attached that is in no durable generation.
    pub(crate) is_unlogged: bool,
    pub(crate) memtable: Arc<Memtable>,
    /// The memtable contains the commits above this sequence number.
    pub(crate) base: Sequence,
    pub(crate) stack: Arc<Stack>,
    /// Bytes of keys and values in the memtable.
    pub(crate) filled: u64,
    /// The sequence number of the next write.
    pub(crate) next: Sequence,
    /// The last sequence number of each commit since the store was opened, and its number in the
    /// ledger.
    pub(crate) commits: Vec<(Sequence, usize)>,
    /// The structure's counters at the last count.
    pub(crate) figures: Vec<(&'static str, u64)>,
    /// Whether a maintenance step has ended since then.
    pub(crate) has_maintained: bool,
    pub(crate) space: Space,
}

fn durability_of_log(durability: Durability) -> log::Durability {
    match durability {
        Durability::Memory => log::Durability::Memory,
        Durability::Process => log::Durability::Process,
        Durability::Disk => log::Durability::Disk,
    }
}

fn insert(memtable: &Memtable, op: &Op, at: Sequence) {
    match op {
        Op::Put { key, value } => memtable.insert(key, Message::put(at, value)),
        Op::Delete { key } => memtable.insert(key, Message::delete(at)),
        Op::Merge { key, operand } => memtable.insert(key, Message::merge(at, operand)),
        Op::DeleteRange { start, end } => memtable.delete_range(start, end, at),
    }
    .expect("a memtable holds all of the log");
}

fn size(op: &Op) -> u64 {
    let (key, operand) = match op {
        Op::Put { key, value } => (key.len(), value.len()),
        Op::Delete { key } => (key.len(), 0),
        Op::Merge { key, operand } => (key.len(), operand.len()),
        Op::DeleteRange { start, end } => (start.len(), end.len()),
    };
    (key + operand) as u64
}

impl<S: Subject> Database<S> {
    pub(crate) fn create(
        story: &StructureStory<S>,
        directories: Directories,
        options: &StoreOptions,
    ) -> Result<Database<S>> {
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

    /// Opens the store, replays the log above the cut, and opens the structure.
    pub(crate) fn open(
        story: &StructureStory<S>,
        directories: Directories,
        options: &StoreOptions,
    ) -> Result<Database<S>> {
        let opening = Store::open(directories, options)?;
        let cut = opening.superblock().cut;
        let memtable = Memtable::new(MEMTABLE_BYTES);
        let (mut last, mut filled) = (cut, 0);
        let store = opening.replay(&mut |record| {
            let is_skipped = story.flaw == Flaw::ReplaysOneLess && record.first == cut + 1;
            for (op, at) in decode(record.payload)?.iter().zip(record.first..) {
                let is_forgotten = match op {
                    Op::Delete { .. } => story.flaw == Flaw::ForgetsDeletes,
                    Op::DeleteRange { .. } => story.flaw == Flaw::ForgetsRangeDeletes,
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

    fn home(story: &StructureStory<S>, store: Store) -> Home {
        Home {
            store: Arc::new(store),
            schema: story.subject.schema(),
            horizon: Arc::new(Horizon::default()),
        }
    }

    fn assemble(
        story: &StructureStory<S>,
        home: Home,
        (dictionary, root): (S::Dictionary, RootKeeper),
        (memtable, filled, next): (Memtable, u64, Sequence),
    ) -> Database<S> {
        let usage = home.store.usage().0.total();
        let taken = usage.live_extent_bytes + usage.provisional_bytes + usage.dead_bytes;
        story.subject.prepare(&dictionary, next);
        let database = Database {
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
            space: Space {
                taken,
                ever: taken,
                file: usage.file_bytes,
            },
        };
        database.restack();
        database
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.home.store
    }

    /// Returns the last committed sequence number.
    pub(crate) fn last(&self) -> Sequence {
        self.next - 1
    }

    /// Returns the maintenance steps in progress.
    pub(crate) fn under_way(&self) -> Vec<&dyn Step> {
        self.steps.iter().flatten().map(|step| &**step).collect()
    }

    /// Appends a commit to the log, then applies it to the memtable.
    pub(crate) fn commit(&mut self, ops: &[Op], durability: Durability) -> Result<()> {
        let durability = match self.flaw {
            Flaw::AcknowledgesEarly if durability == Durability::Disk => Durability::Process,
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

    /// Appends a record of `count` sequence numbers to the log.
    pub(crate) fn append(&self, count: u32, payload: &[u8], durability: Durability) -> Result<()> {
        let store = self.store();
        store.health()?;
        let result = store
            .log()
            .append(self.next, count, payload, durability_of_log(durability));
        store.judge(result).map(drop)
    }

    /// Publishes the list of memtables to readers.
    pub(crate) fn restack(&self) {
        let sealed = self.sealed.iter().map(|sealed| (&sealed.memtable, sealed.base));
        self.stack
            .set(std::iter::once((&self.memtable, self.base)).chain(sealed));
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.subject.get(&self.dictionary, &self.stack, key)
    }

    /// Begins a scan of a range for a reader at `at`.
    pub(crate) fn scan(&self, range: &KeyRange, direction: Direction, at: Sequence) -> Box<dyn Scan> {
        let stack: Arc<dyn Memtables> = Arc::<Stack>::clone(&self.stack);
        let range = range.clone();
        self.subject.walk(&self.dictionary, stack, range, direction, at)
    }

    /// Returns all pairs of a range, by one scan. Returns a message if they are out of order.
    pub(crate) fn walk(
        &self,
        range: &KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Result<std::result::Result<Pairs, String>> {
        let mut scan = self.scan(range, direction, at);
        let (mut pairs, mut last) = (Pairs::new(), None);
        while let Some((key, value)) = scan.next()? {
            let place = Some((self.subject.rank(&self.dictionary, key), key.to_vec()));
            let is_in_order = match direction {
                Direction::Forward => last < place,
                Direction::Backward => last.is_none() || last > place,
            };
            if !is_in_order {
                return Ok(Err(format!("{} is out of order", key.escape_ascii())));
            }
            pairs.insert(key.to_vec(), value.to_vec());
            last = place;
        }
        Ok(Ok(pairs))
    }

    /// Returns all pairs of a range, by a scan in each direction. Returns a message if the results
    /// differ or are out of order.
    pub(crate) fn walk_each_way(&self, range: &KeyRange) -> Result<std::result::Result<Pairs, String>> {
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
