//! Sequential reads of runs, for merges and scans.

use super::HashRun;
use super::records::{HashRecord, HashRecordBuffer};
use crate::hashed::leaf::{KeyAt, LeafEntryIter};
use alluvium_base::Purpose;
use alluvium_dictionary::nodes::{DirectNodeReader, NodeReader};
use alluvium_dictionary::record::RecordValue;
use alluvium_dictionary::value_log::{ValuePointer, read_from};
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, Result};
use std::sync::Arc;

/// Maximum number of leaves of one run in a batch.
const AT_ONCE: u64 = 32;
/// Maximum total number of leaves in the batches of all runs that are read concurrently.
const MOST_TOGETHER: u64 = 4096;

/// Decodes the records of a leaf and passes them to `visit`. Reads separately stored keys, but not
/// separately stored values.
///
/// # Errors
/// I/O errors; damage; errors returned by `visit`.
pub(super) fn read_leaf(
    run: &HashRun,
    pointer: &NodePointer,
    leaf: &[u8],
    nodes: &dyn NodeReader,
    visit: &mut dyn FnMut(HashRecord<'_>) -> Result<()>,
) -> Result<()> {
    let mut long = LongKey::default();
    read_entries(run, pointer, leaf, &mut |record, key_apart| {
        visit(long.complete(record, key_apart.as_ref(), nodes)?)
    })
}

/// Cache of the separately stored key that was read most recently.
#[derive(Debug, Default)]
pub(super) struct LongKey {
    pointer: Option<ValuePointer>,
    key: Vec<u8>,
}

impl LongKey {
    /// Returns a record with its key. A separately stored key is read only for the first of its
    /// records, which are consecutive.
    pub(super) fn complete<'r>(
        &'r mut self,
        record: HashRecord<'r>,
        key_apart: Option<&ValuePointer>,
        nodes: &dyn NodeReader,
    ) -> Result<HashRecord<'r>> {
        let Some(pointer) = key_apart else {
            return Ok(record);
        };
        if self.pointer.as_ref() != Some(pointer) {
            (self.pointer, self.key) = (None, Vec::new());
            read_from(nodes, pointer, &mut self.key)?;
            self.pointer = Some(*pointer);
        }
        Ok(HashRecord {
            key: &self.key,
            ..record
        })
    }
}

/// Decodes the records of a leaf and passes them to `visit`, without reading separately stored
/// values and keys. A record with a separately stored key has an empty key, and `visit` receives
/// the pointer to it.
pub(super) fn read_entries(
    run: &HashRun,
    pointer: &NodePointer,
    leaf: &[u8],
    visit: &mut dyn FnMut(HashRecord<'_>, Option<ValuePointer>) -> Result<()>,
) -> Result<()> {
    let place = || pointer.place();
    let mut entries = LeafEntryIter::open(leaf, place, run.page_size())?;
    // The last record's key: its hash, its bytes if it is inline, and its pointer if it is stored
    // separately.
    let (mut hash, mut here, mut elsewhere) = (0, &[][..], None);
    while let Some(entry) = entries.next(place)? {
        match entry.key {
            _ if entry.is_same_key => {}
            KeyAt::Here(key) => (hash, here, elsewhere) = (entry.key.hash(run.seed()), key, None),
            KeyAt::Apart { hash: own, pointer } => (hash, here, elsewhere) = (own, &[], Some(pointer)),
        }
        let (operand, apart) = match entry.record.value {
            RecordValue::Inline(value) => (value, None),
            RecordValue::Separate(pointer) => (&[][..], Some(pointer)),
        };
        let record = HashRecord {
            hash,
            key: here,
            sequence: entry.record.sequence + run.base(),
            kind: entry.record.kind,
            expires_ms: entry.record.expires_ms,
            operand,
            apart,
        };
        visit(record, elsewhere)?;
    }
    Ok(())
}

/// Reads the records of a run in a hash range, in order, bypassing the cache.
#[derive(Debug)]
pub struct HashRunCursor {
    store: Arc<Store>,
    run: HashRun,
    purpose: Purpose,
    /// First and last hash of the range, both inclusive.
    hashes: (u64, u64),
    next: u64,
    end: u64,
    /// Number of leaves per batch.
    ahead: u64,
    records: HashRecordBuffer,
    /// For each record, the pointer to its key if that is stored separately. The key is read only
    /// when the record is consumed, so that memory never holds the keys of a whole batch of leaves.
    keys_apart: Vec<Option<ValuePointer>>,
    /// Index of the current record.
    at: usize,
    long_key: LongKey,
}

impl HashRunCursor {
    /// Opens a cursor at the first record with a hash from `hashes.0` to `hashes.1`.
    ///
    /// # Errors
    /// I/O errors; damaged data.
    pub fn open(
        store: &Arc<Store>,
        run: HashRun,
        hashes: (u64, u64),
        purpose: Purpose,
    ) -> Result<HashRunCursor> {
        HashRunCursor::open_among(1, store, run, hashes, purpose)
    }

    /// Opens a cursor like [`HashRunCursor::open`], but for reading `runs` runs concurrently. The
    /// more runs there are, the smaller the batches, so that their total memory is bounded.
    ///
    /// # Errors
    /// I/O errors; damage.
    pub fn open_among(
        runs: usize,
        store: &Arc<Store>,
        run: HashRun,
        hashes: (u64, u64),
        purpose: Purpose,
    ) -> Result<HashRunCursor> {
        let next = run.leaves_of(hashes.0)?.start;
        // A trie returns no leaves for a hash that it does not contain.
        let end = match run.leaves_of(hashes.1)?.end {
            0 => run.leaves(),
            end => end,
        };
        let mut cursor = HashRunCursor {
            store: Arc::clone(store),
            end,
            ahead: (MOST_TOGETHER / runs.max(1) as u64).clamp(1, AT_ONCE),
            run,
            purpose,
            hashes,
            next,
            records: HashRecordBuffer::default(),
            keys_apart: Vec::new(),
            at: 0,
            long_key: LongKey::default(),
        };
        cursor.settle()?;
        Ok(cursor)
    }

    /// Returns the hash of the current record, or `None` after the last one.
    #[must_use]
    pub fn hash(&self) -> Option<u64> {
        self.records.hash(self.at)
    }

    /// Loads the current record's key and operand, appends the record to `others`, and advances.
    ///
    /// # Errors
    /// I/O errors; damage.
    pub fn take_into(&mut self, others: &mut HashRecordBuffer) -> Result<()> {
        let Some(record) = self.records.get(self.at) else {
            return Ok(());
        };
        let nodes = DirectNodeReader {
            tiers: self.store.tiers(),
            page_size: self.store.page_size(),
            purpose: self.purpose,
        };
        let key_apart = self.keys_apart[self.at].as_ref();
        let record = self.long_key.complete(record, key_apart, &nodes)?;
        match record.apart {
            None => others.push(&record),
            Some(pointer) => {
                let mut operand = Vec::new();
                read_from(&nodes, &pointer, &mut operand)?;
                others.push(&HashRecord {
                    operand: &operand,
                    apart: None,
                    ..record
                });
            }
        }
        self.skip()
    }

    /// Advances to the next record without loading the current one.
    ///
    /// # Errors
    /// I/O errors; damage.
    pub fn skip(&mut self) -> Result<()> {
        self.at += 1;
        self.settle()
    }

    /// Advances to the first record in the hash range, starting with the current one.
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
        self.records.clear();
        self.keys_apart.clear();
        self.at = 0;
        let (run, records, mut failed) = (&self.run, &mut self.records, Ok(()));
        let keys_apart = &mut self.keys_apart;
        alluvium_storage::node::read_nodes(tiers, &pointers, page_size, self.purpose, &mut |index, leaf| {
            if failed.is_ok() {
                failed = leaf.and_then(|leaf| {
                    let keep = &mut |record: HashRecord<'_>, key_apart| {
                        records.push(&record);
                        keys_apart.push(key_apart);
                        Ok(())
                    };
                    read_entries(run, &pointers[index], &leaf, keep)
                });
            }
        });
        failed?;
        self.next = end;
        Ok(())
    }
}
