//! Tests with range deletes that are adjacent to those of another structure in the same memtable.

use super::{Story, forms};
use alluvium_base::Message;
use alluvium_dictionary::contract::{Dictionary, StepProgress};
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;

#[test]
fn a_deleted_range_stays_one_beside_that_of_another_structure_which_it_touches() {
    for options in forms() {
        for is_seen in [false, true] {
            a_deleted_range_stays_beside_another(&Story::of(options.clone(), 9), is_seen);
        }
    }
}

/// The structure's share of the memtable consists of two key ranges. Both are deleted completely,
/// along with the keys before them, which belong to another structure. If `is_seen` is true, a
/// reader may still need the deleted data.
fn a_deleted_range_stays_beside_another(story: &Story, is_seen: bool) {
    let keys: Arc<[KeyRange]> = [(b"b", b"c"), (b"e", b"f")]
        .map(|(low, high)| KeyRange::new(low, Some(high)))
        .into();
    let take = |memtable: Memtable, cut| {
        let share = MemtableSlice::new(Arc::new(memtable), cut, Arc::clone(&keys));
        let mut taking = story.hashed.incorporate(share, AllocationClass::Normal).unwrap();
        while taking.poll(100).unwrap() == StepProgress::More {}
        taking.publish().unwrap();
    };
    let written = Memtable::new(1 << 20);
    for (sequence, key) in (1..).zip([b"a1", b"b1", b"b2", b"d1", b"e1"]) {
        written.insert(key, Message::put(sequence, b"old")).unwrap();
    }
    take(written, 5);
    let deleting = Memtable::new(1 << 20);
    for (sequence, (low, high)) in (6..).zip([(b"a", b"b"), (b"b", b"c"), (b"d", b"e"), (b"e", b"f")]) {
        deleting.delete_range(low, high, sequence).unwrap();
    }
    deleting.insert(b"b2", Message::put(10, b"new")).unwrap();
    match is_seen {
        true => story.home.horizon.raise_past([5], 10),
        false => story.home.horizon.raise(10),
    }
    take(deleting, 10);
    let found = |at| [b"b1", b"b2", b"e1"].map(|key| story.get(key, at));
    let new = Some(b"new".to_vec());
    assert_eq!(found(10), [None, new, None], "{:?}", story.options);
    if is_seen {
        assert_eq!(
            found(5),
            [0; 3].map(|_| Some(b"old".to_vec())),
            "{:?}",
            story.options
        );
    }
}
