//! Tests which data scans read.

use super::*;
use crate::tiered::{StepProgress, TieredTree, TreeOptions};
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::MemtableEntry;
use alluvium_storage::Error;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};

/// Returns an in-memory tree with `records` records and the smallest possible cache. `len` maps the
/// number of a record to the length of its value.
fn tree_of(records: u64, len: impl Fn(u64) -> usize) -> TieredTree {
    let options = StoreOptions {
        cache_bytes: 1 << 20,
        ..StoreOptions::default()
    };
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"");
    let store = Arc::new(store.unwrap());
    let tree = TieredTree::create(store, TreeOptions::default());
    let memtable = Memtable::new(16 << 20);
    for number in 0..records {
        let value = vec![number as u8; len(number)];
        let message = Message::put(number + 1, &value);
        memtable.insert(&number.to_be_bytes(), message).unwrap();
    }
    let mut writing = tree
        .incorporate(Arc::new(memtable), records, AllocationClass::Normal)
        .unwrap();
    while writing.poll(usize::MAX).unwrap() == StepProgress::More {}
    tree
}

#[test]
fn scans_read_at_once_what_such_scans_usually_take() {
    const RECORDS: u64 = 40_000;
    let tree = tree_of(RECORDS, |_| 100);
    let reads = || {
        let counters = tree.store().directory().counters();
        counters.snapshot().of(Purpose::Scan).reads
    };
    let mut random = fastrand::Rng::with_seed(5);
    let mut reads_for = |scans: u64, length: usize| {
        let before = reads();
        for _ in 0..scans {
            let start = random.u64(..RECORDS - 100).to_be_bytes();
            let mut iter = tree.iter(
                KeyRange::new(&start, None),
                MergeDirection::Forward,
                MAX_SEQUENCE,
                0,
            );
            for _ in 0..length {
                assert!(iter.next().unwrap().is_some());
            }
        }
        reads() - before
    };
    assert!(reads_for(1, 50) >= 2, "no scan has told yet");
    reads_for(100, 50);
    let reads = reads_for(100, 50);
    assert!(
        (80..120).contains(&reads),
        "{reads} reads for 100 scans of two or three leaves"
    );
    reads_for(100, 2);
    assert!(tree.scans.usual.records() < 4);
}

#[test]
fn values_that_are_kept_apart_come_with_their_keys() {
    let len = |number: u64| match number % 7 {
        0 => 100,
        1 => 20_000,
        2 => 70_000,
        part => 1000 * part as usize,
    };
    let tree = tree_of(500, len);
    for direction in [MergeDirection::Forward, MergeDirection::Backward] {
        let mut iter = tree.iter(KeyRange::everything(), direction, MAX_SEQUENCE, 0);
        for step in 0..500u64 {
            let number = match direction {
                MergeDirection::Forward => step,
                MergeDirection::Backward => 499 - step,
            };
            let (key, value) = iter.next().unwrap().expect("there are more");
            assert_eq!(key, number.to_be_bytes());
            assert!(value.len() == len(number) && value.iter().all(|&byte| byte == number as u8));
        }
        assert_eq!(iter.next().unwrap(), None);
    }
}

#[test]
fn a_value_that_cannot_be_read_is_an_error_where_it_comes() {
    const BAD: u64 = 101;
    // Every value is unique, and two of them nearly fill a page.
    let tree = tree_of(200, |_| 2000);
    let store = tree.store();
    let file = store.tiers().get(0).unwrap();
    let bytes = file.read_at(0, file.len() as usize, Purpose::Other).unwrap();
    let at = bytes.windows(2000).position(|window| window == [BAD as u8; 2000]);
    let page = at.expect("the value is there") / 4096 * 4096;
    let mut damaged = file.read_at(page as u64, 4096, Purpose::Other).unwrap();
    damaged[at.unwrap() % 4096] ^= 1;
    file.write_at(page as u64, damaged, Purpose::Other).unwrap();
    let read = |direction, first: u64, last: u64| {
        let mut iter = tree.iter(KeyRange::everything(), direction, MAX_SEQUENCE, 0);
        iter.seek(&first.to_be_bytes());
        let mut count = 0;
        loop {
            match iter.next() {
                Ok(Some((key, value))) => {
                    let number = u64::from_be_bytes(key.try_into().unwrap());
                    assert!(value == [number as u8; 2000] && number.abs_diff(first) == count);
                    count += 1;
                }
                Ok(None) => panic!("the damaged value is nowhere"),
                Err(error) => {
                    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                    assert_eq!(count, first.abs_diff(last), "{direction:?}");
                    assert!(iter.next().is_err(), "asked again, it tries again");
                    break;
                }
            }
        }
    };
    // The other value on the same page is unreadable too.
    let node = at.unwrap() - page;
    let first = if node < 1000 { BAD } else { BAD - 1 };
    for start in [0, 50, 99] {
        read(MergeDirection::Forward, start, first);
    }
    for start in [199, 150, 103] {
        read(MergeDirection::Backward, start, first + 1);
    }
}

/// Returns a tree with some frequently overwritten keys, the memtables above it, and the last
/// sequence number. If `is_written_out` is set, all versions have been written to the tree;
/// otherwise they are in a memtable.
#[cfg(debug_assertions)]
fn hot_keys(is_written_out: bool) -> (TieredTree, Arc<One>, u64) {
    const VERSIONS: u64 = 5000;
    let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"");
    let tree = TieredTree::create(Arc::new(store.unwrap()), TreeOptions::default());
    let memtable = Memtable::new(16 << 20);
    let mut sequence = 0;
    for key in 0..20u8 {
        sequence += 1;
        memtable
            .insert(&[2 * key, 0], Message::put(sequence, b"cold"))
            .unwrap();
    }
    for _ in 0..VERSIONS {
        for key in 0..6u8 {
            sequence += 1;
            let value = sequence.to_be_bytes();
            memtable
                .insert(&[5 * key, 1], Message::put(sequence, &value))
                .unwrap();
        }
    }
    let (memtable, mut above) = (Arc::new(memtable), Vec::new());
    if is_written_out {
        // The horizon has not advanced yet, so no versions may be merged.
        let mut writing = tree
            .incorporate(memtable, sequence, AllocationClass::Normal)
            .unwrap();
        while writing.poll(usize::MAX).unwrap() == StepProgress::More {}
    } else {
        above.push(MemtableEntry { memtable, base: 0 });
    }
    (tree, Arc::new(One(Arc::new(above))), sequence)
}

#[derive(Debug)]
struct One(MemtableList);

impl MemtableOwner for One {
    fn newest_first(&self) -> MemtableList {
        Arc::clone(&self.0)
    }
}

/// Returns the number of versions visited since the last call.
#[cfg(debug_assertions)]
fn visited() -> u64 {
    let take = |count: &std::cell::Cell<u64>| count.replace(0);
    alluvium_dictionary::memtable::STEPS.with(take) + crate::run::ENTERED.with(take)
}

#[cfg(debug_assertions)]
#[test]
fn scans_and_lookups_pass_by_what_they_do_not_see_of_hot_keys() {
    for is_written_out in [false, true] {
        let (tree, above, last) = hot_keys(is_written_out);
        let version_of = |at: u64, key: u64| {
            let turn = (at - 20).checked_sub(key + 1)? / 6;
            Some(20 + 6 * turn + key + 1)
        };
        for at in [last, last - 1, last / 2, 1000, 21, 20] {
            for direction in [MergeDirection::Forward, MergeDirection::Backward] {
                visited();
                let memtables: Arc<dyn MemtableOwner> = above.clone();
                let mut iter = tree.iter_with(memtables, KeyRange::everything(), direction, at, 0);
                let (mut hot, mut cold) = (Vec::new(), 0);
                while let Some((key, value)) = iter.next().unwrap() {
                    match key[1] {
                        0 => cold += 1,
                        _ => hot.push((u64::from(key[0] / 5), value.to_vec())),
                    }
                }
                hot.sort();
                let expected =
                    (0..6).filter_map(|key| Some((key, version_of(at, key)?.to_be_bytes().to_vec())));
                assert_eq!((hot, cold), (expected.collect(), 20), "{direction:?} at {at}");
                let visited = visited();
                // Each hot key is searched at most three times, and a search takes 2 log n steps.
                // In a run, each leaf that the versions of the key fill adds one step.
                let most = 6 * 3 * 2 * 13 + 20;
                assert!(
                    visited < most,
                    "{visited} versions looked at of 26 keys, {direction:?} at {at}, {is_written_out}"
                );
            }
        }
    }
}
