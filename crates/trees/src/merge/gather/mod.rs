//! Gathering: a merge writes separate values again, in the order of their keys, where they have
//! become scattered.
//!
//! *Scope*: the output of a merge before it reaches the run; which values are written again.
//!
//! *Must not depend on*: levels, trunks; which runs are merged, and when.
//!
//! Merges copy pointers, so a separate value stays where it was first written. After many merges
//! the values of neighbouring keys lie in as many places as there were flushes, and a scan seeks
//! from one to the other. So the output of a merge is judged in windows, each with the values of
//! neighbouring keys. A reader reads a window's values in the order of their places: what it pays
//! for is the number of places. If that is too much, the whole window is written again.
//!
//! A value is written again at most once by a merge. It stays in later merges, as long as few other
//! values come between it and its neighbours. Gathering is optional: if a value cannot be read, its
//! pointer is kept, and the error is left to those who need the value.
//!
//! Invariants:
//!
//! - **GV1** Records reach the run in the order in which they were added, and before any leaf that
//!   is adopted after them.
//! - **GV2** A record differs from what was added only in where its value is stored.

mod policy;

use crate::run::{BuiltRun, IndexedRun, LeafDescriptor, RunBuilder};
use alluvium_base::{MessageKind, Purpose, SequenceNumber};
use alluvium_dictionary::record::{RecordValue, StoredRecord};
use alluvium_dictionary::rules::KeyspaceRules;
use alluvium_dictionary::value_log::{ValuePointer, value_in};
use alluvium_storage::store::Store;
use alluvium_storage::{CacheRetention, NodePointer, Result};
use policy::{ValueScatter, window_bytes};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of records in a window. Not a tuning parameter: it bounds the memory of records
/// without separate values.
const MOST_RECORDS: usize = 1 << 12;

/// Returns the maximum memory in bytes that a merge needs for gathering: the records of a window,
/// and the nodes of its values. `half_bandwidth` is the number of bytes that the device transfers
/// in the latency of one I/O.
pub(crate) fn memory_bytes(half_bandwidth: u64) -> u64 {
    2 * window_bytes(half_bandwidth)
}

/// Where a merge gathers values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueGathering {
    Nowhere,
    /// In the keyspaces whose rules ask for it.
    WhereAsked,
}

/// The output of a merge: a run, and the records that have not reached it yet.
pub(crate) struct MergeOutput {
    builder: RunBuilder,
    store: Arc<Store>,
    purpose: Purpose,
    gathering: ValueGathering,
    /// Whether values of the current keyspace are gathered.
    is_gathering: bool,
    window: GatherWindow,
    gathered_bytes: u64,
}

/// Records whose values are judged together.
#[derive(Debug, Default)]
struct GatherWindow {
    records: Vec<WaitingRecord>,
    /// The keys and inline values of the records.
    bytes: Vec<u8>,
    /// Total length in bytes of the separate values that may be written again.
    separate_bytes: u64,
}

#[derive(Clone, Debug)]
struct WaitingRecord {
    key: Range<usize>,
    sequence: SequenceNumber,
    kind: MessageKind,
    expires_ms: u64,
    value: WaitingValue,
}

#[derive(Clone, Debug)]
enum WaitingValue {
    Inline(Range<usize>),
    Separate(ValuePointer),
}

impl fmt::Debug for MergeOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeOutput")
            .field("gathering", &self.gathering)
            .field("gathered_bytes", &self.gathered_bytes)
            .finish_non_exhaustive()
    }
}

impl GatherWindow {
    fn add_bytes(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    fn add(&mut self, key: &[u8], record: &StoredRecord<'_>) {
        let key = self.add_bytes(key);
        let value = match record.value {
            RecordValue::Inline(value) => WaitingValue::Inline(self.add_bytes(value)),
            RecordValue::Separate(pointer) => WaitingValue::Separate(pointer),
        };
        self.records.push(WaitingRecord {
            key,
            sequence: record.sequence,
            kind: record.kind,
            expires_ms: record.expires_ms,
            value,
        });
    }

    fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
        self.separate_bytes = 0;
    }

    /// Passes each record to `emit`. `moved` returns the value at a pointer if it is written again.
    fn drain<'v>(
        &self,
        moved: impl Fn(&ValuePointer) -> Option<&'v [u8]>,
        mut emit: impl FnMut(&[u8], StoredRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        self.records.iter().try_for_each(|record| {
            let value = match &record.value {
                WaitingValue::Inline(range) => RecordValue::Inline(&self.bytes[range.clone()]),
                WaitingValue::Separate(pointer) => match moved(pointer) {
                    Some(value) => RecordValue::Inline(value),
                    None => RecordValue::Separate(*pointer),
                },
            };
            let stored = StoredRecord {
                sequence: record.sequence,
                kind: record.kind,
                expires_ms: record.expires_ms,
                value,
            };
            emit(&self.bytes[record.key.clone()], stored)
        })
    }
}

impl MergeOutput {
    pub(crate) fn new(
        store: &Arc<Store>,
        builder: RunBuilder,
        purpose: Purpose,
        gathering: ValueGathering,
    ) -> MergeOutput {
        MergeOutput {
            builder,
            store: Arc::clone(store),
            purpose,
            gathering,
            is_gathering: false,
            window: GatherWindow::default(),
            gathered_bytes: 0,
        }
    }

    /// Returns the number of keys that were added, without those of adopted leaves.
    pub(crate) fn copied_keys(&self) -> usize {
        self.builder.copied_keys()
    }

    /// Returns the last key that was added, if it is known.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        match self.window.records.last() {
            Some(record) => Some(&self.window.bytes[record.key.clone()]),
            None => self.builder.last_key(),
        }
    }

    /// See [`RunBuilder::begin_keyspace`].
    pub(crate) fn begin_keyspace(&mut self, rules: &KeyspaceRules) -> Result<()> {
        self.settle()?;
        self.is_gathering = self.gathering == ValueGathering::WhereAsked && rules.gathers_values;
        self.builder.begin_keyspace(rules.codec, rules.value_threshold)
    }

    /// See [`RunBuilder::push`].
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], record: StoredRecord<'_>) -> Result<()> {
        if !self.is_gathering {
            return self.builder.push(key, record);
        }
        self.push_waiting(key, &record)
    }

    fn push_waiting(&mut self, key: &[u8], record: &StoredRecord<'_>) -> Result<()> {
        self.window.add(key, record);
        if let RecordValue::Separate(pointer) = &record.value
            && self.may_move(pointer)
        {
            self.window.separate_bytes += u64::from(pointer.len);
        }
        let window = &self.window;
        let room = window_bytes(self.store.device().half_bandwidth());
        let is_full = window.separate_bytes + window.bytes.len() as u64 >= room;
        if is_full || window.records.len() >= MOST_RECORDS {
            self.settle()?;
        }
        Ok(())
    }

    /// A long value has nodes of its own, which lie together.
    fn may_move(&self, pointer: &ValuePointer) -> bool {
        !pointer.is_long(self.store.page_size())
    }

    /// See [`RunBuilder::adopt`].
    pub(crate) fn adopt(&mut self, leaf: &LeafDescriptor, of: &IndexedRun) -> Result<()> {
        self.settle()?;
        debug_assert!(
            self.window.records.is_empty(),
            "what comes before a leaf is in the run (GV1)"
        );
        self.builder.adopt(leaf, of)
    }

    /// See [`RunBuilder::hash_adopted`].
    pub(crate) fn hash_adopted(&mut self, key: &[u8]) {
        self.builder.hash_adopted(key);
    }

    /// Adds the records of the window to the run.
    fn settle(&mut self) -> Result<()> {
        if self.window.records.is_empty() {
            return Ok(());
        }
        let mut window = std::mem::take(&mut self.window);
        if !self.gather(&window)? {
            let builder = &mut self.builder;
            window.drain(|_| None, |key, record| builder.push(key, record))?;
        }
        window.clear();
        self.window = window;
        Ok(())
    }

    /// Writes the values of a window again if that pays, and returns whether it did.
    fn gather(&mut self, window: &GatherWindow) -> Result<bool> {
        let separate = window.records.iter().filter_map(|record| match &record.value {
            WaitingValue::Separate(pointer) if self.may_move(pointer) => Some(pointer.node),
            _ => None,
        });
        let mut nodes: Vec<NodePointer> = separate.collect();
        let scatter = ValueScatter::of(&mut nodes, window.separate_bytes);
        if !scatter.pays(self.store.device().half_bandwidth()) {
            return Ok(false);
        }
        let store = Arc::clone(&self.store);
        let guard = store.epochs().pin();
        let retention = CacheRetention::PassThrough;
        let Ok(contents) = store.cache().get_many(&nodes, &guard, self.purpose, retention) else {
            return Ok(false);
        };
        assert_eq!(contents.len(), nodes.len(), "a node for each pointer");
        let find = |pointer: &ValuePointer| {
            let key = (pointer.node.tier, pointer.node.offset);
            let place = nodes.binary_search_by_key(&key, |node| (node.tier, node.offset));
            let place = place.ok().filter(|&place| nodes[place] == pointer.node)?;
            value_in(&contents[place], pointer).ok()
        };
        let builder = &mut self.builder;
        window.drain(find, |key, record| builder.push(key, record))?;
        self.gathered_bytes += scatter.bytes;
        Ok(true)
    }

    /// Completes the run. Returns it, and the number of bytes of values that were written again.
    pub(crate) fn finish(mut self) -> Result<(Option<BuiltRun>, u64)> {
        self.settle()?;
        Ok((self.builder.finish()?, self.gathered_bytes))
    }
}
