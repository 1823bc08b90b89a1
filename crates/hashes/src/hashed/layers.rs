//! Writes the runs of an ingest, one or more per layer, before they become part of a structure.
//!
//! Messages arrive in key order and are buffered. A full buffer is sorted by hash and written as a
//! run. The runs of a layer have no keys in common.

use super::layer_merge::HashLayerMerge;
use super::rules::RulesCache;
use super::run::{
    HashRun, HashRunBuilder, RunLookupKey, RunMessage as Kept, RunOptions, WrittenHashRun, find, read_keys,
};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind, Purpose};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{BlockingFetch, unwrap_ready};
use alluvium_dictionary::key::{LookupKey, SEED};
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::placement::{self, PlacementRequest};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_dictionary::value_log::fetch_value;
use alluvium_dictionary::versioned::{IngestLayers, LayerGroup, LayerWriter};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::sync::Arc;
use std::task::{Poll, ready};

/// A run is written once this many bytes of messages are buffered.
const MOST_WAITING: usize = 16 << 20;

#[derive(Debug)]
struct BufferedMessage {
    hash: u64,
    key: Box<[u8]>,
    kind: MessageKind,
    expires_ms: u64,
    operand: Box<[u8]>,
}

pub(super) type HashIngestLayers = IngestLayers<HashLayerWriter>;

/// Writes the runs of an ingest's layers.
#[derive(Debug)]
pub struct HashLayerWriter {
    store: Arc<Store>,
    options: RunOptions,
    schema: Arc<dyn KeyspaceSchema>,
    rules: RulesCache,
    waiting: Vec<BufferedMessage>,
    waiting_bytes: usize,
}

impl HashLayerWriter {
    pub(super) fn new(
        store: &Arc<Store>,
        options: RunOptions,
        schema: &Arc<dyn KeyspaceSchema>,
    ) -> HashLayerWriter {
        HashLayerWriter {
            store: Arc::clone(store),
            options,
            schema: Arc::clone(schema),
            rules: RulesCache::new(schema),
            waiting: Vec::new(),
            waiting_bytes: 0,
        }
    }

    /// Returns the number of bytes of buffered messages.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes as u64
    }

    /// Returns the options for a run of about `bytes` bytes. The current free space determines its
    /// tier.
    fn placed(&self, bytes: usize) -> RunOptions {
        RunOptions {
            // An ingest may be of any size, so it leaves space on each tier for the log and for
            // the next memtables, as merges do.
            tier: placement::tier(&self.store, &PlacementRequest::older(0, bytes as u64)),
            ..self.options
        }
    }
}

impl LayerWriter for HashLayerWriter {
    type Run = WrittenHashRun;
    type Merge = HashLayerMerge;

    fn push(&mut self, key: &[u8], message: Message<'_>, written: &mut Vec<WrittenHashRun>) -> Result<()> {
        self.waiting.push(BufferedMessage {
            hash: alluvium_filters::hash(self.options.seed, key),
            key: key.into(),
            kind: message.kind,
            expires_ms: message.expires_ms,
            operand: message.operand.into(),
        });
        self.waiting_bytes += key.len() + message.operand.len() + size_of::<BufferedMessage>();
        match self.waiting_bytes < MOST_WAITING {
            true => Ok(()),
            false => self.end_run(written),
        }
    }

    /// Writes the buffered messages, if there are any, as a run and appends it to `written`.
    fn end_run(&mut self, written: &mut Vec<WrittenHashRun>) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let bytes = std::mem::take(&mut self.waiting_bytes);
        let options = self.placed(bytes);
        waiting.sort_unstable_by(|one, other| (one.hash, &one.key).cmp(&(other.hash, &other.key)));
        self.rules.clear();
        let mut builder = HashRunBuilder::new(&self.store, &options, waiting.len() as u64)?;
        for one in &waiting {
            let message = Kept {
                sequence: 0,
                kind: one.kind,
                expires_ms: one.expires_ms,
                operand: &one.operand,
            };
            builder.push(one.hash, &one.key, message, &self.rules.of(&one.key))?;
        }
        written.extend(builder.finish()?);
        Ok(())
    }

    fn give_up_run(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    fn write_deleted_ranges(&mut self, deletes: RangeTombstoneIndex) -> Result<Option<WrittenHashRun>> {
        let mut builder = HashRunBuilder::new(&self.store, &self.placed(0), 0)?;
        builder.delete_ranges(Arc::new(deletes));
        builder.finish()
    }

    fn begin_merge(&self, group: LayerGroup<WrittenHashRun>) -> Result<HashLayerMerge> {
        Ok(HashLayerMerge::new(
            &self.store,
            &self.schema,
            self.options,
            group,
        ))
    }

    fn memory_bytes(run: &WrittenHashRun) -> u64 {
        run.run().memory_bytes()
    }
}

/// Returns a read view of the finished layers. Each run's sequence number base is the number of its
/// layer.
pub(super) fn seen(layers: &HashIngestLayers) -> LayerView {
    let held = layers.layers().flat_map(|(_, written)| written.iter().cloned());
    LayerView {
        store: Arc::clone(&layers.writer().store),
        runs: newest_first(layers).collect(),
        _held: held.collect(),
        deletes: Arc::clone(layers.deletes()),
    }
}

fn newest_first(layers: &HashIngestLayers) -> impl Iterator<Item = HashRun> {
    layers.layers().rev().flat_map(|(number, written)| {
        let runs = written.iter().rev();
        runs.map(move |written| written.run().clone().based(number))
    })
}

/// Passes the messages about a key in the layers that have ended to `gather`, newest first.
pub(super) fn gather(
    layers: &HashIngestLayers,
    key: LookupKey<'_>,
    gather: &mut LookupState<'_>,
) -> Result<()> {
    gather_in(
        &layers.writer().store,
        newest_first(layers),
        layers.deletes(),
        key,
        gather,
    )
}

/// Passes the messages about a key in `runs` to `gather`. The runs must be ordered newest first,
/// and `deletes` has the range deletes of their layers.
fn gather_in(
    store: &Store,
    runs: impl Iterator<Item = HashRun>,
    deletes: &RangeTombstoneIndex,
    key: LookupKey<'_>,
    gather: &mut LookupState<'_>,
) -> Result<()> {
    let guard = store.epochs().pin();
    let fetch = BlockingFetch {
        cache: store.cache(),
        guard: &guard,
        purpose: Purpose::Lookup,
    };
    let mut runs = runs.peekable();
    let wanted = RunLookupKey {
        bytes: key.bytes(),
        hash: match runs.peek().map(HashRun::seed) {
            None | Some(SEED) => key.hash(),
            Some(seed) => alluvium_filters::hash(seed, key.bytes()),
        },
    };
    let deleted = deletes.covering(key.bytes(), gather.known.at());
    gather.range_deleted(deleted);
    for run in runs {
        if gather.is_decided() || deleted > Some(run.base()) {
            break;
        }
        if !run.may_hold(wanted.hash)? {
            continue;
        }
        let LookupState { operator, known } = gather;
        unwrap_ready(find(&run, wanted, &fetch, &mut |record| {
            let flow = ready!(known.record(&record, *operator, |pointer, room| {
                fetch_value(&fetch, pointer, room)
            }))?;
            Poll::Ready(Ok(flow))
        }))?;
    }
    gather.end_at(deleted);
    Ok(())
}

/// A read view of the layers of an ingest. The runs are ordered newest first.
#[derive(Debug)]
pub(super) struct LayerView {
    store: Arc<Store>,
    runs: Vec<HashRun>,
    /// The runs of the layers, whose space must not be freed while they are read.
    _held: Vec<Arc<WrittenHashRun>>,
    deletes: Arc<RangeTombstoneIndex>,
}

impl LayerView {
    /// Passes the messages about a key to `gather`, newest first.
    fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()> {
        gather_in(&self.store, self.runs.iter().cloned(), &self.deletes, key, gather)
    }

    /// Returns all keys in `range` that have messages in the layers, in ascending order.
    fn keys(&self, range: &KeyRange) -> Result<Vec<Box<[u8]>>> {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        for run in &self.runs {
            for leaf in 0..run.leaves() {
                read_keys(&self.store, run, leaf, &mut |key| {
                    if range.contains(key) {
                        keys.push(key.into());
                    }
                })?;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

/// Iterator over the keys of an ingest's layers, in key order. The first call reads and sorts all
/// keys in the range.
#[derive(Debug)]
pub(super) struct LayerKeyScan {
    pub(super) seen: LayerView,
    pub(super) range: KeyRange,
    pub(super) direction: MergeDirection,
    pub(super) keys: Option<std::vec::IntoIter<Box<[u8]>>>,
    /// The key that was returned most recently, or whose messages could not be read.
    pub(super) key: Box<[u8]>,
    pub(super) is_again: bool,
}

impl contract::IngestKeyScan for LayerKeyScan {
    fn next(&mut self, gather: &mut LookupState<'_>) -> Result<Option<&[u8]>> {
        let keys = match &mut self.keys {
            Some(keys) => keys,
            none => none.insert(self.seen.keys(&self.range)?.into_iter()),
        };
        if !self.is_again {
            let next = match self.direction {
                MergeDirection::Forward => keys.next(),
                MergeDirection::Backward => keys.next_back(),
            };
            let Some(key) = next else { return Ok(None) };
            self.key = key;
        }
        self.is_again = true;
        self.seen.gather(LookupKey::new(&self.key), gather)?;
        self.is_again = false;
        Ok(Some(&self.key))
    }

    fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()> {
        self.seen.gather(key, gather)
    }

    fn is_deleted(&self, key: &[u8]) -> bool {
        self.seen.deletes.covering(key, MAX_SEQUENCE).is_some()
    }
}
