//! Lookups while the cache cannot admit nodes, because other readers hold all of it.

use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_trees::tiered::{PolledTreeLookup, TieredTree, TreeOptions};
use std::sync::Arc;

const KEYS: u32 = 2000;

fn key(number: u32) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// Returns the length of a value. Every seventh value is stored outside of its leaf, so looking it
/// up takes two nodes.
fn len(number: u32) -> usize {
    if number.is_multiple_of(7) { 2000 } else { 900 }
}

/// A tree with two runs, of which the newer has every other key. Each leaf holds a few keys.
fn tree() -> TieredTree {
    let options = StoreOptions {
        cache_bytes: 1 << 20,
        ..StoreOptions::default()
    };
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").unwrap();
    let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    for (step, sequence) in [(1, 1), (2, 2)] {
        let memtable = Memtable::new(16 << 20);
        for number in (0..KEYS).step_by(step) {
            let value = vec![sequence as u8; len(number)];
            memtable
                .insert(&key(number), Message::put(sequence, &value))
                .unwrap();
        }
        let mut step = tree
            .incorporate(Arc::new(memtable), sequence, AllocationClass::Normal)
            .unwrap();
        step.poll(usize::MAX).unwrap();
    }
    tree
}

#[test]
fn lookups_end_where_others_hold_all_of_the_cache() {
    let tree = tree();
    let mut iters = Vec::new();
    for number in (0..KEYS).step_by(4) {
        let range = KeyRange::new(&key(number), None);
        let mut iter = tree.iter(range, MergeDirection::Forward, MAX_SEQUENCE, 0);
        iter.next().unwrap();
        iters.push(iter);
    }
    let skipped = tree.store().cache().stats().private_reads;
    assert!(skipped > 0, "the cache is full");
    let keys: Vec<Vec<u8>> = (0..KEYS).step_by(7).map(key).collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let wanted = |number: usize| Some(vec![2 - (number % 2) as u8; 2000]);
    for (number, found) in tree
        .multi_get(&refs, MAX_SEQUENCE, 0)
        .unwrap()
        .into_iter()
        .enumerate()
    {
        assert_eq!(found, wanted(number));
    }
    for (number, key) in refs.iter().enumerate() {
        let mut lookup: PolledTreeLookup = tree.lookup(key, MAX_SEQUENCE, 0);
        assert_eq!(lookup.wait().unwrap(), wanted(number));
    }
}
