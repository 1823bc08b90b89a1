//! The keys of recent commits, recorded when their memtables are flushed.
//!
//! A large transaction is validated against all commits since it began, which may long have been
//! flushed. A dictionary can tell the newest commit of one key, but not which keys have been
//! committed since. While a transaction has spilled writes, each flushed memtable therefore leaves
//! its keys here. Validation looks these keys up in the transaction, whose own keys are many more.
//!
//! Invariants:
//!
//! - **K1** While there are observers, the record contains every key and range delete that commits
//!   above `complete_above` wrote, as far as these commits were flushed.

use super::Engine;
use super::validate::{OwnWrites, WriteConflict};
use crate::error::Result;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::schema::catalog::KeyspaceDefinition;
use alluvium_base::SequenceNumber;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::range::KeyRange;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Approximate memory of a recorded key beyond its bytes: pointer, length, sequence number, and the
/// share of a tree node.
const PER_KEY: u64 = 48;

/// The record may use one part in this many of the store's memory.
const SHARE: u64 = 32;

/// The smallest limit of the record, which also holds in simulations.
const LEAST_BYTES: u64 = 256 << 10;

/// Number of keys that are copied at a time while the record is locked.
const AT_A_TIME: usize = 256;

/// The keys that flushed memtables contained.
#[derive(Debug, Default)]
pub(crate) struct CommittedKeys {
    record: Mutex<KeyRecord>,
}

#[derive(Debug, Default)]
struct KeyRecord {
    observers: usize,
    /// Greatest sequence number of a flushed or attached commit.
    flushed: SequenceNumber,
    /// The record is complete for flushed commits above this sequence number.
    complete_above: SequenceNumber,
    /// Each written key with the sequence number of its newest commit.
    keys: BTreeMap<Box<[u8]>, SequenceNumber>,
    /// Deleted ranges: first key, end, sequence number.
    deletes: Vec<(Vec<u8>, Vec<u8>, SequenceNumber)>,
    bytes: u64,
}

/// Keeps the record while it exists.
#[derive(Debug)]
pub(crate) struct CommitObserver {
    keys: Arc<CommittedKeys>,
}

impl Drop for CommitObserver {
    fn drop(&mut self) {
        let mut record = self.keys.record.lock();
        record.observers -= 1;
        if record.observers == 0 {
            record.forget();
        }
    }
}

impl KeyRecord {
    fn forget(&mut self) {
        self.keys.clear();
        self.deletes.clear();
        self.bytes = 0;
        self.complete_above = self.flushed;
    }

    /// Adds the keys of a memtable, until the record has more than `most_bytes`.
    fn add(&mut self, memtable: &Memtable, most_bytes: u64) {
        let mut cursor = memtable.cursor();
        cursor.first();
        while let Some(key) = cursor.key().filter(|_| self.bytes <= most_bytes) {
            if let Some(newest) = cursor.versions(MAX_SEQUENCE).next() {
                match self.keys.get_mut(key) {
                    Some(at) => *at = newest.sequence.max(*at),
                    None => {
                        self.bytes += key.len() as u64 + PER_KEY;
                        self.keys.insert(key.into(), newest.sequence);
                    }
                }
            }
            cursor.next();
        }
        if let Some(deletes) = memtable.deletes() {
            deletes.each(|start, end, sequence| {
                self.bytes += (start.len() + end.len()) as u64 + PER_KEY;
                self.deletes.push((start.to_vec(), end.to_vec(), sequence));
            });
        }
    }
}

impl CommittedKeys {
    /// Begins to record, unless another observer has.
    pub(crate) fn observe(self: &Arc<Self>) -> CommitObserver {
        let mut record = self.record.lock();
        record.observers += 1;
        if record.observers == 1 {
            record.complete_above = record.flushed;
        }
        CommitObserver {
            keys: Arc::clone(self),
        }
    }

    /// Records the keys of a memtable whose last commit is `cut`, before the dictionaries publish
    /// it. Forgets everything if the record would exceed `most_bytes`.
    pub(super) fn note_flush(&self, memtable: &Memtable, cut: SequenceNumber, most_bytes: u64) {
        let mut record = self.record.lock();
        record.flushed = record.flushed.max(cut);
        if record.observers == 0 || is_planted(IsolationFault::FlushedKeysAreForgotten) {
            return;
        }
        record.add(memtable, most_bytes);
        if record.bytes > most_bytes {
            record.forget();
        }
    }

    /// Notes that ingested data was attached as the commits up to `last`. Its keys are not
    /// recorded.
    pub(super) fn note_attachment(&self, last: SequenceNumber) {
        let mut record = self.record.lock();
        record.flushed = record.flushed.max(last);
        record.forget();
    }

    /// Returns the memory of the record in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.record.lock().bytes
    }

    /// Searches the flushed commits above `place` for one that wrote to any of `own`. Returns the
    /// conflict, if there is one, or `None` if the record does not reach back to `place`.
    pub(super) fn find_conflict<'r>(
        &self,
        place: SequenceNumber,
        ranges: impl Iterator<Item = (&'r Arc<KeyspaceDefinition>, KeyRange)>,
        own: &dyn OwnWrites,
    ) -> Result<Option<Option<WriteConflict>>> {
        for (definition, range) in ranges {
            let met = |key: Vec<u8>| {
                let definition = Arc::clone(definition);
                Some(Some(WriteConflict { definition, key }))
            };
            let Some(deletes) = self.deletes_within(place, &range) else {
                return Ok(None);
            };
            for deleted in deletes {
                if own.has_key_in(&deleted, definition)? {
                    return Ok(met(deleted.low.into_vec()));
                }
            }
            let mut low = Bound::Included(range.low.to_vec());
            loop {
                let Some(keys) = self.keys_within(place, &low, &range) else {
                    return Ok(None);
                };
                let Some(last) = keys.last() else {
                    break;
                };
                low = Bound::Excluded(last.0.to_vec());
                for (key, _) in keys.into_iter().filter(|(_, at)| *at > place) {
                    if own.has_key(&key, definition)? {
                        return Ok(met(key.into_vec()));
                    }
                }
            }
        }
        Ok(Some(None))
    }

    /// Returns the parts of `range` that commits above `place` deleted. `None` if the record does
    /// not reach back to `place`.
    fn deletes_within(&self, place: SequenceNumber, range: &KeyRange) -> Option<Vec<KeyRange>> {
        let record = self.record.lock();
        if record.complete_above > place {
            return None;
        }
        let above = record.deletes.iter().filter(|(.., at)| *at > place);
        let within = above.map(|(start, end, _)| range.intersect(&KeyRange::new(start, Some(end))));
        Some(within.filter(|part| !part.is_empty()).collect())
    }

    /// Returns the next recorded keys of `range` from `low` on, with the sequence numbers of their
    /// newest commits. `None` if the record does not reach back to `place`.
    fn keys_within(
        &self,
        place: SequenceNumber,
        low: &Bound<Vec<u8>>,
        range: &KeyRange,
    ) -> Option<Vec<(Box<[u8]>, SequenceNumber)>> {
        let record = self.record.lock();
        if record.complete_above > place {
            return None;
        }
        let low = low.as_ref().map(|key| &**key);
        let keys = record.keys.range::<[u8], _>((low, Bound::Unbounded));
        let within = keys.take_while(|(key, _)| range.contains(key));
        Some(
            within
                .take(AT_A_TIME)
                .map(|(key, at)| (key.clone(), *at))
                .collect(),
        )
    }
}

impl Engine {
    /// Records the keys of a memtable that is about to be flushed, if a transaction needs them.
    pub(super) fn note_flushed_keys(&self, memtable: &Memtable, cut: SequenceNumber) {
        let most = (self.memory_budget() / SHARE).max(LEAST_BYTES);
        self.committed_keys.note_flush(memtable, cut, most);
    }
}
