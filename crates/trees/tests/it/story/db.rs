//! The miniature database: a log, memtables, and the tree below them.
//!
//! A commit is one record of the log, with a sequence number for each of its writes; then its
//! writes go into the memtable. The memtable is sealed when it has grown enough, and written out by
//! slices; until that has ended, readers look into it.

use super::flaw::Flaw;
use super::ingest::UnderWay;
use super::ops::{decode, encode};
use crate::alone::Alone;
use crate::stack::Stack;
use alluvium_base::message::LAST;
use alluvium_base::{Message, Sequence};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::{Append, Direction};
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::Durability;
use alluvium_sim::ops::Op;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{Directories, Result, log};
use alluvium_trees::tiered::{Incorporation, Iter, Stats, Step, Tree, TreeOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a memtable: far more than makes it full, since a log that is replayed fills one.
const ROOM: usize = 1 << 20;

/// A memtable that takes no more writes.
pub(super) struct Sealed {
    pub(super) memtable: Arc<Memtable>,
    pub(super) base: Sequence,
    pub(super) cut: Sequence,
    pub(super) writing: Option<Incorporation>,
}

/// A state that a slow reader reads, and what was there when it was taken.
pub(super) struct Snapshot {
    pub(super) at: Sequence,
    pub(super) pairs: Pairs,
    pub(super) iter: Iter,
    pub(super) read: Pairs,
}

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

// What is under way goes before the tree, and the tree before the store.
pub(crate) struct Db {
    pub(super) steps: [Option<Step>; 2],
    pub(super) sealed: Option<Sealed>,
    pub(super) ingest: Option<UnderWay>,
    /// An ingest was attached that no durable generation holds.
    pub(super) is_unlogged: bool,
    pub(super) tree: Tree,
    pub(super) memtable: Arc<Memtable>,
    /// The memtable holds what was committed above this.
    pub(super) base: Sequence,
    pub(super) stack: Arc<Stack>,
    /// Bytes of keys and values in the memtable.
    pub(super) filled: u64,
    /// The sequence of the next write.
    pub(super) next: Sequence,
    /// The last sequence of each commit since the store was opened, and its number in the ledger.
    pub(super) commits: Vec<(Sequence, usize)>,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) flaw: Flaw,
    /// What the tree had done when it was last looked at.
    pub(super) seen: Stats,
    pub(super) space: Space,
}

/// What is known of the space that was taken since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Bytes in extents that are not free, when last looked at.
    pub(super) taken: u64,
    /// All bytes that were ever taken, at least.
    pub(super) ever: u64,
    /// The largest that the files were.
    pub(super) file: u64,
}

pub(crate) fn word(durability: Durability) -> log::Durability {
    match durability {
        Durability::Memory => log::Durability::Memory,
        Durability::Process => log::Durability::Process,
        Durability::Disk => log::Durability::Disk,
    }
}

pub(crate) fn insert(memtable: &Memtable, op: &Op, at: Sequence) {
    match op {
        Op::Put { key, value } => memtable.insert(key, Message::put(at, value)),
        Op::Delete { key } => memtable.insert(key, Message::delete(at)),
        Op::Merge { key, operand } => memtable.insert(key, Message::merge(at, operand)),
        Op::DeleteRange { start, end } => memtable.delete_range(start, end, at),
    }
    .expect("a memtable has room for all of the log");
}

pub(crate) fn size(op: &Op) -> u64 {
    let (key, operand) = match op {
        Op::Put { key, value } => (key.len(), value.len()),
        Op::Delete { key } => (key.len(), 0),
        Op::Merge { key, operand } => (key.len(), operand.len()),
        Op::DeleteRange { start, end } => (start.len(), end.len()),
    };
    (key + operand) as u64
}

impl Db {
    pub(super) fn create(
        directories: Directories,
        options: &StoreOptions,
        tree: TreeOptions,
        flaw: Flaw,
    ) -> Result<Db> {
        let store = Store::create(directories, options, b"")?;
        let tree = Tree::create(Arc::new(store), tree);
        Ok(Self::assemble(tree, Memtable::new(ROOM), 0, 1, flaw))
    }

    /// Superblock, log from the cut, trunk.
    pub(super) fn open(
        directories: Directories,
        options: &StoreOptions,
        tree: TreeOptions,
        flaw: Flaw,
    ) -> Result<Db> {
        let opening = Store::open(directories, options)?;
        let cut = opening.superblock().cut;
        let memtable = Memtable::new(ROOM);
        let (mut last, mut filled) = (cut, 0);
        let store = opening.replay(&mut |record| {
            let skipped = flaw == Flaw::ReplaysOneLess && record.first == cut + 1;
            for (op, at) in decode(record.payload)?.iter().zip(record.first..) {
                let forgotten = match op {
                    Op::Delete { .. } => flaw == Flaw::ForgetsDeletes,
                    Op::DeleteRange { .. } => flaw == Flaw::ForgetsRangeDeletes,
                    _ => false,
                };
                if at > cut && !skipped && !forgotten {
                    insert(&memtable, op, at);
                    filled += size(op);
                }
            }
            last = record.first + u64::from(record.count) - 1;
            Ok(())
        })?;
        let next = store.log().completed().max(last) + 1;
        let tree = Tree::open_alone(Arc::new(store), tree)?;
        Ok(Self::assemble(tree, memtable, filled, next, flaw))
    }

    fn assemble(tree: Tree, memtable: Memtable, filled: u64, next: Sequence, flaw: Flaw) -> Db {
        let usage = tree.store().usage().0.total();
        let taken = usage.live_extent_bytes + usage.provisional_bytes + usage.dead_bytes;
        // Scans find the same however little they may hold between their calls.
        tree.limit_scans([u64::MAX, 0, 20_000][(next % 3) as usize]);
        let db = Db {
            steps: [None, None],
            sealed: None,
            ingest: None,
            is_unlogged: false,
            seen: tree.stats(),
            base: tree.cut(),
            stack: Arc::default(),
            tree,
            memtable: Arc::new(memtable),
            filled,
            next,
            commits: Vec::new(),
            snapshot: None,
            flaw,
            space: Space {
                taken,
                ever: taken,
                file: usage.file_bytes,
            },
        };
        db.restack();
        db
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.tree.store()
    }

    /// The last sequence that was committed.
    pub(super) fn last(&self) -> Sequence {
        self.next - 1
    }

    /// One commit: a record of the log, then the memtable.
    pub(super) fn commit(&mut self, ops: &[Op], durability: Durability) -> Result<()> {
        let durability = match self.flaw {
            Flaw::AcknowledgesEarly if durability == Durability::Disk => Durability::Process,
            _ => durability,
        };
        self.store().health()?;
        let first = self.next;
        let result = self
            .store()
            .log()
            .append(first, ops.len() as u32, &encode(ops), word(durability));
        self.store().judge(result)?;
        for (op, at) in ops.iter().zip(first..) {
            insert(&self.memtable, op, at);
            self.filled += size(op);
        }
        self.next = first + ops.len() as u64;
        Ok(())
    }

    /// What readers look into.
    pub(super) fn restack(&self) {
        let sealed = self.sealed.iter().map(|sealed| (&sealed.memtable, sealed.base));
        self.stack
            .set(std::iter::once((&self.memtable, self.base)).chain(sealed));
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if key.len().is_multiple_of(2) {
            let stack: Arc<dyn Memtables> = Arc::<Stack>::clone(&self.stack);
            return self.tree.lookup_with(stack, key, LAST, 0).wait();
        }
        let mut gather = [Gather::new(LAST, 0, Some(&Append))];
        self.stack.gather(&self.tree, &[key], &mut gather)?;
        let [gather] = gather;
        Ok(gather.finish())
    }

    pub(super) fn iter(&self, range: &KeyRange, direction: Direction, at: Sequence) -> Iter {
        let stack: Arc<dyn Memtables> = Arc::<Stack>::clone(&self.stack);
        self.tree.iter_with(stack, range.clone(), direction, at, 0)
    }

    /// Everything within a range, by a scan each way; an error in words when they differ or are out
    /// of order.
    pub(super) fn scan(&self, range: &KeyRange) -> Result<std::result::Result<Pairs, String>> {
        let forward = self.walk(range, Direction::Forward)?;
        let backward = self.walk(range, Direction::Backward)?;
        Ok(match (forward, backward) {
            (Ok(forward), Ok(backward)) if forward != backward => {
                Err("forward and backward are not the same".into())
            }
            (forward, backward) => forward.and(backward),
        })
    }

    /// Everything within a range, by one scan; an error in words when it is out of order.
    pub(super) fn walk(
        &self,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<std::result::Result<Pairs, String>> {
        let mut pairs = Pairs::new();
        let mut iter = self.iter(range, direction, self.last());
        while let Some((key, value)) = iter.next()? {
            let in_order = match direction {
                Direction::Forward => pairs.last_key_value().is_none_or(|(last, _)| &last[..] < key),
                Direction::Backward => pairs.first_key_value().is_none_or(|(first, _)| key < &first[..]),
            };
            if !in_order {
                return Ok(Err(format!("{} is out of order", key.escape_ascii())));
            }
            pairs.insert(key.to_vec(), value.to_vec());
        }
        Ok(Ok(pairs))
    }
}
