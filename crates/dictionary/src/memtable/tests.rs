#[cfg(alluvium_model_check)]
mod model_check;

use super::*;
use crate::key::LookupKey;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind};
use std::collections::BTreeMap;

type Reference = BTreeMap<Vec<u8>, BTreeMap<SequenceNumber, (MessageKind, Vec<u8>)>>;

fn random_key(random: &mut fastrand::Rng) -> Vec<u8> {
    let shared: &[u8] = [&b""[..], b"keyspace-", b"keyspace-0000000", b"z"][random.usize(..4)];
    let mut key = shared.to_vec();
    key.extend((0..random.usize(..4)).map(|_| random.u8(b'a'..b'e')));
    if random.u8(..8) == 0 {
        key.push(0);
    }
    key
}

/// Checks every read against the reference model.
fn compare(memtable: &Memtable, reference: &Reference, at: SequenceNumber) {
    let wanted = |versions: &BTreeMap<SequenceNumber, (MessageKind, Vec<u8>)>| -> Vec<(SequenceNumber, MessageKind, Vec<u8>)> {
        versions
            .range(..=at)
            .rev()
            .map(|(&sequence, (kind, operand))| (sequence, *kind, operand.clone()))
            .collect()
    };
    let found = |versions: KeyVersionIter<'_>| -> Vec<(SequenceNumber, MessageKind, Vec<u8>)> {
        versions
            .map(|message| (message.sequence, message.kind, message.operand.to_vec()))
            .collect()
    };
    let mut cursor = memtable.cursor();
    cursor.first();
    for (key, versions) in reference {
        assert_eq!(found(memtable.get(LookupKey::new(key), at)), wanted(versions));
        assert_eq!(cursor.key(), Some(&key[..]));
        assert_eq!(found(cursor.versions(at)), wanted(versions));
        cursor.next();
    }
    assert_eq!(cursor.key(), None);
    cursor.last();
    for key in reference.keys().rev() {
        assert_eq!(cursor.key(), Some(&key[..]));
        cursor.previous();
    }
    assert_eq!(cursor.key(), None);
}

#[test]
fn it_answers_like_a_sorted_map_of_versions() {
    let mut memtable = Memtable::new(4 << 20);
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        // The next memtable reuses this one's memory, with its content still there.
        memtable = memtable.cleared();
        assert!(memtable.is_empty());
        let mut reference = Reference::new();
        let mut sequences: Vec<SequenceNumber> = (1..=3000).collect();
        if seed % 2 == 0 {
            random.shuffle(&mut sequences);
        }
        for &sequence in &sequences {
            let key = random_key(&mut random);
            let operand = vec![sequence as u8; random.usize(..20)];
            let message = match random.u8(..3) {
                0 => Message::put(sequence, &operand),
                1 => Message::delete(sequence),
                _ => Message::merge(sequence, &operand),
            };
            memtable.insert(&key, message).unwrap();
            reference
                .entry(key)
                .or_default()
                .insert(sequence, (message.kind, message.operand.to_vec()));
        }
        assert_eq!(memtable.len(), 3000);
        compare(&memtable, &reference, MAX_SEQUENCE);
        compare_seeks(&memtable, &reference, &mut random);
    }
}

fn compare_seeks(memtable: &Memtable, reference: &Reference, random: &mut fastrand::Rng) {
    let mut cursor = memtable.cursor();
    for _ in 0..500 {
        let key = random_key(random);
        cursor.seek(&key);
        assert_eq!(
            cursor.key(),
            reference.range(key.clone()..).next().map(|(key, _)| &key[..]),
            "seek {key:?}"
        );
        cursor.seek_back(&key);
        assert_eq!(
            cursor.key(),
            reference
                .range(..=key.clone())
                .next_back()
                .map(|(key, _)| &key[..]),
            "back {key:?}"
        );
    }
}

#[test]
fn older_snapshots_see_older_versions() {
    let memtable = Memtable::new(1 << 20);
    let mut reference = Reference::new();
    for sequence in 1..=2000 {
        let key = vec![(sequence % 97) as u8; 3];
        memtable
            .insert(&key, Message::put(sequence, &sequence.to_le_bytes()))
            .unwrap();
        reference
            .entry(key)
            .or_default()
            .insert(sequence, (MessageKind::Put, sequence.to_le_bytes().to_vec()));
    }
    for at in [1, 96, 97, 98, 1000, 1999, 2000] {
        let visible = |key: &[u8]| {
            memtable
                .get(LookupKey::new(key), at)
                .next()
                .map(|message| message.sequence)
        };
        for (key, versions) in &reference {
            assert_eq!(
                visible(key),
                versions.range(..=at).next_back().map(|(&sequence, _)| sequence)
            );
        }
    }
}

#[test]
fn keys_in_order_leave_full_leaves() {
    let memtable = Memtable::new(8 << 20);
    for sequence in 1..=20_000u64 {
        memtable
            .insert(&sequence.to_be_bytes(), Message::put(sequence, b""))
            .unwrap();
    }
    let records = 20_000 * MemtableArena::cost(&[0; 8], b"");
    let leaves = 20_000 / node::FANOUT * NodeBankKind::Leaf.bytes();
    // A lane reserves only a small fraction of the limit.
    let bytes = memtable.bytes() - memtable.limit() / 256;
    assert!(
        bytes < records + leaves * 11 / 10,
        "{bytes} bytes for {records} of records and {leaves} of full leaves"
    );
}

#[test]
fn it_is_full_before_it_holds_more_than_its_limit_and_then_changes_nothing() {
    let mut random = fastrand::Rng::with_seed(3);
    let memtable = Memtable::new(256 << 10);
    let mut inserted = 0;
    loop {
        let key: Vec<u8> = (0..24).map(|_| random.u8(..)).collect();
        if memtable.insert(&key, Message::put(inserted + 1, &[7; 100])) == Err(MemtableFull) {
            assert!(memtable.get(LookupKey::new(&key), MAX_SEQUENCE).next().is_none());
            break;
        }
        inserted += 1;
        assert!(memtable.bytes() <= memtable.limit());
    }
    assert_eq!(memtable.len() as u64, inserted);
    assert!(
        memtable.bytes() > memtable.limit() * 9 / 10,
        "{} of {}",
        memtable.bytes(),
        memtable.limit()
    );
    let mut cursor = memtable.cursor();
    cursor.first();
    let mut seen = 0;
    while cursor.key().is_some() {
        seen += 1;
        cursor.next();
    }
    assert_eq!(seen, inserted);
}

#[test]
fn range_deletes_cover_what_a_list_of_them_covers() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let memtable = Memtable::new(1 << 20);
        let mut list = Vec::new();
        for sequence in 1..=60u64 {
            let (start, end) = (random_key(&mut random), random_key(&mut random));
            memtable.delete_range(&start, &end, sequence).unwrap();
            list.push((start, end, sequence));
        }
        for _ in 0..500 {
            let (key, at) = (random_key(&mut random), random.u64(..62));
            let covers = |(start, end, sequence): &&(Vec<u8>, Vec<u8>, SequenceNumber)| {
                *start <= key && key < *end && *sequence <= at
            };
            let wanted = list.iter().filter(covers).map(|(_, _, sequence)| *sequence).max();
            assert_eq!(memtable.range_deleted(&key, at), wanted);
        }
    }
}

#[test]
fn a_great_many_range_deletes_are_added_in_time_and_bounded_in_bytes() {
    let mut random = fastrand::Rng::with_seed(7);
    let memtable = Memtable::new(4 << 20);
    let mut list: Vec<(u32, u32, SequenceNumber)> = Vec::new();
    for sequence in 1.. {
        let start = random.u32(..1 << 24);
        let end = start + random.u32(1..1 << 8);
        let bytes = memtable.bytes();
        if memtable.delete_range(&start.to_be_bytes(), &end.to_be_bytes(), sequence) == Err(MemtableFull) {
            assert_eq!(memtable.bytes(), bytes, "nothing was changed");
            break;
        }
        list.push((start, end, sequence));
        assert!(memtable.bytes() <= memtable.limit());
    }
    assert!(list.len() > 10_000, "{} range deletes", list.len());
    assert_eq!(memtable.range_deletes().len(), list.len());
    for _ in 0..300 {
        let &(start, end, _) = &list[random.usize(..list.len())];
        let (key, at) = (random.u32(start - 1..=end), random.u64(..list.len() as u64));
        let covers = |range: &&(u32, u32, SequenceNumber)| range.0 <= key && key < range.1 && range.2 <= at;
        let wanted = list.iter().filter(covers).map(|range| range.2).max();
        assert_eq!(memtable.range_deleted(&key.to_be_bytes(), at), wanted);
    }
}

#[test]
fn range_deletes_that_overlap_without_end_fill_the_memtable_and_no_more() {
    let memtable = Memtable::new(256 << 10);
    let mut added = 0u64;
    for step in 1u16.. {
        let range = ((1 << 15) - step, (1 << 15) + step);
        if memtable
            .delete_range(&range.0.to_be_bytes(), &range.1.to_be_bytes(), u64::from(step))
            .is_err()
        {
            break;
        }
        added += 1;
    }
    assert!((500..20_000).contains(&added), "{added} nested ranges");
    assert!(memtable.bytes() <= memtable.limit());
    assert_eq!(
        memtable.range_deleted(&(1u16 << 15).to_be_bytes(), MAX_SEQUENCE),
        Some(added)
    );
    assert_eq!(memtable.range_deleted(&(1u16 << 15).to_be_bytes(), 1), Some(1));
}

#[test]
fn range_deletes_fit_where_their_worst_cost_was_reserved() {
    for seed in 0..40u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let memtable = Memtable::new(1 << 20);
        let (shape, width) = (seed % 4, random.usize(1..40));
        let key = |number: u32| {
            let mut key = format!("{number:08}").into_bytes();
            key.resize(8 + width, b'x');
            key
        };
        let mut left = memtable.limit() - memtable.bytes();
        for step in 1.. {
            let (start, end) = match shape {
                0 => (0, step),
                1 => (random.u32(..1000), random.u32(1000..2000)),
                2 => (10_000_000 - step, 10_000_000 + step),
                _ => (2 * step, 2 * step + 1),
            };
            let (start, end) = (key(start), key(end));
            let cost = start.len() + end.len() + RANGE_OVERHEAD;
            if cost > left {
                break;
            }
            left -= cost;
            memtable.delete_range(&start, &end, u64::from(step)).unwrap();
        }
    }
}

#[test]
fn every_byte_is_counted_and_little_is_taken_ahead() {
    let memtable = Memtable::new(8 << 20);
    let mut records = 0;
    let mut random = fastrand::Rng::with_seed(5);
    for sequence in 1..=20_000 {
        let operand = vec![
            1;
            if random.u8(..100) == 0 {
                random.usize(..4000)
            } else {
                50
            }
        ];
        memtable
            .insert(&random.u64(..).to_be_bytes(), Message::put(sequence, &operand))
            .unwrap();
        records += MemtableArena::cost(&[0; 8], &operand);
    }
    // Random insertions leave split leaves about two thirds full, and never less than half.
    let leaves = 20_000 / (node::FANOUT / 2) * NodeBankKind::Leaf.bytes();
    let bytes = memtable.bytes();
    assert!(
        bytes >= records + leaves / 2,
        "{bytes} bytes for {records} of records"
    );
    assert!(
        bytes < records + records / 50 + leaves + leaves / 16 + memtable.limit() / 256,
        "{bytes} bytes for {records} of records and at most {leaves} of leaves"
    );
}

#[test]
fn writers_that_fill_it_together_never_exceed_the_limit_and_lose_nothing() {
    for limit in [64 << 10, 256 << 10, 1 << 20] {
        let memtable = Memtable::new(limit);
        let taken: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8u64)
                .map(|thread| {
                    let memtable = &memtable;
                    scope.spawn(move || {
                        let mut taken = Vec::new();
                        for at in 0.. {
                            let number = (at * 8 + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                            let message = Message::put(at * 8 + thread + 1, &[7; 60]);
                            if memtable.insert(&number.to_be_bytes(), message).is_err() {
                                break;
                            }
                            taken.push(number);
                            assert!(memtable.bytes() <= limit);
                        }
                        taken
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let mut taken: Vec<u64> = taken.into_iter().flatten().collect();
        taken.sort_unstable();
        assert_eq!(memtable.len(), taken.len());
        let mut cursor = memtable.cursor();
        cursor.first();
        for number in &taken {
            assert_eq!(cursor.key(), Some(&number.to_be_bytes()[..]));
            cursor.next();
        }
        assert_eq!(cursor.key(), None);
        assert!(
            memtable.bytes() > limit / 2,
            "{} of {limit} bytes",
            memtable.bytes()
        );
    }
}

#[test]
fn a_reader_waits_for_no_writer() {
    let memtable = Memtable::new(8 << 20);
    for number in 1..=20_000u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        memtable.insert(&key, Message::put(number, b"v")).unwrap();
    }
    // Writers lock every node from the root to the first leaf and to the last leaf, and then stop.
    let mut held = vec![memtable.root_view().unwrap()];
    for choose_last in [false, true] {
        let mut node = held[0];
        while !node.is_leaf() {
            let last = node.count() - 1;
            node = memtable.view(node.child(if choose_last { last } else { 0 }));
            held.push(node);
        }
    }
    assert!(held.len() >= 5);
    for node in &held {
        node.lock().unwrap();
    }
    let mut cursor = memtable.cursor();
    cursor.first();
    let mut seen = 0;
    while let Some(key) = cursor.key() {
        assert_eq!(memtable.get(LookupKey::new(key), MAX_SEQUENCE).count(), 1);
        seen += 1;
        cursor.next();
    }
    cursor.last();
    assert!(cursor.key().is_some());
    assert_eq!(seen, 20_000);
}

#[test]
fn many_writers_and_readers_lose_nothing() {
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    let memtable = Memtable::new(32 << 20);
    let key = |number: u64| {
        let mut key = b"shared-".to_vec();
        key.extend(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let memtable = &memtable;
            scope.spawn(move || {
                for at in 0..EACH {
                    let number = at * THREADS + thread;
                    // Inserts every key twice, first the newer version and then the older one.
                    memtable
                        .insert(&key(number), Message::put(2 * number + 2, b"new"))
                        .unwrap();
                    memtable
                        .insert(&key(number), Message::put(2 * number + 1, b"old"))
                        .unwrap();
                    let mine: Vec<_> = memtable
                        .get(LookupKey::new(&key(number)), MAX_SEQUENCE)
                        .map(|message| message.operand)
                        .collect();
                    assert_eq!(mine, [b"new", b"old"]);
                }
            });
        }
        let memtable = &memtable;
        scope.spawn(move || {
            for _ in 0..20 {
                let mut cursor = memtable.cursor();
                cursor.first();
                let mut last: Option<&[u8]> = None;
                while let Some(key) = cursor.key() {
                    assert!(last < Some(key), "the keys ascend");
                    last = Some(key);
                    cursor.next();
                }
                cursor.last();
                let mut last: Option<&[u8]> = None;
                while let Some(key) = cursor.key() {
                    assert!(last.is_none_or(|last| key < last), "the keys descend");
                    last = Some(key);
                    cursor.previous();
                }
            }
        });
    });
    assert_eq!(memtable.len() as u64, 2 * THREADS * EACH);
    for number in 0..THREADS * EACH {
        assert_eq!(
            memtable.get(LookupKey::new(&key(number)), MAX_SEQUENCE).count(),
            2
        );
    }
}

#[test]
fn memory_is_provided_ahead_of_writers_and_no_more_than_will_be_taken() {
    let slices = |memtable: &Memtable, most| (0..100).take_while(|_| memtable.provide(most)).count();
    let memtable = Memtable::new(64 << 20);
    assert_eq!(slices(&memtable, 64 << 20), 1, "who has taken little gets little");
    let mut sequence = 0;
    let mut insert = |mebibytes: usize| {
        for _ in 0..mebibytes {
            sequence += 1;
            let message = Message::put(sequence, &[7; 1 << 20]);
            memtable.insert(&sequence.to_be_bytes(), message).unwrap();
        }
    };
    insert(1);
    assert_eq!(slices(&memtable, 64 << 20), 2, "4 MiB more");
    insert(9);
    assert_eq!(
        slices(&memtable, 64 << 20),
        5,
        "8 MiB beyond those 10, from where writers are by now"
    );
    insert(10);
    assert_eq!(slices(&memtable, 24 << 20), 2, "no more than is wanted");
    assert_eq!(slices(&memtable, 24 << 20), 0);
    let cleared = memtable.cleared();
    assert_eq!(slices(&cleared, 24 << 20), 0, "it was provided once and for all");
    let small = Memtable::new(1 << 20);
    assert_eq!(slices(&small, 1 << 20), 1);
}

#[cfg(debug_assertions)]
#[test]
fn a_reader_finds_its_version_among_many_in_a_few_steps() {
    const VERSIONS: u64 = 100_000;
    let memtable = Memtable::new(16 << 20);
    let mut random = fastrand::Rng::with_seed(3);
    let mut late = Vec::new();
    for sequence in 1..=VERSIONS {
        // Delay some messages, so that others overtake them.
        if random.u8(..20) == 0 {
            late.push(sequence);
        } else {
            memtable.insert(b"hot", Message::put(sequence, b"v")).unwrap();
        }
        if late.len() > 3 {
            for late in late.drain(..) {
                memtable.insert(b"hot", Message::put(late, b"v")).unwrap();
            }
        }
    }
    let steps = || STEPS.with(|steps| steps.replace(0));
    steps();
    for at in (1..VERSIONS - 100).step_by(97) {
        assert_eq!(
            memtable.get(LookupKey::new(b"hot"), at).next().unwrap().sequence,
            at
        );
        let steps = steps();
        assert!(steps < 4 * 17, "{steps} steps to one of {VERSIONS} versions");
    }
    assert!(memtable.get(LookupKey::new(b"hot"), 0).next().is_none());
    assert!(steps() < 4 * 17);
}
