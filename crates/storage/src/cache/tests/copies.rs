//! Tests of promoted copies of nodes from a slower tier: which reads use them, and what is read if
//! a copy is damaged.

use super::*;
use crate::extents::{Extent, UNIT};

/// Number of nodes, which is more than fit into the smallest cache.
const NODES: usize = 600;

/// Returns an extent on the first tier for one batch of copies.
fn place(number: u32) -> Extent {
    let units = (BATCH_BYTES / UNIT) as u32;
    Extent {
        tier: 0,
        start: number * units,
        units,
    }
}

fn read(cache: &NodeCache, pointer: &NodePointer) {
    let guard = cache.epochs().pin();
    let node = cache.get(pointer, &guard, Purpose::Lookup).unwrap();
    assert_content(pointer, &node);
}

/// Writes the collected nodes to an extent, as the store's background step does. Returns the number
/// of nodes.
fn copy(store: &Store, cache: &NodeCache, extent: Extent) -> usize {
    let Some(collected) = cache.copies().take_collected(0) else {
        return 0;
    };
    let file = store.tiers.get(0).unwrap();
    file.grow(file.len().max(extent.range().end)).unwrap();
    let buffer = AlignedBuffer::padded(&collected.bytes);
    file.write_at(extent.offset(), buffer, Purpose::Other).unwrap();
    let count = collected.hashes.len();
    cache.copies().publish(extent, collected);
    count
}

/// Overwrites a part of a tier's data file with other data.
fn spoil(store: &Store, tier: u8, offset: u64, len: u64) {
    let file = store.tiers.get(tier).unwrap();
    file.write_at(
        offset,
        AlignedBuffer::padded(&vec![9; len as usize]),
        Purpose::Other,
    )
    .unwrap();
}

/// Returns a cache that has missed each node several times, so that most nodes have a copy.
fn copied() -> (Store, NodeCache, Vec<NodePointer>, u32) {
    let mut store = Store::new(2);
    let codecs = [NodeCodec::None, NodeCodec::Lz4];
    let pointers: Vec<NodePointer> = (0..NODES)
        .map(|number| store.write(1, 1, 1, codecs[number % 2]))
        .collect();
    let cache = store.cache(MIB);
    cache.copies().set_budget(64 * MIB);
    let (mut extents, mut copies) = (0, 0);
    for _ in 0..4 {
        for some in pointers.chunks(100) {
            some.iter().for_each(|pointer| read(&cache, pointer));
            let count = copy(&store, &cache, place(extents));
            extents += u32::from(count > 0);
            copies += count;
        }
    }
    assert!(copies > NODES * 9 / 10 && copies <= NODES, "{copies} of {NODES}");
    (store, cache, pointers, extents)
}

#[test]
fn what_has_a_copy_is_not_read_from_its_own_tier() {
    let (store, cache, pointers, _) = copied();
    let before = cache.copies().stats().hits;
    let copied = cache.copies().stats().copies;
    // Overwrite the nodes on their own tier, so that only nodes with a copy can still be read.
    spoil(&store, 1, 0, store.ends[1]);
    let guard = cache.epochs().pin();
    let found = pointers.iter().filter(|pointer| {
        let node = cache.get(pointer, &guard, Purpose::Lookup);
        node.is_ok_and(|node| {
            assert_content(pointer, &node);
            true
        })
    });
    let found = found.count() as u64;
    assert!(found >= copied, "{found} of {copied} copies were of use");
    assert!(cache.copies().stats().hits > before + 200);
}

#[test]
fn a_copy_that_is_something_else_by_now_is_not_used() {
    let (store, cache, pointers, extents) = copied();
    // The space of the copies is reused for other data before the copies are removed from the
    // index.
    spoil(&store, 0, 0, place(extents).offset());
    for _ in 0..2 {
        pointers.iter().for_each(|pointer| read(&cache, pointer));
    }
    let stats = cache.copies().stats();
    assert!(stats.refused > 200, "{stats:?}");
    assert!(cache.check().is_empty());
}

#[test]
fn a_node_in_the_place_of_one_that_was_copied_is_read_as_itself() {
    let (mut store, cache, old, _) = copied();
    // The next generation reuses the space of the slower tier.
    store.ends[1] = 0;
    let codecs = [NodeCodec::None, NodeCodec::Lz4];
    let new: Vec<NodePointer> = (0..NODES)
        .map(|number| store.write(1, 2, 1, codecs[number % 2]))
        .collect();
    assert!(old.iter().zip(&new).any(|(old, new)| old.offset == new.offset));
    for _ in 0..3 {
        new.iter().for_each(|pointer| read(&cache, pointer));
    }
}

#[test]
fn reads_of_many_at_once_take_what_is_copied_from_there() {
    let (_store, cache, pointers, _) = copied();
    let before = cache.copies().stats().hits;
    for some in pointers.chunks(40) {
        let guard = cache.epochs().pin();
        let nodes = cache
            .get_many(some, &guard, Purpose::Lookup, CacheRetention::Keep)
            .unwrap();
        for (pointer, node) in some.iter().zip(&nodes) {
            assert_content(pointer, node);
        }
    }
    assert!(cache.copies().stats().hits > before + 200);
}

#[test]
fn walks_collect_nothing() {
    let mut store = Store::new(2);
    let pointers: Vec<NodePointer> = (0..NODES)
        .map(|_| store.write(1, 1, 1, NodeCodec::None))
        .collect();
    let cache = store.cache(MIB);
    cache.copies().set_budget(64 * MIB);
    for _ in 0..3 {
        for pointer in &pointers {
            let pending = cache
                .request(&[*pointer], Purpose::Scan, CacheRetention::PassThrough)
                .unwrap();
            drop(pending);
            cache.finish_arrived();
        }
    }
    assert!(cache.copies().take_collected(0).is_none());
    // Nodes on the first tier are not copied, because there is no faster tier.
    let near: Vec<NodePointer> = (0..NODES)
        .map(|_| store.write(0, 1, 1, NodeCodec::None))
        .collect();
    for _ in 0..3 {
        near.iter().for_each(|pointer| read(&cache, pointer));
    }
    assert!(cache.copies().take_collected(0).is_none());
}
