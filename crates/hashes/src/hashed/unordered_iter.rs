//! Scans over all keys in hash order, which merge the structure with all newer memtables.
//!
//! A scan proceeds through windows of hashes. A window ends with a leaf of the run that has the
//! most leaves in the part. The first window spans one leaf of that run, and each further window
//! spans twice as many, up to a limit, so that long scans read leaves in batches. Memtable keys are
//! sorted by hash in batches of limited size, so that a scan needs little memory and a short scan
//! little time. Everything that the scan sees was committed before it began, so all windows see the
//! same state.

use super::run::{HashRun, OwnedHashRecord, read_window, window_end};
use super::structure::HashedStructure;
use alluvium_base::{MessageKind, Purpose, SequenceNumber};
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::contract;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::KeyState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::{MemtableOwner, above};
use alluvium_dictionary::nodes::CachedNodeReader;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{CacheRetention, Result};
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A key and its hash, ordered by hash and then by key.
type OwnedHashedKey = (u64, Box<[u8]>);

/// Maximum number of memtable keys in a batch. Small in tests, so that scans process many batches.
const HELD: usize = if cfg!(test) { 8 } else { 16 << 10 };

/// A batch of memtable keys in the range of a scan, sorted by hash. It has all keys from the hash
/// at which the batch starts up to and including hash `last`.
#[derive(Debug)]
struct MemtableKeyBatch {
    keys: Vec<OwnedHashedKey>,
    last: u64,
}

impl MemtableKeyBatch {
    /// Returns the distinct keys of the batch and of `records` in a hash window, in order.
    fn with(&self, records: &[(usize, OwnedHashRecord)], (first, last): (u64, u64)) -> Vec<OwnedHashedKey> {
        let begin = self.keys.partition_point(|(hash, _)| *hash < first);
        let end = self.keys.partition_point(|(hash, _)| *hash <= last);
        let mut keys: Vec<OwnedHashedKey> = self.keys[begin..end].to_vec();
        let of_record = |(_, record): &(usize, OwnedHashRecord)| (record.hash, record.key.clone());
        keys.extend(records.iter().map(of_record));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Maximum number of leaves in a window: `MOST_AHEAD` of any one run, and about `MOST_TOGETHER` of
/// all runs.
const MOST_AHEAD: u64 = 32;
const MOST_TOGETHER: u64 = 2048;
/// Maximum size of a window's resolved keys and values, in bytes. A window that reaches it ends
/// early, because separately stored values may be far longer than a leaf. Small in tests, so that
/// many windows end early.
const MOST_DECIDED: usize = if cfg!(test) { 2 << 10 } else { 128 << 10 };
/// Maximum size of one run's records in a window, in bytes. A window that reaches it ends early,
/// because separately stored keys may be far longer than a leaf. Small in tests, so that many
/// windows end early.
const MOST_READ: usize = if cfg!(test) { 4 << 10 } else { 256 << 10 };

/// A scan, in hash order, over the keys of a range that have a value at a given sequence number.
/// Between calls, it keeps its position, the batch of memtable keys, and the records whose values
/// have been resolved.
pub struct UnorderedIter {
    hashed: HashedStructure,
    memtables: Arc<dyn MemtableOwner>,
    range: KeyRange,
    at: SequenceNumber,
    now_ms: u64,
    /// The batch of memtable keys, or `None` before it is collected.
    above: Option<MemtableKeyBatch>,
    /// First hash of the next window, or `None` after the last one.
    next: Option<u64>,
    /// Maximum number of a run's leaves in the next window.
    ahead: u64,
    /// Among the keys with the first hash of the next window, those up to and including this one
    /// have already been returned and are skipped.
    from: Option<Box<[u8]>>,
    decided: VecDeque<(Box<[u8]>, Vec<u8>)>,
    current: (Box<[u8]>, Vec<u8>),
    long_values: LongValues,
}

impl fmt::Debug for UnorderedIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnorderedIter")
            .field("range", &self.range)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Returns the run with the most leaves for an inclusive hash range, or `None` if no run has any.
fn densest<'r>(runs: &[&'r HashRun], hashes: (u64, u64)) -> Result<Option<&'r HashRun>> {
    let (mut most, mut densest) = (0, None);
    for run in runs {
        let (first, end) = (run.leaves_of(hashes.0)?.start, run.leaves_of(hashes.1)?.end);
        let leaves = end.saturating_sub(first);
        if leaves > most {
            (most, densest) = (leaves, Some(*run));
        }
    }
    Ok(densest)
}

impl HashedStructure {
    /// Starts a scan of a range in hash order, which merges the memtables with the structure. The
    /// scan sees the state at sequence number `at`, without records that expire at or before
    /// `now_ms`.
    pub fn walk(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        at: SequenceNumber,
        now_ms: u64,
    ) -> UnorderedIter {
        UnorderedIter {
            hashed: self.clone(),
            memtables,
            range,
            at,
            now_ms,
            above: None,
            next: Some(0),
            ahead: 1,
            from: None,
            decided: VecDeque::new(),
            current: Default::default(),
            long_values: LongValues::default(),
        }
    }
}

impl UnorderedIter {
    /// Collects the next batch of memtable keys with hashes of at least `first`.
    fn collect(&self, first: u64) -> MemtableKeyBatch {
        // If more keys than the limit have the hash `first`, double the limit until all of them
        // fit.
        let mut most = HELD;
        loop {
            if let Some(above) = self.collect_at_most(first, most) {
                return above;
            }
            most *= 2;
        }
    }

    /// Collects at most `most` keys. Returns `None` if the keys with the lowest hash do not all
    /// fit.
    fn collect_at_most(&self, first: u64, most: usize) -> Option<MemtableKeyBatch> {
        let list = self.memtables.newest_first();
        let cut = self.hashed.shared.versions.cut();
        let mut lowest: BinaryHeap<OwnedHashedKey> = BinaryHeap::new();
        // Lowest hash among the keys that did not fit.
        let mut without = None;
        for memtable in above(Some(&list), cut, self.at) {
            let mut cursor = memtable.cursor();
            cursor.seek(&self.range.low);
            while let Some(key) = cursor.key().filter(|key| !self.range.ends_before(key)) {
                let hash = self.hashed.hash_of(LookupKey::new(key));
                if hash >= first && without.is_none_or(|without| hash < without) {
                    lowest.push((hash, key.into()));
                }
                if lowest.len() > most {
                    without = lowest.pop().map(|(hash, _)| hash);
                }
                cursor.next();
            }
        }
        let mut keys = lowest.into_vec();
        keys.retain(|(hash, _)| without.is_none_or(|without| *hash < without));
        keys.sort_unstable();
        keys.dedup();
        let last = match without {
            None => u64::MAX,
            Some(without) if without <= first => return None,
            Some(without) => without - 1,
        };
        Some(MemtableKeyBatch { keys, last })
    }

    /// Reads the next window and resolves the values of its keys.
    fn fill(&mut self, first: u64) -> Result<()> {
        let hashed = self.hashed.clone();
        let store = &hashed.shared.home.store;
        let known = self.above.take().filter(|above| first <= above.last);
        let above_runs = known.unwrap_or_else(|| self.collect(first));
        // Load the list of memtables before the version: if a memtable leaves the list in between,
        // its records are in the version.
        let list = self.memtables.newest_first();
        let guard = store.epochs().pin();
        let version = hashed.shared.versions.peek();
        let nodes = CachedNodeReader {
            cache: store.cache(),
            guard: &guard,
            purpose: Purpose::Scan,
            residence: CacheRetention::Keep,
        };
        let options = &hashed.shared.options;
        let runs: Vec<&HashRun> = version.runs_of(first, options).collect();
        let part_end = options.hashes_of(options.part_of(first)).1;
        let mut last = part_end.min(above_runs.last);
        if let Some(run) = densest(&runs, (first, part_end))? {
            last = last.min(window_end(run, first, self.ahead, &nodes)?);
        }
        let most = (MOST_TOGETHER / (runs.len() as u64).max(1)).clamp(1, MOST_AHEAD);
        self.ahead = (2 * self.ahead).min(most);
        let mut records: Vec<(usize, OwnedHashRecord)> = Vec::new();
        for (source, run) in runs.iter().enumerate() {
            last = self.read_of(run, source, (first, last), &nodes, &mut records)?;
        }
        records.retain(|(_, record)| record.hash <= last);
        let keys = above_runs.with(&records, (first, last));
        // Order the records of each key from newest to oldest. The sources are numbered from newest
        // to oldest, and each is already in this order.
        records.sort_by(|(one, a), (other, b)| (a.hash, &a.key, one).cmp(&(b.hash, &b.key, other)));
        let memtables: Vec<&Arc<Memtable>> = above(Some(&list), version.stamp.cut, self.at).collect();
        let mut decided = VecDeque::new();
        let (mut bytes, mut rest) = (0, &mut records[..]);
        let mut full = None;
        for (hash, key) in keys {
            let count = rest.iter().take_while(|(_, record)| record.key == key).count();
            let (own, behind) = rest.split_at_mut(count);
            rest = behind;
            if self
                .from
                .as_ref()
                .is_some_and(|from| hash == first && key <= *from)
            {
                continue;
            }
            let Some(value) = self.decide(LookupKey::new(&key), &memtables, &runs, own, &nodes)? else {
                continue;
            };
            bytes += key.len() + value.len();
            if bytes >= MOST_DECIDED {
                full = Some((hash, key.clone()));
            }
            decided.push_back((key, value));
            if full.is_some() {
                break;
            }
        }
        self.decided = decided;
        self.above = Some(above_runs);
        match full {
            // The window has reached the size limit, so its values are long. Continue after this
            // key with a window of one leaf.
            Some((hash, key)) => (self.next, self.from, self.ahead) = (Some(hash), Some(key), 1),
            None => (self.next, self.from) = (last.checked_add(1), None),
        }
        Ok(())
    }

    /// Adds a run's records in a window. Returns the last hash of the window, which is lower than
    /// before if the records exceed the size limit.
    fn read_of(
        &self,
        run: &HashRun,
        source: usize,
        (first, mut last): (u64, u64),
        nodes: &CachedNodeReader<'_>,
        records: &mut Vec<(usize, OwnedHashRecord)>,
    ) -> Result<u64> {
        let mut bytes = 0;
        read_window(run, (first, last), nodes, &mut |record| {
            if record.hash > last {
                return ControlFlow::Break(());
            }
            bytes += record.key.len() + record.operand.len();
            if bytes >= MOST_READ {
                // End the window after this hash, because all records with the same hash must be in
                // one window.
                last = record.hash;
            }
            if self.range.contains(&record.key) {
                records.push((source, record));
            }
            ControlFlow::Continue(())
        })?;
        Ok(last)
    }

    /// Returns the value of a key, or `None` if the key has no visible value.
    fn decide(
        &self,
        key: LookupKey<'_>,
        memtables: &[&Arc<Memtable>],
        runs: &[&HashRun],
        records: &mut [(usize, OwnedHashRecord)],
        nodes: &CachedNodeReader<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let rules = self.hashed.shared.home.schema.rules(key.bytes());
        let operator = rules.operator.as_deref();
        let mut known = KeyState::default();
        known.reset(self.at, self.now_ms);
        for memtable in memtables {
            known.memtable(memtable, key, operator);
        }
        let mut records = records.iter_mut().peekable();
        for (source, run) in runs.iter().enumerate() {
            if known.is_decided() {
                break;
            }
            known.range_deleted(run.range_deletes().covering(key.bytes(), self.at));
            while let Some((_, record)) = records.next_if(|(of, _)| *of == source) {
                if known.is_decided() {
                    break;
                }
                let is_left_out = self.long_values == LongValues::LeftOut
                    && record.message().kind == MessageKind::Put
                    && !known.has_operands();
                if !is_left_out {
                    record.load(nodes)?;
                }
                let _ = known.message(&record.message(), operator);
            }
        }
        let settled = known.settle(operator);
        let value = settled.map_err(|bad| bad.under_operands_of(key.bytes()))?;
        Ok(value.map(|value| self.long_values.shown(value).to_vec()))
    }
}

#[cfg(test)]
impl UnorderedIter {
    /// Returns the total size of the values that have been resolved but not returned, in bytes.
    pub(super) fn decided_bytes(&self) -> usize {
        self.decided.iter().map(|(_, value)| value.len()).sum()
    }
}

impl contract::DictionaryScan for UnorderedIter {
    /// Positions the scan at the first key after `key` in hash order.
    fn seek(&mut self, key: &[u8]) {
        self.decided.clear();
        self.above = None;
        self.next = Some(self.hashed.hash_of(LookupKey::new(key)));
        self.from = Some(key.into());
    }

    fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
    }

    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            if let Some(found) = self.decided.pop_front() {
                self.current = found;
                return Ok(Some((&self.current.0, &self.current.1)));
            }
            let Some(first) = self.next else { return Ok(None) };
            self.fill(first)?;
        }
    }
}
