//! Memtable tests for the model checker, which explores all interleavings of the memtable's
//! atomics:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" cargo test --release -p alluvium-dictionary --lib model_check
//! ```
//!
//! Nodes have only four slots there, so that a few keys suffice to split leaves and grow the root.

use super::super::*;
use crate::key::LookupKey;
use crate::sync::{AtomicU64, Ordering};
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use std::sync::Arc;

fn check(iterations: usize, story: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(story, iterations);
}

#[test]
fn model_check_writers_that_split_the_same_nodes_lose_nothing() {
    check(5_000, || {
        let memtable = Arc::new(Memtable::new(64 << 10));
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let memtable = Arc::clone(&memtable);
                shuttle::thread::spawn(move || {
                    for number in 0..6u64 {
                        let sequence = 2 * number + writer + 1;
                        memtable
                            .insert(&sequence.to_be_bytes(), Message::put(sequence, b"v"))
                            .unwrap();
                        assert_eq!(
                            memtable
                                .get(LookupKey::new(&sequence.to_be_bytes()), MAX_SEQUENCE)
                                .count(),
                            1,
                            "a writer reads its own"
                        );
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        let mut cursor = memtable.cursor();
        cursor.first();
        for sequence in 1..=12u64 {
            assert_eq!(cursor.key(), Some(&sequence.to_be_bytes()[..]));
            cursor.next();
        }
        assert_eq!(cursor.key(), None);
    });
}

#[test]
fn model_check_a_reader_never_misses_what_was_there_before_it_began() {
    check(5_000, || {
        let memtable = Arc::new(Memtable::new(64 << 10));
        for sequence in [2u64, 4, 6, 8] {
            memtable
                .insert(&sequence.to_be_bytes(), Message::put(sequence, b"v"))
                .unwrap();
        }
        let writer = {
            let memtable = Arc::clone(&memtable);
            shuttle::thread::spawn(move || {
                for sequence in [1u64, 3, 5, 7, 9] {
                    memtable
                        .insert(&sequence.to_be_bytes(), Message::put(sequence, b"v"))
                        .unwrap();
                }
            })
        };
        let mut cursor = memtable.cursor();
        cursor.first();
        let mut seen = Vec::new();
        while let Some(key) = cursor.key() {
            seen.push(u64::from_be_bytes(key.try_into().unwrap()));
            cursor.next();
        }
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
        assert!(
            [2, 4, 6, 8].iter().all(|wanted| seen.contains(wanted)),
            "{seen:?}"
        );
        cursor.last();
        let mut back = Vec::new();
        while let Some(key) = cursor.key() {
            back.push(u64::from_be_bytes(key.try_into().unwrap()));
            cursor.previous();
        }
        assert!(back.windows(2).all(|pair| pair[0] > pair[1]), "{back:?}");
        assert!(
            [2, 4, 6, 8].iter().all(|wanted| back.contains(wanted)),
            "{back:?}"
        );
        writer.join().unwrap();
    });
}

#[test]
fn model_check_versions_of_one_key_stay_in_order_whoever_comes_first() {
    check(5_000, || {
        let memtable = Arc::new(Memtable::new(64 << 10));
        let writers: Vec<_> = [[3u64, 2], [4, 1]]
            .into_iter()
            .map(|sequences| {
                let memtable = Arc::clone(&memtable);
                shuttle::thread::spawn(move || {
                    for sequence in sequences {
                        memtable.insert(b"key", Message::put(sequence, b"v")).unwrap();
                    }
                })
            })
            .collect();
        let during: Vec<_> = memtable
            .get(LookupKey::new(b"key"), MAX_SEQUENCE)
            .map(|message| message.sequence)
            .collect();
        assert!(during.windows(2).all(|pair| pair[0] > pair[1]), "{during:?}");
        for writer in writers {
            writer.join().unwrap();
        }
        let after: Vec<_> = memtable
            .get(LookupKey::new(b"key"), MAX_SEQUENCE)
            .map(|message| message.sequence)
            .collect();
        assert_eq!(after, [4, 3, 2, 1]);
    });
}

#[test]
fn model_check_more_writers_than_lanes_lose_nothing_and_count_every_record() {
    check(3_000, || {
        let memtable = Arc::new(Memtable::new(64 << 10));
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let memtable = Arc::clone(&memtable);
                shuttle::thread::spawn(move || {
                    for number in 0..3u64 {
                        let sequence = 3 * number + writer + 1;
                        memtable
                            .insert(&sequence.to_be_bytes(), Message::put(sequence, b"v"))
                            .unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(memtable.len(), 9);
        for sequence in 1..=9u64 {
            assert_eq!(
                memtable
                    .get(LookupKey::new(&sequence.to_be_bytes()), MAX_SEQUENCE)
                    .count(),
                1
            );
        }
    });
}

#[test]
fn model_check_what_was_acknowledged_before_a_reader_began_is_seen_in_the_midst_of_splits() {
    let story = || {
        let memtable = Arc::new(Memtable::new(64 << 10));
        for number in [10u64, 20, 30, 40] {
            memtable
                .insert(&number.to_be_bytes(), Message::put(number, b"v"))
                .unwrap();
        }
        let acknowledged = Arc::new(AtomicU64::new(0));
        // Whatever the order of the writers, the fifth key splits the first leaf, and the others
        // end up on either side of it.
        let writers: Vec<_> = [[15u64, 41], [35, 42]]
            .into_iter()
            .map(|numbers| {
                let (memtable, acknowledged) = (Arc::clone(&memtable), Arc::clone(&acknowledged));
                shuttle::thread::spawn(move || {
                    for number in numbers {
                        memtable
                            .insert(&number.to_be_bytes(), Message::put(number, b"v"))
                            .unwrap();
                        acknowledged.fetch_or(1 << number, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let before = acknowledged.load(Ordering::SeqCst);
            let wanted: Vec<u64> = (0..64).filter(|number| before >> number & 1 == 1).collect();
            let mut cursor = memtable.cursor();
            let (mut forward, mut back) = (0u64, 0u64);
            cursor.first();
            while let Some(key) = cursor.key() {
                forward |= 1 << u64::from_be_bytes(key.try_into().unwrap());
                cursor.next();
            }
            cursor.last();
            while let Some(key) = cursor.key() {
                back |= 1 << u64::from_be_bytes(key.try_into().unwrap());
                cursor.previous();
            }
            let always = 1 << 10 | 1 << 20 | 1 << 30 | 1 << 40;
            assert_eq!(forward & (before | always), before | always, "{wanted:?}");
            assert_eq!(back & (before | always), before | always, "{wanted:?}");
            for number in wanted {
                assert_eq!(
                    memtable
                        .get(LookupKey::new(&number.to_be_bytes()), MAX_SEQUENCE)
                        .count(),
                    1
                );
            }
        }
        for writer in writers {
            writer.join().unwrap();
        }
    };
    shuttle::check_random(story, 5_000);
    shuttle::check_pct(story, 5_000, 3);
}
