//! The measured tree, on an in-memory device. It does its background work after each memtable.

use crate::alone::Alone;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, Purpose, checksum};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{DeviceStats, Directory};
use alluvium_dictionary::memtable::Memtable;
use alluvium_model::{Popularity, SplitMix64};
use alluvium_storage::extents::{AllocationClass, ReclaimLimit};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_trees::tiered::{StepProgress, TieredTree, TreeOptions, TrunkShape};
use std::sync::Arc;

pub(super) type Key = [u8; 24];

pub(super) const VALUE: usize = 100;
pub(super) const RECORD: u64 = 124;

/// The sizes that define a tree, in bytes except for the fan-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) memtable: u64,
    pub(super) fanout: usize,
    pub(super) cache: u64,
}

fn mix(number: u64) -> u64 {
    checksum(&number.to_be_bytes())
}

/// Returns the key with this number. Keys are scattered over the key space.
pub(super) fn key(number: u64) -> Key {
    let mut key = [0; 24];
    for (part, chunk) in key.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(3 * number + part as u64).to_be_bytes());
    }
    key
}

/// A tree and the memtable above it.
pub(super) struct Real {
    directory: Arc<dyn Directory>,
    pub(super) tree: TieredTree,
    memtable: Memtable,
    sizes: Sizes,
    sequence: u64,
    filled: u64,
    /// Number of device reads for key lookups during compactions.
    pub(super) asked: u64,
}

impl Real {
    pub(super) fn new(sizes: Sizes) -> Real {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let options = StoreOptions {
            cache_bytes: sizes.cache,
            ..StoreOptions::default()
        };
        let store = Store::create(Arc::clone(&directory), &options, b"").unwrap();
        let options = TreeOptions {
            shape: TrunkShape {
                memtable: sizes.memtable,
                fanout: sizes.fanout,
            },
            ..TreeOptions::default()
        };
        Real {
            directory,
            tree: TieredTree::create(Arc::new(store), options),
            memtable: empty(sizes.memtable),
            sizes,
            sequence: 0,
            filled: 0,
            asked: 0,
        }
    }

    /// Writes this number of new keys, each once.
    pub(super) fn load(&mut self, keys: u64) {
        (0..keys).for_each(|number| self.put(number));
    }

    /// Updates keys, and deletes some of them instead.
    pub(super) fn update(&mut self, popularity: &Popularity, updates: u64, deletes_percent: u64) {
        let requests = popularity.requests().unwrap();
        let mut random = SplitMix64::from_seed(11);
        for _ in 0..updates {
            let number = requests.draw(&mut random) as u64;
            if (random.below(100) as u64) < deletes_percent {
                self.sequence += 1;
                let message = Message::delete(self.sequence);
                self.memtable.insert(&key(number), message).unwrap();
                self.count(RECORD - VALUE as u64);
            } else {
                self.put(number);
            }
        }
    }

    fn put(&mut self, number: u64) {
        self.sequence += 1;
        let mut value = [b'v'; VALUE];
        value[..8].copy_from_slice(&number.to_be_bytes());
        let message = Message::put(self.sequence, &value);
        self.memtable.insert(&key(number), message).unwrap();
        self.count(RECORD);
    }

    fn count(&mut self, bytes: u64) {
        self.filled += bytes;
        if self.filled >= self.sizes.memtable {
            self.seal();
        }
    }

    /// Flushes the memtable, runs all resulting work, and writes a checkpoint.
    pub(super) fn seal(&mut self) {
        let sealed = std::mem::replace(&mut self.memtable, empty(self.sizes.memtable));
        self.filled = 0;
        self.tree.horizon().raise(self.sequence);
        if !sealed.is_empty() {
            let sealed = Arc::new(sealed);
            let mut step = self
                .tree
                .incorporate(sealed, self.sequence, AllocationClass::Normal)
                .unwrap();
            while step.poll(1 << 20).unwrap() == StepProgress::More {}
        }
        let before = self.written().of(Purpose::Lookup).reads;
        while let Some(mut step) = self.tree.next_step().unwrap() {
            while step.poll(1 << 16).unwrap() == StepProgress::More {}
        }
        self.asked += self.written().of(Purpose::Lookup).reads - before;
        self.tree.checkpoint().unwrap();
        while self.tree.store().reclaim(ReclaimLimit::default()).unwrap().more {}
    }

    /// Returns the device statistics so far, by purpose.
    pub(super) fn written(&self) -> DeviceStats {
        self.directory.counters().snapshot()
    }

    /// Looks up keys. Returns the number of device reads per lookup.
    pub(super) fn reads(&self, keys: impl Iterator<Item = u64>) -> f64 {
        let before = self.written().of(Purpose::Lookup).reads;
        let mut count = 0;
        for number in keys {
            self.tree.get(&key(number), MAX_SEQUENCE, 0).unwrap();
            count += 1;
        }
        (self.written().of(Purpose::Lookup).reads - before) as f64 / f64::from(count)
    }
}

fn empty(bytes: u64) -> Memtable {
    Memtable::new(3 * bytes as usize + (1 << 20))
}
