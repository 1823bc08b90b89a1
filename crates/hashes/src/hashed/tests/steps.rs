//! Tests of discarded merges, and of lookups that have to wait for nodes.

use super::{
    AllocationClass, AppendOperator, IndexKind, LookupKey, LookupState, MAX_SEQUENCE, Memtable, Message,
    PointLookup, StepProgress, Story, forms,
};
use alluvium_dictionary::contract::{Dictionary, LookupReader};
use alluvium_dictionary::fetch::{FetchedNodes, NonBlockingFetch};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use std::sync::Arc;
use std::task::Poll;

#[test]
fn a_merge_that_is_given_up_is_due_again() {
    for options in forms() {
        given_up(Story::of(options, 17));
    }
}

fn given_up(mut story: Story) {
    for _ in 0..4 {
        let memtable = story.memtable(60);
        story.take(memtable);
    }
    for polls in 0..3 {
        let mut step = story.hashed.next_step().unwrap().expect("a merge is due");
        assert!(story.hashed.next_step().unwrap().is_none(), "one at a time (W4)");
        for _ in 0..polls {
            assert_eq!(step.poll(5).unwrap(), StepProgress::More);
        }
        drop(step);
        assert!(story.hashed.may_merge());
    }
    story.merge(100_000);
    assert_eq!(story.hashed.hash_store_count(), 0);
    story.compare();
    story.check();
}

#[test]
fn a_merge_that_a_user_wants_is_wanted_until_it_is_done() {
    for options in forms() {
        wanted(Story::of(options, 19));
    }
}

fn wanted(mut story: Story) {
    let memtable = story.memtable(300);
    story.take(memtable);
    story.hashed.compact_part(b"").unwrap();
    story.merge(100_000);
    let before = story.hashed.stats().merges;
    assert_eq!(story.hashed.hash_store_count(), 0);
    // There is no new data, so the parts are rewritten only on request.
    assert!(story.hashed.next_step().unwrap().is_none());
    story.hashed.compact_part(b"").unwrap();
    for polls in [0, 1] {
        let mut step = story.hashed.next_step().unwrap().expect("it is wanted");
        for _ in 0..polls {
            assert_eq!(step.poll(1).unwrap(), StepProgress::More);
        }
    }
    story.merge(100_000);
    let parts = story.hashed.options().parts() as u64;
    assert_eq!(story.hashed.stats().merges - before, parts);
    story.compare();
}

#[test]
fn a_lookup_that_waits_takes_nothing_twice() {
    for options in forms() {
        takes_nothing_twice(Story::of(options, 23));
    }
}

fn takes_nothing_twice(mut story: Story) {
    let memtable = Memtable::new(1 << 20);
    // A lookup processes the operands before it loads the older value, which has its own node.
    let long = vec![b'v'; 5000];
    memtable.insert(b"key", Message::put(1, &long)).unwrap();
    for (at, operand) in [(2, b"+2"), (3, b"+3")] {
        memtable.insert(b"key", Message::merge(at, operand)).unwrap();
    }
    let mut taking = story
        .hashed
        .incorporate(
            MemtableSlice::whole(Arc::new(memtable), 3),
            AllocationClass::Normal,
        )
        .unwrap();
    while taking.poll(100).unwrap() == StepProgress::More {}
    taking.publish().unwrap();
    drop(taking);
    assert!(
        waits(&story, &long) > 1,
        "it waited for the leaf, and for the value"
    );
    // Merges must not change the result. They fold no messages, because there may be readers at any
    // sequence number.
    story.hashed.compact_part(b"").unwrap();
    story.merge(100_000);
    assert_eq!(
        (story.hashed.hash_store_count(), story.hashed.sorted_records()),
        (0, 3)
    );
    assert!(
        waits(&story, &long) > 1,
        "it waited for the leaf, and for the value"
    );
}

/// Returns how often a lookup of the key is pending. Checks that it finally returns the value with
/// both operands applied.
fn waits(story: &Story, long: &[u8]) -> u32 {
    let reader = story.hashed.reader();
    let (mut search, mut gather) = (
        reader.new_search(),
        LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator)),
    );
    let mut waits = 0;
    loop {
        let mut brought = FetchedNodes::default();
        let missing = {
            let peeking = NonBlockingFetch::new(reader.nodes(), &brought);
            match reader.search(LookupKey::new(b"key"), &mut gather, &mut search, &peeking) {
                Poll::Ready(found) => {
                    found.unwrap();
                    break;
                }
                Poll::Pending => peeking.into_missing(),
            }
        };
        waits += 1;
        assert!(waits < 20, "each wait brings a node that stays in the cache");
        brought.wait(reader.nodes(), missing).unwrap();
    }
    let expected = [long, b"+2+3"].concat();
    assert!(
        gather.finish() == Some(expected),
        "an operand was taken twice, or none"
    );
    waits
}

#[test]
fn hash_stores_that_are_joined_leave_out_what_parts_have_taken() {
    let mut story = Story::of(super::joining(IndexKind::PaCHash), 29);
    for round in 0..5 {
        let memtable = story.memtable(200);
        story.take(memtable);
        if round == 2 {
            story.hashed.compact_part(b"").unwrap();
            for part in 0..2 {
                let mut step = story.hashed.next_step().unwrap().expect("all parts are wanted");
                while step.poll(1000).unwrap() == StepProgress::More {}
                assert_eq!(story.hashed.stats().merges, part + 1);
            }
            story.hashed.shared.kept.lock().wanted.fill(false);
        }
    }
    // Two of four parts have merged three of the hash stores, and no part has merged the other two.
    let before = story.hashed.stats();
    assert_eq!(before.hash_stores, 5);
    let young: Vec<u64> = story
        .hashed
        .version()
        .young
        .iter()
        .map(|young| young.run.records())
        .collect();
    let memtable = story.memtable(200);
    story.take(memtable);
    story.compare();
    let mut step = story
        .hashed
        .next_step()
        .unwrap()
        .expect("six are joined, two of them");
    while step.poll(1000).unwrap() == StepProgress::More {}
    drop(step);
    let version = story.hashed.version();
    assert_eq!(version.young.len(), 5);
    let joined = version.young[4].run.records();
    assert!(joined < (young[3] + young[4]) * 3 / 4, "{joined} of {young:?}");
    story.compare();
    story.check();
    story.reopen();
    story.compare();
    story.hashed.compact_part(b"").unwrap();
    story.merge(100_000);
    assert_eq!(story.hashed.hash_store_count(), 0);
    story.compare();
}

#[test]
fn a_deleted_range_that_a_part_has_taken_does_not_come_back_by_a_join() {
    let mut story = Story::of(super::joining(IndexKind::PaCHash), 31);
    // Delete all keys and write them again, so that nothing but sequence numbers shows that the
    // records are newer than the range delete.
    let memtable = Memtable::new(1 << 20);
    let first = story.model.said.len() as u64 + 1;
    memtable.delete_range(b"key", b"kez", first).unwrap();
    story
        .model
        .said
        .push(super::Said::DeleteRange(b"key".to_vec(), b"kez".to_vec()));
    for number in 0..100 {
        let key = format!("key {number:03}").into_bytes();
        let at = story.model.said.len() as u64 + 1;
        memtable.insert(&key, Message::put(at, b"again")).unwrap();
        story.model.said.push(super::Said::Put(key, b"again".to_vec(), 0));
    }
    story.take(Arc::new(memtable));
    let now = story.model.said.len() as u64;
    story.snapshot = now;
    story.home.horizon.raise_past([now], now);
    // Two of the four parts merge the hash store once no reader needs sequence numbers any more.
    story.hashed.compact_part(b"").unwrap();
    for _ in 0..2 {
        let mut step = story.hashed.next_step().unwrap().expect("all parts are wanted");
        while step.poll(1000).unwrap() == StepProgress::More {}
    }
    story.hashed.shared.kept.lock().wanted.fill(false);
    for round in 0..8 {
        // The hash stores have similar sizes and the first one is the smallest, so only its range
        // delete keeps it from being joined.
        let memtable = Memtable::new(1 << 20);
        for number in 0..100 {
            let key = format!("other {number:03}").into_bytes();
            let value = format!("in round {round}").into_bytes();
            let at = story.model.said.len() as u64 + 1;
            memtable.insert(&key, Message::put(at, &value)).unwrap();
            story.model.said.push(super::Said::Put(key, value, 0));
        }
        story.take(Arc::new(memtable));
        let now = story.model.said.len() as u64;
        story.snapshot = now;
        story.home.horizon.raise_past([now], now);
        story.merge(1000);
        story.compare();
    }
    assert!(
        story.hashed.shared.kept.lock().joins > 0,
        "the others were joined"
    );
    story.hashed.compact_part(b"").unwrap();
    story.merge(100_000);
    story.compare();
}
