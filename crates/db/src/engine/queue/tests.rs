//! Tests of memtable sealing, sequence number assignment and memtable memory.

use super::*;

const ROOM: u64 = 4096;

#[test]
fn a_full_memtable_is_sealed_at_an_exact_cut() {
    let queue = MemtableQueue::new(ROOM, 100);
    let mut seals = 0;
    let places: Vec<SequenceAssignment> = (0..10).map(|_| queue.assign(3, 1000, || seals += 1)).collect();
    let firsts: Vec<SequenceNumber> = places.iter().map(|place| place.first).collect();
    assert_eq!(firsts, [101, 104, 107, 110, 113, 116, 119, 122, 125, 128]);
    assert_eq!(seals, 2, "four fit into each");
    let bounds: Vec<_> = queue
        .slots()
        .iter()
        .map(|slot| (slot.base(), slot.cut()))
        .collect();
    assert_eq!(bounds, [(124, None), (112, Some(124)), (100, Some(112))]);
    let oldest = queue.oldest_sealed().unwrap();
    assert!(Arc::ptr_eq(&oldest, &places[3].slot) && !Arc::ptr_eq(&oldest, &places[4].slot));
    queue.remove(&oldest);
    assert_eq!((queue.sealed(), queue.seal(), queue.seal()), (1, 130, 130));
    assert_eq!(queue.sealed(), 2, "an empty memtable is not sealed");
}

#[test]
fn what_is_written_out_of_the_oldest_is_not_counted() {
    let queue = MemtableQueue::new(ROOM, 0);
    let fill = |slot: &MemtableSlot| {
        for sequence in 1..=8 {
            let message = alluvium_base::Message::put(sequence, b"value");
            slot.memtable.insert(&[sequence as u8], message).unwrap();
        }
    };
    fill(&queue.assign(8, ROOM, || ()).slot);
    assert_eq!(queue.filled(), PARTS);
    queue.assign(8, ROOM / 2, || ());
    assert_eq!(queue.filled(), PARTS + PARTS / 2);
    let oldest = queue.oldest_sealed().unwrap();
    for (messages, left) in [(2, 3 * PARTS / 4), (4, PARTS / 2), (8, 0), (100, 0), (0, PARTS)] {
        oldest.note_written_out(messages);
        assert_eq!(queue.filled(), left + PARTS / 2, "{messages} messages");
    }
    oldest.note_written_out(8);
    queue.remove(&oldest);
    assert_eq!(queue.filled(), PARTS / 2);
}

#[test]
fn memtables_that_only_readers_have_are_counted_as_long_as_they_have_them() {
    let queue = MemtableQueue::new(ROOM, 0);
    let readers: Vec<MemtableList> = (1..=20)
        .map(|sequence| {
            let message = alluvium_base::Message::put(sequence, &[7; 100]);
            let slot = queue.assign(1, ROOM, || ()).slot;
            slot.memtable.insert(b"key", message).unwrap();
            let list = queue.newest_first();
            queue.seal();
            queue.remove(&queue.oldest_sealed().unwrap());
            list
        })
        .collect();
    let with_readers = queue.memory_bytes();
    drop(readers);
    let without = queue.memory_bytes();
    assert!(with_readers > 2 * without, "{with_readers}, {without}");
}

#[test]
fn small_memtables_take_no_huge_pages() {
    // A memtable of 4 MiB or more requests huge pages of 2 MiB.
    for room in [1 << 20, 3 << 19] {
        assert!(memtable(room).limit() < 4 << 20, "{room}");
    }
}

#[test]
fn memory_that_waits_too_long_for_the_next_memtable_is_given_back() {
    let queue = MemtableQueue::new(ROOM, 0);
    let write_one_out = || {
        let message = alluvium_base::Message::put(1, &[7; 100]);
        let slot = queue.assign(1, ROOM, || ()).slot;
        slot.memtable.insert(b"key", message).unwrap();
        drop(slot);
        queue.seal();
        queue.remove(&queue.oldest_sealed().unwrap());
        queue.memory_bytes()
    };
    let waits = write_one_out();
    for _ in 0..2 {
        queue.free_retired(2);
        assert_eq!(queue.memory_bytes(), waits);
    }
    // The next memtable reuses the memory, and its round count restarts at zero.
    write_one_out();
    write_one_out();
    let waits = queue.memory_bytes();
    queue.free_retired(2);
    queue.free_retired(2);
    assert_eq!(queue.memory_bytes(), waits);
    queue.free_retired(2);
    assert!(queue.memory_bytes() < waits);
}

#[test]
fn a_writer_who_stalls_while_the_numbers_of_memtables_come_round_writes_to_the_newest() {
    let queue = MemtableQueue::new(ROOM, 0);
    let stalled = Arc::clone(&queue.slots()[0]);
    assert!(stalled.reserve(100));
    for seal in 1..=256 {
        queue.assign(1, 100, || ());
        assert_eq!(queue.seal(), seal);
        queue.remove(&queue.oldest_sealed().unwrap());
    }
    assert_eq!(queue.slots()[0].number, stalled.number);
    let place = queue.assign_reserved(&stalled, 3, 100).unwrap();
    assert_eq!(place.first, 257);
    assert!(Arc::ptr_eq(&place.slot, &queue.slots()[0]));
    assert_eq!(place.slot.reserved.load(Ordering::Relaxed), 100);
    // A writer that is delayed for fewer than 256 seals must reserve space again.
    queue.seal();
    assert!(queue.assign_reserved(&place.slot, 1, 100).is_none());
}

#[test]
fn what_is_large_has_a_memtable_to_itself() {
    let queue = MemtableQueue::new(ROOM, 0);
    queue.assign(1, 100, || ());
    let alone = queue.assign(5, 1 << 20, || ());
    let after = queue.assign(1, 100, || ());
    assert_eq!((alone.first, after.first), (2, 7));
    let bounds: Vec<_> = queue
        .slots()
        .iter()
        .map(|slot| (slot.base(), slot.cut()))
        .collect();
    assert_eq!(bounds, [(6, None), (1, Some(6)), (0, Some(1))]);
    assert!(alone.slot.memtable.limit() > 1 << 20);
    // The next large commit waits until the sealed memtables are flushed.
    assert!(queue.is_full(1 << 20) && !queue.is_full(100));
    for _ in 0..2 {
        let oldest = queue.oldest_sealed().unwrap();
        queue.remove(&oldest);
    }
    assert!(!queue.is_full(1 << 20));
}

#[test]
fn many_writers_get_dense_numbers_of_the_right_memtables() {
    let queue = MemtableQueue::new(ROOM, 0);
    let mut firsts: Vec<SequenceNumber> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let place = |_| {
                        let place = queue.assign(2, 64, || ());
                        let (base, cut) = (place.slot.base(), place.slot.cut());
                        assert!(base == UNKNOWN || base < place.first);
                        assert!(cut.is_none_or(|cut| place.first < cut));
                        place.first
                    };
                    (0..1000).map(place).collect::<Vec<_>>()
                })
            })
            .collect();
        writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect()
    });
    firsts.sort_unstable();
    assert!(
        firsts
            .iter()
            .enumerate()
            .all(|(index, &first)| first == 2 * index as u64 + 1)
    );
    assert_eq!(queue.last(), 8000);
}
