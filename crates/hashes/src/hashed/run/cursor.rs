//! Reading runs in order: what merges and walks take from them.

use super::Run;
use super::records::{Record, Records};
use crate::hashed::leaf::{Entries, KeyAt};
use alluvium_base::Purpose;
use alluvium_dictionary::nodes::{Direct, Nodes};
use alluvium_dictionary::record::Value;
use alluvium_dictionary::values::read_from;
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, Result};
use std::sync::Arc;

/// Leaves that are read together.
const AT_ONCE: u64 = 32;
/// Leaves of several runs that are read together.
const MOST_TOGETHER: u64 = 4096;

/// Hands the records of a leaf to `visit`, their values as they are.
///
/// # Errors
/// As the device says; damage; what `visit` returns.
pub(super) fn read_leaf(
    run: &Run,
    pointer: &NodePointer,
    leaf: &[u8],
    nodes: &dyn Nodes,
    visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<()> {
    let place = || pointer.place();
    let mut entries = Entries::open(leaf, place, run.page_size())?;
    // The last key: in the leaf, or else read from elsewhere.
    let (mut hash, mut here, mut elsewhere) = (0, None, Vec::new());
    while let Some(entry) = entries.next(place)? {
        match entry.key {
            _ if entry.is_same_key => {}
            KeyAt::Here(key) => (hash, here) = (entry.key.hash(run.seed()), Some(key)),
            KeyAt::Apart { hash: own, pointer } => {
                elsewhere.clear();
                read_from(nodes, &pointer, &mut elsewhere)?;
                (hash, here) = (own, None);
            }
        }
        let (operand, apart) = match entry.record.value {
            Value::Inline(value) => (value, None),
            Value::Separate(pointer) => (&[][..], Some(pointer)),
        };
        visit(Record {
            hash,
            key: here.unwrap_or(&elsewhere),
            sequence: entry.record.sequence + run.base(),
            kind: entry.record.kind,
            expires_ms: entry.record.expires_ms,
            operand,
            apart,
        })?;
    }
    Ok(())
}

/// Reads the records of some hashes of a run, in order and past the cache.
#[derive(Debug)]
pub struct Cursor {
    store: Arc<Store>,
    run: Run,
    purpose: Purpose,
    /// The first and the last hash.
    hashes: (u64, u64),
    next: u64,
    end: u64,
    /// How many leaves are read together.
    ahead: u64,
    records: Records,
    /// Which of them it is at.
    at: usize,
}

impl Cursor {
    /// Begins with the first record of the hashes from `first` to `last`.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn open(store: &Arc<Store>, run: Run, hashes: (u64, u64), purpose: Purpose) -> Result<Cursor> {
        Cursor::open_among(1, store, run, hashes, purpose)
    }

    /// The same of one of several runs that are read at the same time: all of them together take no
    /// more memory than a few do.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn open_among(
        runs: usize,
        store: &Arc<Store>,
        run: Run,
        hashes: (u64, u64),
        purpose: Purpose,
    ) -> Result<Cursor> {
        let next = run.leaves_of(hashes.0)?.start;
        // A trie has no answer for a hash that is not there.
        let end = match run.leaves_of(hashes.1)?.end {
            0 => run.leaves(),
            end => end,
        };
        let mut cursor = Cursor {
            store: Arc::clone(store),
            end,
            ahead: (MOST_TOGETHER / runs.max(1) as u64).clamp(1, AT_ONCE),
            run,
            purpose,
            hashes,
            next,
            records: Records::default(),
            at: 0,
        };
        cursor.settle()?;
        Ok(cursor)
    }

    /// Returns the hash of the record that it is at; none behind the last.
    #[must_use]
    pub fn hash(&self) -> Option<u64> {
        self.records.hash(self.at)
    }

    /// Adds the record that it is at to others, with its operand, and goes on to the next one.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn take_into(&mut self, others: &mut Records) -> Result<()> {
        let Some(record) = self.records.get(self.at) else {
            return Ok(());
        };
        match record.apart {
            None => others.push(&record),
            Some(pointer) => {
                let nodes = Direct {
                    tiers: self.store.tiers(),
                    page_size: self.store.page_size(),
                    purpose: self.purpose,
                };
                let mut operand = Vec::new();
                read_from(&nodes, &pointer, &mut operand)?;
                others.push(&Record {
                    operand: &operand,
                    apart: None,
                    ..record
                });
            }
        }
        self.skip()
    }

    /// Goes on to the next record, without the one that it is at.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn skip(&mut self) -> Result<()> {
        self.at += 1;
        self.settle()
    }

    /// Goes on to the first record from here that is of the hashes.
    fn settle(&mut self) -> Result<()> {
        loop {
            match self.records.hash(self.at) {
                Some(hash) if hash > self.hashes.1 => {
                    self.end = self.next;
                    self.records.clear();
                    return Ok(());
                }
                Some(hash) if hash >= self.hashes.0 => return Ok(()),
                Some(_) => self.at += 1,
                None if self.next >= self.end => return Ok(()),
                None => self.fill()?,
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        let end = self.end.min(self.next + self.ahead);
        let pointers: Result<Vec<NodePointer>> = (self.next..end).map(|leaf| self.run.leaf(leaf)).collect();
        let pointers = pointers?;
        let (tiers, page_size) = (self.store.tiers(), self.store.page_size());
        let direct = Direct {
            tiers,
            page_size,
            purpose: self.purpose,
        };
        self.records.clear();
        self.at = 0;
        let (run, records, mut failed) = (&self.run, &mut self.records, Ok(()));
        alluvium_storage::node::read_nodes(tiers, &pointers, page_size, self.purpose, &mut |index, leaf| {
            if failed.is_ok() {
                failed = leaf.and_then(|leaf| {
                    let keep = &mut |record: Record<'_>| {
                        records.push(&record);
                        Ok(())
                    };
                    read_leaf(run, &pointers[index], &leaf, &direct, keep)
                });
            }
        });
        failed?;
        self.next = end;
        Ok(())
    }
}
