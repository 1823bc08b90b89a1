//! Tests that compare ranges with a reference, and tests of what happens between a claim and its
//! end.

use super::*;
use crate::key::LookupKey;
use crate::memtable::Memtable;
use crate::memtables::{MemtableEntry, MemtableList};
use crate::merge::MergeDirection;
use crate::range::KeyRange;
use alluvium_base::{Message, MessageKind};
use std::sync::Arc;

#[derive(Debug)]
struct One(Arc<Memtable>, SequenceNumber);

impl MemtableOwner for One {
    fn newest_first(&self) -> MemtableList {
        let memtable = Arc::clone(&self.0);
        Arc::new(vec![MemtableEntry {
            memtable,
            base: self.1,
        }])
    }
}

fn one(base: SequenceNumber) -> One {
    One(Arc::new(Memtable::new(1 << 20)), base)
}

fn range(start: &[u8], end: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (start.to_vec(), end.to_vec())
}

fn around(empty: &EmptyRanges, key: &[u8], moment: ReadPoint) -> Option<(Vec<u8>, Vec<u8>)> {
    let found = empty.around(key, moment)?;
    Some((found.start.into_vec(), found.end.into_vec()))
}

#[test]
fn a_range_ends_before_the_first_key_that_has_something_newer() {
    let (empty, memtables) = (EmptyRanges::new(1 << 16), one(0));
    let insert = |key: &[u8], message| memtables.0.insert(key, message).unwrap();
    insert(b"c", Message::put(3, b""));
    insert(b"c", Message::delete(4));
    insert(b"d", Message::delete(9));
    insert(b"e", Message::put(8, b"newer"));
    insert(b"e", Message::delete(9));
    empty.note(&[range(b"a", b"z")], (5, 0), &memtables);
    assert_eq!(around(&empty, b"d", (5, 0)), Some(range(b"a", b"e")));
    assert_eq!(around(&empty, b"e", (9, 0)), None);
    assert_eq!(empty.len(), 1, "no claim is left");
}

#[test]
fn nothing_is_noted_by_a_reader_who_is_older_than_what_the_memtables_hold() {
    let (empty, memtables) = (EmptyRanges::new(1 << 16), one(6));
    empty.note(&[range(b"a", b"z")], (5, 0), &memtables);
    assert!(empty.is_empty());
    empty.note(&[range(b"a", b"z")], (6, 0), &memtables);
    assert_eq!(empty.len(), 1);
    empty.forget(7);
    empty.note(&[range(b"a", b"z")], (6, 0), &memtables);
    assert!(empty.is_empty(), "what was loaded past the memtables is newer");
    empty.note(&[range(b"a", b"z")], (7, 0), &memtables);
    assert_eq!(empty.len(), 1);
}

#[test]
fn nothing_is_noted_where_a_newer_memtable_has_left_from_above_one_that_stays() {
    // A memtable that a damaged structure could not incorporate stays in the list, below all
    // others.
    let (empty, memtables) = (EmptyRanges::new(1 << 16), one(0));
    empty.memtable_leaves(8);
    empty.note(&[range(b"a", b"z")], (7, 0), &memtables);
    assert!(empty.is_empty(), "commit 8 may have put a key into it");
    empty.note(&[range(b"a", b"z")], (8, 0), &memtables);
    assert_eq!(empty.len(), 1);
}

#[test]
fn a_write_cuts_a_claim_before_it_counts() {
    let (empty, memtables) = (EmptyRanges::new(1 << 16), one(0));
    let claims = empty
        .claim(&[range(b"a", b"k"), range(b"m", b"z")], (5, 0))
        .unwrap();
    assert_eq!(around(&empty, b"b", (5, 0)), None, "a claim counts for no reader");
    empty.written([&b"d"[..], b"l", b"m"]);
    empty.settle(claims, (5, 0), &memtables);
    assert_eq!(around(&empty, b"b", (5, 0)), Some(range(b"a", b"d")));
    for key in [&b"d"[..], b"e", b"m", b"n"] {
        assert_eq!(around(&empty, key, (9, 9)), None);
    }
    let claims = empty.claim(&[range(b"o", b"p")], (5, 0)).unwrap();
    empty.forget(6);
    empty.settle(claims, (5, 0), &memtables);
    assert!(empty.is_empty() && empty.memory_bytes() == 0);
}

#[test]
fn a_range_holds_for_readers_that_are_neither_older_nor_before_its_time() {
    let (empty, memtables) = (EmptyRanges::new(1 << 16), one(0));
    empty.note(&[range(b"a", b"f")], (5, 100), &memtables);
    assert!(around(&empty, b"b", (5, 100)).is_some() && around(&empty, b"b", (9, 101)).is_some());
    assert!(around(&empty, b"b", (4, 100)).is_none() && around(&empty, b"b", (5, 99)).is_none());
    empty.note(&[range(b"f", b"k")], (3, 0), &memtables);
    assert_eq!(around(&empty, b"g", (5, 100)), Some(range(b"a", b"k")), "joined");
    assert_eq!(empty.below(b"k", (5, 100)).unwrap().start, (*b"a").into());
    assert_eq!(empty.below(b"ka", (5, 100)), None);
    assert_eq!(empty.below(b"a", (5, 100)), None);
}

#[test]
fn ranges_that_nobody_uses_go_first_and_the_bytes_stay_within_the_limit() {
    let (empty, memtables) = (EmptyRanges::new(1 << 12), one(0));
    let name = |number: u32| number.to_be_bytes();
    for number in 0..500 {
        // The first range is used repeatedly.
        assert_eq!(number > 0, around(&empty, &name(0), (9, 0)).is_some());
        let own = range(&name(2 * number), &name(2 * number + 1));
        empty.note(&[own], (5, 0), &memtables);
        assert!(empty.memory_bytes() <= 1 << 12, "{}", empty.memory_bytes());
    }
    assert!(empty.len() > 20);
    for _ in 0..3 {
        empty.drop_unused();
        assert!(around(&empty, &name(0), (9, 0)).is_some());
    }
    assert_eq!(empty.len(), 1);
    for _ in 0..5 {
        assert_eq!(empty.len(), 1);
        empty.drop_unused();
    }
    assert!(empty.is_empty() && empty.memory_bytes() == 0);
    let huge = range(&[1; 2000], &[2; 2000]);
    empty.note(&[huge], (5, 0), &memtables);
    assert!(empty.is_empty(), "what takes most of the memory is not kept");
}

#[test]
fn ranges_hold_no_key_that_has_a_value_in_any_order_of_notes_and_writes() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (empty, memtables) = (EmptyRanges::new(1 << 16), one(0));
        let mut live = [false; 64];
        let mut noted = 0;
        for sequence in 1..200 {
            let key = random.u8(..64);
            match random.u8(..4) {
                0 => {
                    memtables.0.insert(&[key], Message::put(sequence, b"")).unwrap();
                    empty.written([&[key][..]]);
                    live[usize::from(key)] = true;
                }
                1 => {
                    memtables.0.insert(&[key], Message::delete(sequence)).unwrap();
                    live[usize::from(key)] = false;
                }
                _ => {
                    let upto = (key..64).take(20).find(|&key| live[usize::from(key)]);
                    let upto = upto.unwrap_or(64.min(key + 20));
                    if upto > key {
                        empty.note(&[range(&[key], &[upto])], (sequence, 0), &memtables);
                        noted += 1;
                    }
                }
            }
            for key in 0..64_u8 {
                let found = around(&empty, &[key], (sequence, 0));
                assert!(
                    found.is_none() || !live[usize::from(key)],
                    "{key} at {sequence}, seed {seed}"
                );
                if let Some((start, end)) = found {
                    assert!(start[..] <= [key][..] && [key][..] < end[..]);
                }
            }
        }
        assert!(noted > 20);
    }
}

/// Scans keys without values and returns the number of keys passed one by one.
fn walk(
    run: &mut DeadRun,
    empty: &EmptyRanges,
    memtables: &Noting<'_>,
    keys: impl Iterator<Item = u8>,
) -> u32 {
    let everything = KeyRange::new(&[0], Some(&[250]));
    let (mut passed, mut behind) = (0, None::<EmptyRange>);
    for key in keys {
        let is_behind = |range: &EmptyRange| range.start[..] <= [key][..] && [key][..] < range.end[..];
        if behind.as_ref().is_some_and(is_behind) {
            continue;
        }
        passed += 1;
        run.pass(&[key], false, &everything);
        if run.may_leap()
            && let Some(range) = run.leap(empty, (5, 0))
        {
            behind = Some(range);
        }
    }
    run.end(Some(memtables), (5, 0));
    passed
}

#[derive(Debug)]
struct Noting<'e>(&'e EmptyRanges);

impl MemtableOwner for Noting<'_> {
    fn newest_first(&self) -> MemtableList {
        MemtableList::default()
    }

    fn empty_ranges(&self) -> Option<&EmptyRanges> {
        Some(self.0)
    }
}

#[test]
fn a_walk_notes_long_runs_and_passes_few_keys_the_next_time() {
    for direction in [MergeDirection::Forward, MergeDirection::Backward] {
        let keys = |upto: u8| -> Box<dyn Iterator<Item = u8>> {
            match direction {
                MergeDirection::Forward => Box::new(1..upto),
                MergeDirection::Backward => Box::new((250 - upto..249).rev()),
            }
        };
        let empty = EmptyRanges::new(1 << 16);
        let memtables = Noting(&empty);
        let pass = |upto| walk(&mut DeadRun::new(direction), &empty, &memtables, keys(upto));
        assert_eq!(pass(60), 59);
        assert!(empty.is_empty(), "short runs are not worth it");
        assert_eq!(pass(101), 100);
        assert_eq!(empty.len(), 1, "{direction:?}");
        // The range is extended only once enough further keys have been passed.
        for upto in 102..240 {
            let passed = pass(upto);
            assert!((4..4 + 17).contains(&passed), "{passed} of {upto}, {direction:?}");
            assert_eq!(empty.len(), 1);
        }
        let edge = match direction {
            MergeDirection::Forward => empty.around(&[0], (5, 0)),
            MergeDirection::Backward => empty.below(&[250], (5, 0)),
        };
        assert!(edge.is_some(), "it reaches to where the walks begin");
        // Deleted writes have left gaps between pieces, which are joined.
        for key in (30..60).step_by(3) {
            empty.written([&[key][..], &[250 - key][..]]);
        }
        let pieces = empty.len();
        assert!(pieces > 10, "{pieces}");
        let passed = pass(200);
        assert!(passed < 40, "{passed} with {pieces} pieces");
        assert!(empty.len() < 12, "{} pieces are left of {pieces}", empty.len());
        assert!(pass(200) <= 4 + 17);
    }
}

#[test]
fn writers_and_readers_at_once_never_hide_a_key() {
    // Each writer puts and deletes its own key. A reader that sees a value for the key must not
    // find the key in a range.
    const TURNS: u64 = 3_000;
    let empty = EmptyRanges::new(1 << 16);
    let memtables = One(Arc::new(Memtable::new(8 << 20)), 0);
    let visible = AtomicU64::new(0);
    let order = parking_lot::Mutex::new(());
    std::thread::scope(|scope| {
        for writer in 0..2_u8 {
            let (empty, memtables, visible, order) = (&empty, &memtables, &visible, &order);
            scope.spawn(move || {
                for turn in 0..TURNS {
                    // One commit at a time, so that visibility advances in order.
                    let _alone = order.lock();
                    let sequence = visible.load(Ordering::Acquire) + 1;
                    let key = [10 + writer];
                    if turn % 2 == 0 {
                        memtables.0.insert(&key, Message::put(sequence, b"")).unwrap();
                        empty.written([&key[..]]);
                    } else {
                        memtables.0.insert(&key, Message::delete(sequence)).unwrap();
                    }
                    visible.store(sequence, Ordering::Release);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = visible.load(Ordering::Acquire);
                    let live = |key: &[u8]| {
                        let newest = memtables.0.get(LookupKey::new(key), at).next();
                        newest.is_some_and(|message| message.kind != MessageKind::Delete)
                    };
                    for key in [[10_u8], [11]] {
                        let found = empty.around(&key, (at, 0));
                        assert!(found.is_none() || !live(&key), "{key:?} at {at}");
                    }
                    if !live(&[10]) && !live(&[11]) {
                        empty.note(&[range(&[5], &[20])], (at, 0), &memtables);
                    }
                    if at >= 2 * TURNS {
                        break;
                    }
                }
            });
        }
    });
}
