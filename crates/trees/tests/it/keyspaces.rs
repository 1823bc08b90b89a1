//! Behaviour that differs between keyspaces: compaction filters.

use crate::alone::Alone;
use crate::schema::appending;
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::{CompactionFilter, FilterCandidate, FilterVerdict};
use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema};
use alluvium_storage::NodeCodec;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::Store;
use alluvium_trees::tiered::{CheckLevel, StepProgress, TieredTree, TreeOptions, TrunkShape};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Removes values that begin with `r`, shortens those that begin with `s`, and counts its calls.
#[derive(Debug, Default)]
struct Sieve(AtomicU64);

impl CompactionFilter for Sieve {
    fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(candidate.key.len(), 4, "the keyspace is not part of it");
        match candidate.value.first() {
            Some(b'r') => FilterVerdict::Remove,
            Some(b's') => FilterVerdict::Replace(b"short".to_vec()),
            _ => FilterVerdict::Keep,
        }
    }
}

/// Only keyspace `f` has a filter.
#[derive(Debug)]
struct Filtered(Arc<Sieve>);

impl KeyspaceSchema for Filtered {
    fn prefix_len(&self, _key: &[u8]) -> usize {
        1
    }

    fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules> {
        let filter: Arc<dyn CompactionFilter> = self.0.clone();
        Arc::new(KeyspaceRules {
            filter: (key[0] == b'f').then_some(filter),
            ..appending(NodeCodec::None)
        })
    }
}

/// Returns a key's value, whose first byte decides whether it is kept, removed, shortened or
/// merged. Some values of each kind are long.
fn value(number: u32) -> Vec<u8> {
    let len = if number.is_multiple_of(25) { 3000 } else { 30 };
    vec![[b'k', b'r', b's', b'm'][number as usize % 4]; len]
}

fn key(keyspace: u8, number: u32) -> Vec<u8> {
    [&[keyspace], format!("{number:04}").as_bytes()].concat()
}

fn tree_with(sieve: &Arc<Sieve>) -> TieredTree {
    let store = Store::create(
        Arc::new(MemoryDirectory::new()),
        &crate::world::store_options(),
        b"",
    );
    let options = TreeOptions {
        shape: TrunkShape {
            fanout: 4,
            memtable: 16 << 10,
        },
        schema: Arc::new(Filtered(Arc::clone(sieve))),
        ..TreeOptions::default()
    };
    TieredTree::create(Arc::new(store.unwrap()), options)
}

fn write(tree: &TieredTree, sequence: u64, messages: &mut dyn FnMut(&Memtable)) {
    let memtable = Arc::new(Memtable::new(4 << 20));
    messages(&memtable);
    let mut step = tree
        .incorporate(memtable, sequence, AllocationClass::Normal)
        .unwrap();
    step.poll(usize::MAX).unwrap();
}

fn settle(tree: &TieredTree) {
    while let Some(mut step) = tree.next_step().unwrap() {
        while step.poll(usize::MAX).unwrap() == StepProgress::More {}
    }
}

fn compact(tree: &TieredTree) {
    for number in 0..400 {
        tree.compact_fully(&key(b'f', number)).unwrap();
        settle(tree);
    }
}

#[test]
fn a_filter_has_its_way_in_its_keyspace_once_nobody_holds_it_back() {
    let sieve = Arc::new(Sieve::default());
    let tree = tree_with(&sieve);
    let mut sequence = 0;
    for part in 0..8 {
        for keyspace in [b'e', b'f', b'g'] {
            let cut = sequence + 50;
            write(&tree, cut, &mut |memtable| {
                for number in part * 50..part * 50 + 50 {
                    sequence += 1;
                    let value = value(number);
                    let message = match number % 8 {
                        3 => Message::merge(sequence, &value),
                        _ => Message::put(sequence, &value),
                    };
                    memtable.insert(&key(keyspace, number), message).unwrap();
                }
            });
        }
        settle(&tree);
    }
    let all_is_there = || {
        for number in 0..400 {
            let found = tree.get(&key(b'f', number), MAX_SEQUENCE, 0).unwrap();
            assert_eq!(found, Some(value(number)), "{number}");
        }
    };
    // Compactions may not filter these records yet, because they are above the horizon.
    assert_eq!(sieve.0.load(Ordering::Relaxed), 0);
    all_is_there();
    tree.horizon().raise(sequence);
    tree.horizon().hold_filters();
    compact(&tree);
    assert_eq!(sieve.0.load(Ordering::Relaxed), 0);
    all_is_there();
    tree.horizon().release_filters();
    compact(&tree);
    assert!(sieve.0.load(Ordering::Relaxed) >= 400);
    for number in 0..400 {
        for keyspace in [b'e', b'f', b'g'] {
            let found = tree.get(&key(keyspace, number), MAX_SEQUENCE, 0).unwrap();
            let wanted = match number % 4 {
                1 if keyspace == b'f' => None,
                2 if keyspace == b'f' => Some(b"short".to_vec()),
                _ => Some(value(number)),
            };
            assert_eq!(found, wanted, "{number}");
        }
    }
    let records: u64 = tree
        .count_records()
        .unwrap()
        .iter()
        .map(|(_, counted)| counted)
        .sum();
    assert_eq!(records, 3 * 400 - 100, "what was removed left nothing behind");
    assert_eq!(
        tree.check_with(CheckLevel::Everything, &[]).unwrap(),
        Vec::<String>::new()
    );
}
