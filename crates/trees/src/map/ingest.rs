//! Bulk ingest in memory: layers of messages are collected outside of a map, and attached to it in
//! one atomic step.

use super::contract::BYTES_PER_KEY;
use super::{MapRecord, OrderedMap};
use alluvium_base::{Message, SequenceNumber};
use alluvium_dictionary::contract;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

/// A layer of an ingest. It has either messages or deleted key ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryLayer {
    pub(crate) messages: BTreeMap<Arc<[u8]>, MapRecord>,
    pub(crate) deleted: Vec<KeyRange>,
    bytes: u64,
}

/// A dictionary that in-memory layers can be attached to.
pub(crate) trait MemoryLayerTarget: Debug + Send + Sync {
    /// Reserves the space that is needed to attach the layers.
    fn prepare(&self, layers: &[Arc<MemoryLayer>]) -> Result<()>;

    /// Adds the layers to the dictionary, from the oldest to the newest. Each counts as a commit,
    /// with consecutive sequence numbers from `first` on.
    fn attach(&self, layers: &[Arc<MemoryLayer>], first: SequenceNumber) -> Result<()>;
}

/// An ingest into a map or a similar dictionary. Its layers stay in memory until they are attached.
#[derive(Debug)]
pub struct MemoryIngest {
    into: Box<dyn MemoryLayerTarget>,
    layers: Vec<Arc<MemoryLayer>>,
    newest: MemoryLayer,
}

/// An iterator over the keys that have messages in the layers of an ingest.
#[derive(Debug)]
struct LayerKeyIter {
    keys: std::vec::IntoIter<Arc<[u8]>>,
    layers: Vec<Arc<MemoryLayer>>,
    key: Option<Arc<[u8]>>,
}

impl MemoryLayer {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.deleted.is_empty()
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.deleted.iter().any(|range| range.contains(key))
    }
}

/// Passes the layers' messages for a key to `gather`, from newest to oldest.
fn gather(layers: &[Arc<MemoryLayer>], key: &[u8], gather: &mut LookupState<'_>) {
    for (sequence, layer) in (1..=layers.len() as u64).rev().zip(layers.iter().rev()) {
        assert!(
            layer.messages.is_empty() || layer.deleted.is_empty(),
            "a layer has either messages or deleted ranges"
        );
        let message = match layer.messages.get(key) {
            Some(entry) => Message {
                sequence,
                ..entry.message()
            },
            None if layer.covers(key) => Message::delete(sequence),
            None => continue,
        };
        if gather.message(&message).is_break() {
            return;
        }
    }
}

impl MemoryIngest {
    pub(crate) fn new(into: Box<dyn MemoryLayerTarget>) -> MemoryIngest {
        MemoryIngest {
            into,
            layers: Vec::new(),
            newest: MemoryLayer::default(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &MemoryLayer> {
        let ended = self.layers.iter().map(|layer| &**layer);
        ended.chain([&self.newest])
    }
}

impl contract::BulkIngest for MemoryIngest {
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        assert!(
            self.newest.deleted.is_empty(),
            "a layer has either messages or deleted ranges"
        );
        let last = self.newest.messages.last_key_value();
        if let Some((last, _)) = last.filter(|(last, _)| ***last >= *key) {
            return Err(Error::BadOption {
                option: "order of an ingest's keys",
                why: format!(
                    "the key \"{}\" follows \"{}\": sort the keys, and remove duplicates",
                    key.escape_ascii(),
                    last.escape_ascii()
                ),
            });
        }
        let entry = MapRecord {
            sequence: 0,
            kind: message.kind,
            expires_ms: message.expires_ms,
            operand: message.operand.into(),
        };
        self.newest.bytes += (key.len() + message.operand.len()) as u64;
        let before = self.newest.messages.insert(key.into(), entry);
        assert!(before.is_none(), "a layer's keys ascend, as was just checked");
        Ok(())
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        assert!(
            self.newest.messages.is_empty(),
            "a layer has either messages or deleted ranges"
        );
        self.newest.deleted.push(KeyRange::new(start, Some(end)));
    }

    fn end_layer(&mut self) -> Result<()> {
        self.layers.push(Arc::new(std::mem::take(&mut self.newest)));
        Ok(())
    }

    fn layers(&self) -> u64 {
        self.layers.len() as u64
    }

    fn mark(&self) -> u64 {
        contract::BulkIngest::layers(self)
    }

    fn keep(&mut self, mark: u64) {
        self.newest = MemoryLayer::default();
        self.layers.truncate(usize::try_from(mark).unwrap_or(usize::MAX));
    }

    fn gather(&self, key: LookupKey<'_>, known: &mut LookupState<'_>) -> Result<()> {
        gather(&self.layers, key.bytes(), known);
        Ok(())
    }

    fn walk(&self, range: &KeyRange, direction: MergeDirection) -> Box<dyn contract::IngestKeyScan> {
        let keys = self.layers.iter().flat_map(|layer| layer.messages.keys());
        let keys: BTreeSet<Arc<[u8]>> = keys.filter(|key| range.contains(key)).cloned().collect();
        let mut keys: Vec<Arc<[u8]>> = keys.into_iter().collect();
        if direction == MergeDirection::Backward {
            keys.reverse();
        }
        Box::new(LayerKeyIter {
            keys: keys.into_iter(),
            layers: self.layers.clone(),
            key: None,
        })
    }

    fn records(&self) -> u64 {
        self.all().map(|layer| layer.messages.len() as u64).sum()
    }

    fn bytes(&self) -> u64 {
        self.all().map(|layer| layer.bytes).sum()
    }

    fn memory_bytes(&self) -> u64 {
        contract::BulkIngest::bytes(self) + BYTES_PER_KEY * contract::BulkIngest::records(self)
    }

    fn prepare(&mut self, _first: SequenceNumber) -> Result<()> {
        self.into.prepare(&self.layers)
    }

    fn attach(mut self: Box<Self>, first: SequenceNumber) -> Result<()> {
        if !self.newest.is_empty() {
            contract::BulkIngest::end_layer(&mut *self)?;
        }
        self.into.attach(&self.layers, first)
    }
}

impl MemoryLayerTarget for OrderedMap {
    fn prepare(&self, _layers: &[Arc<MemoryLayer>]) -> Result<()> {
        Ok(())
    }

    fn attach(&self, layers: &[Arc<MemoryLayer>], first: SequenceNumber) -> Result<()> {
        let map = self;
        assert_eq!(
            map.version().stamp.cut + 1,
            first,
            "an ingest is attached when all that was written before is in the map"
        );
        let last = first + (layers.len() as u64).max(1) - 1;
        map.change(Some(last), |keys| {
            for (layer, sequence) in layers.iter().zip(first..) {
                let covered = keys.keys().filter(|key| layer.covers(key));
                let covered: Vec<Arc<[u8]>> = covered.cloned().collect();
                for key in covered {
                    map.shared.fold(keys, &key, &[Message::delete(sequence)], false);
                }
                for (key, entry) in &layer.messages {
                    let message = Message {
                        sequence,
                        ..entry.message()
                    };
                    map.shared.fold(keys, key, &[message], false);
                }
            }
        });
        Ok(())
    }
}

impl contract::IngestKeyScan for LayerKeyIter {
    fn next(&mut self, known: &mut LookupState<'_>) -> Result<Option<&[u8]>> {
        self.key = self.keys.next();
        if let Some(key) = &self.key {
            gather(&self.layers, key, known);
        }
        Ok(self.key.as_deref())
    }

    fn gather(&self, key: LookupKey<'_>, known: &mut LookupState<'_>) -> Result<()> {
        gather(&self.layers, key.bytes(), known);
        Ok(())
    }

    fn is_deleted(&self, key: &[u8]) -> bool {
        self.layers.iter().any(|layer| layer.covers(key))
    }
}
