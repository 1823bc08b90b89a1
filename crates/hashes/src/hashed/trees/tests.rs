//! Tests of digest merges and of growing roots, which compare the results with lists in memory.

use super::hashes::DigestMerger;
use super::{HashLayout, ListHeader, RoutingList, RoutingListCursor, RoutingListWriter, WrittenRoutingList};
use crate::hashed::lists::{PageSource, PrefixSketch};
use alluvium_base::Purpose;
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use std::sync::Arc;

fn store() -> Arc<Store> {
    let directory = Arc::new(MemoryDirectory::new());
    Arc::new(Store::create(directory, &StoreOptions::default(), b"").unwrap())
}

fn written(store: &Arc<Store>, head: ListHeader, hashes: &[u64]) -> WrittenRoutingList {
    let options = store.writer_options(Purpose::Compact, AllocationClass::Normal);
    let mut writer = RoutingListWriter::new(store, options, head, hashes.len() as u64).unwrap();
    for &hash in hashes {
        writer.push(head.entry(hash, 0)).unwrap();
    }
    writer.finish(0).unwrap()
}

fn digest(cut: HashLayout, height: u8) -> ListHeader {
    ListHeader {
        cut,
        height,
        children: 0,
    }
}

/// Sorts hashes by their first `bits` bits, with a stable sort.
fn sorted(cut: HashLayout, mut hashes: Vec<u64>, bits: u32) -> Vec<u64> {
    hashes.sort_by_key(|&hash| cut.first(hash, bits));
    hashes
}

fn all(mut merged: DigestMerger) -> Vec<u64> {
    std::iter::from_fn(|| merged.next().unwrap()).collect()
}

/// Generates leaves with many equal hashes, and with some hashes that have equal prefixes.
fn leaves(cut: HashLayout, count: usize) -> Vec<Vec<u64>> {
    let mut random = fastrand::Rng::with_seed(7);
    let leaf = |_| {
        let mut hash = || match random.u32(..4) {
            0 => 0x0012_3456_789a_bcde_u64 >> cut.skipped_bits,
            1 => random.u64(..1 << 12) | 5 << 40,
            2 => random.u64(..64) << (cut.own_bits() - 16),
            _ => random.u64(..) >> cut.skipped_bits,
        };
        let mut leaf: Vec<u64> = (0..400).map(|_| hash()).collect();
        leaf.sort_unstable();
        leaf.dedup();
        leaf
    };
    (0..count).map(leaf).collect()
}

#[test]
fn digests_are_merged_by_prefix_and_then_in_the_order_of_the_log() {
    let store = store();
    for (skipped, bits) in [(0, 1), (4, 2), (12, 4)] {
        let cut = HashLayout::of_leaf(skipped, bits, 300);
        let leaves = leaves(cut, 24);
        let digests: Vec<WrittenRoutingList> = leaves
            .iter()
            .map(|leaf| written(&store, digest(cut, 0), leaf))
            .collect();
        let lists = |digests: &[WrittenRoutingList]| -> Vec<RoutingList> {
            digests.iter().map(|digest| digest.stored().clone()).collect()
        };
        // Merge the leaf digests in the order of height 2.
        let of_height = |height| cut.prefix_bits(height);
        let merged = all(DigestMerger::new(&store, &lists(&digests), of_height(2)).unwrap());
        assert_eq!(merged, sorted(cut, leaves.concat(), of_height(2)));
        // Merge groups of six digests into digests of height 1, in the order of height 2. Then
        // merge these in the order of height 4.
        let higher: Vec<WrittenRoutingList> = digests
            .chunks(6)
            .map(|some| {
                let hashes = all(DigestMerger::new(&store, &lists(some), of_height(2)).unwrap());
                written(&store, digest(cut, 1), &hashes)
            })
            .collect();
        let merged = DigestMerger::new(&store, &lists(&higher), of_height(4)).unwrap();
        assert_eq!(merged.len(), leaves.concat().len() as u64);
        assert_eq!(all(merged), sorted(cut, leaves.concat(), of_height(4)));
    }
}

#[test]
fn a_list_is_read_back_and_its_payloads_are_found() {
    let store = store();
    let cut = HashLayout::of_leaf(0, 4, 300);
    let hashes = sorted(cut, leaves(cut, 30).concat(), cut.prefix_bits(2));
    let head = ListHeader {
        cut,
        height: 2,
        children: 1,
    };
    let list = written(&store, head, &hashes);
    let entries: Vec<PrefixSketch> = hashes.iter().map(|&hash| head.entry(hash, 0)).collect();
    let mut read = RoutingListCursor::new(
        PageSource::Store(Arc::clone(&store)),
        list.stored(),
        Purpose::Compact,
        3,
    );
    for &entry in &entries {
        assert_eq!(read.next().unwrap(), Some(entry));
    }
    assert_eq!(read.next().unwrap(), None);
    assert!(list.stored().pages() > 3, "{} pages", list.stored().pages());
    let guard = store.epochs().pin();
    let fetch = alluvium_dictionary::fetch::BlockingFetch {
        cache: store.cache(),
        guard: &guard,
        purpose: Purpose::Lookup,
    };
    let mut prefixes: Vec<u64> = entries.iter().map(|entry| entry.prefix).collect();
    prefixes.dedup();
    prefixes.extend([0, 1, 77, (1 << cut.prefix_bits(2)) - 1]);
    for prefix in prefixes.into_iter().step_by(5) {
        let of_prefix = entries.iter().filter(|entry| entry.prefix == prefix);
        let expected: Vec<u64> = of_prefix.map(|entry| entry.payload).collect();
        let found = alluvium_dictionary::fetch::unwrap_ready(list.stored().payloads(prefix, &fetch)).unwrap();
        assert_eq!(found, expected, "{prefix:x}");
    }
}
