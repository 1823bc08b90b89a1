//! The measured tree and its data.

use crate::alone::Alone;
use alluvium_base::{Message, Purpose, checksum};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_storage::extents::{AllocationClass, ReclaimLimit};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_trees::tiered::{
    MaintenanceLimits, StepProgress, TieredTree, TreeOptions, TrunkShape, VictimPolicy,
};
use std::sync::Arc;

pub(crate) type Key = [u8; 24];

pub(crate) const VALUE: usize = 100;
pub(crate) const RECORD: u64 = 124;

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) records: u64,
    pub(crate) memtable: u64,
    pub(crate) cache: u64,
    pub(crate) lookups: u64,
}

pub(crate) fn key(number: u64) -> Key {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..16].copy_from_slice(&mix(number).to_be_bytes());
    key[16..].copy_from_slice(&mix(number + 1).to_be_bytes());
    key
}

pub(crate) fn mix(number: u64) -> u64 {
    checksum(&number.to_be_bytes())
}

/// Returns a value of which half is compressible.
pub(crate) fn value(index: u64) -> [u8; VALUE] {
    let mut value = [b'v'; VALUE];
    for (chunk, part) in value[..VALUE / 2].chunks_mut(8).zip(0..) {
        chunk.copy_from_slice(&mix(index * 8 + part).to_be_bytes()[..chunk.len()]);
    }
    value
}

/// A tree on a device in memory whose counters are active.
pub(crate) struct World {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) tree: TieredTree,
    pub(crate) memtable: Memtable,
    pub(crate) sequence: u64,
    pub(crate) memtable_bytes: u64,
    /// Bytes of keys and values in the memtable.
    pub(crate) filled: u64,
}

impl World {
    pub(crate) fn new(sizes: Sizes, victim: VictimPolicy) -> World {
        World::on(Arc::new(MemoryDirectory::new()), sizes, victim)
    }

    pub(crate) fn on(directory: Arc<dyn Directory>, sizes: Sizes, victim: VictimPolicy) -> World {
        let options = StoreOptions {
            cache_bytes: sizes.cache,
            ..StoreOptions::default()
        };
        let store = Store::create(Arc::clone(&directory), &options, b"").expect("a store");
        let options = TreeOptions {
            shape: TrunkShape {
                memtable: sizes.memtable,
                ..TrunkShape::default()
            },
            victim,
            ..TreeOptions::default()
        };
        let tree = TieredTree::create(Arc::new(store), options);
        World {
            memtable: World::empty(sizes.memtable),
            directory,
            tree,
            sequence: 0,
            memtable_bytes: sizes.memtable,
            filled: 0,
        }
    }

    /// Returns a memtable for this many bytes of records, plus its overhead.
    pub(crate) fn empty(bytes: u64) -> Memtable {
        Memtable::new(3 * bytes as usize + (1 << 20))
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.sequence += 1;
        self.memtable
            .insert(key, Message::put(self.sequence, value))
            .expect("there is room");
        self.count(key.len() + value.len());
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.sequence += 1;
        self.memtable
            .insert(key, Message::delete(self.sequence))
            .expect("there is room");
        self.count(key.len());
    }

    pub(crate) fn count(&mut self, bytes: usize) {
        self.filled += bytes as u64;
        if self.filled >= self.memtable_bytes {
            self.seal();
        }
    }

    /// Flushes the memtable, runs all resulting work, and makes a checkpoint.
    pub(crate) fn seal(&mut self) {
        let sealed = std::mem::replace(&mut self.memtable, World::empty(self.memtable_bytes));
        self.filled = 0;
        if !sealed.is_empty() {
            let horizon = self.sequence;
            self.tree.horizon().raise(horizon);
            let mut step = self
                .tree
                .incorporate(Arc::new(sealed), self.sequence, AllocationClass::Normal)
                .expect("a step");
            while step.poll(1 << 20).expect("memory does not fail") == StepProgress::More {}
        }
        self.work();
        self.tree.checkpoint().expect("memory does not fail");
        while self
            .tree
            .store()
            .reclaim(ReclaimLimit::default())
            .expect("memory does not fail")
            .more
        {}
    }

    pub(crate) fn work(&self) {
        while let Some(mut step) = self.tree.next_step().expect("memory does not fail") {
            while step.poll(1 << 16).expect("memory does not fail") == StepProgress::More {}
        }
    }

    pub(crate) fn maintain(&self, mut budget: u64) -> u64 {
        let before = budget;
        let mut maintenance = MaintenanceLimits {
            budget_bytes: budget,
            fits_cache: false,
            is_idle: false,
        };
        while self
            .tree
            .maintain(&mut maintenance)
            .expect("memory does not fail")
        {
            self.work();
        }
        budget = maintenance.budget_bytes;
        before - budget
    }

    pub(crate) fn written(&self, purpose: Purpose) -> u64 {
        self.directory.counters().snapshot().of(purpose).written_bytes
    }

    pub(crate) fn reads(&self, purpose: Purpose) -> u64 {
        self.directory.counters().snapshot().of(purpose).reads
    }
}
