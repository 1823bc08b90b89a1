#[cfg(alluvium_model_check)]
mod model_check;

use super::*;
use alluvium_base::message::LAST;
use alluvium_base::{Kind, Message};
use std::collections::BTreeMap;

type Reference = BTreeMap<Vec<u8>, BTreeMap<Sequence, (Kind, Vec<u8>)>>;

fn random_key(random: &mut fastrand::Rng) -> Vec<u8> {
    let shared: &[u8] = [&b""[..], b"keyspace-", b"keyspace-0000000", b"z"][random.usize(..4)];
    let mut key = shared.to_vec();
    key.extend((0..random.usize(..4)).map(|_| random.u8(b'a'..b'e')));
    if random.u8(..8) == 0 {
        key.push(0);
    }
    key
}

/// Compares every read with the reference.
fn compare(memtable: &Memtable, reference: &Reference, at: Sequence) {
    let wanted = |versions: &BTreeMap<Sequence, (Kind, Vec<u8>)>| -> Vec<(Sequence, Kind, Vec<u8>)> {
        versions
            .range(..=at)
            .rev()
            .map(|(&sequence, (kind, operand))| (sequence, *kind, operand.clone()))
            .collect()
    };
    let found = |versions: Versions<'_>| -> Vec<(Sequence, Kind, Vec<u8>)> {
        versions
            .map(|message| (message.sequence, message.kind, message.operand.to_vec()))
            .collect()
    };
    let mut cursor = memtable.cursor();
    cursor.first();
    for (key, versions) in reference {
        assert_eq!(found(memtable.get(key, at)), wanted(versions));
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
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let memtable = Memtable::new(4 << 20);
        let mut reference = Reference::new();
        let mut sequences: Vec<Sequence> = (1..=3000).collect();
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
        compare(&memtable, &reference, LAST);
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
            .insert(sequence, (Kind::Put, sequence.to_le_bytes().to_vec()));
    }
    for at in [1, 96, 97, 98, 1000, 1999, 2000] {
        let visible = |key: &[u8]| memtable.get(key, at).next().map(|message| message.sequence);
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
    let full = 20_000 / node::FANOUT;
    assert!(
        memtable.nodes.count() < full * 11 / 10,
        "{} nodes for {full} full leaves",
        memtable.nodes.count()
    );
}

#[test]
fn it_is_full_before_it_holds_more_than_its_limit_and_then_changes_nothing() {
    let mut random = fastrand::Rng::with_seed(3);
    let memtable = Memtable::new(256 << 10);
    let mut inserted = 0;
    loop {
        let key: Vec<u8> = (0..24).map(|_| random.u8(..)).collect();
        if memtable.insert(&key, Message::put(inserted + 1, &[7; 100])) == Err(Full) {
            assert!(memtable.get(&key, LAST).next().is_none());
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
            let covers = |(start, end, sequence): &&(Vec<u8>, Vec<u8>, Sequence)| {
                *start <= key && key < *end && *sequence <= at
            };
            let wanted = list.iter().filter(covers).map(|(_, _, sequence)| *sequence).max();
            assert_eq!(memtable.range_deleted(&key, at), wanted);
        }
    }
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
                    // Every key twice, the older version later.
                    memtable
                        .insert(&key(number), Message::put(2 * number + 2, b"new"))
                        .unwrap();
                    memtable
                        .insert(&key(number), Message::put(2 * number + 1, b"old"))
                        .unwrap();
                    let mine: Vec<_> = memtable
                        .get(&key(number), LAST)
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
            }
        });
    });
    assert_eq!(memtable.len() as u64, 2 * THREADS * EACH);
    for number in 0..THREADS * EACH {
        assert_eq!(memtable.get(&key(number), LAST).count(), 2);
    }
}
