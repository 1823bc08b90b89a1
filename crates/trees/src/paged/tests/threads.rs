//! Tests of several threads that use one tree.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const THREADS: u64 = 4;

fn number(value: Option<Vec<u8>>) -> Option<u64> {
    value.map(|value| u64::from_le_bytes(value.try_into().unwrap()))
}

/// Lets each thread write keys of its own, while all threads increment shared counters.
fn add_up(name: &str, tree: &dyn Subject, rounds: u64) {
    let shared = 30;
    for counter in 0..shared {
        tree.insert(&key(counter << 50), &0u64.to_le_bytes()).unwrap();
    }
    let added: Vec<AtomicU64> = (0..shared).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let added = &added;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                let own = |at: u64| key(1 << 63 | (at * 0x9e37_79b9) << 8 | thread);
                let mut mine = vec![None; 600];
                for round in 0..rounds {
                    let at = rng.u64(..600);
                    match rng.u8(..8) {
                        0..3 => {
                            tree.insert(&own(at), &round.to_le_bytes()).unwrap();
                            mine[at as usize] = Some(round);
                        }
                        3 => {
                            tree.update(&own(at), &5u64.to_le_bytes()).unwrap();
                            mine[at as usize] = mine[at as usize].map(|value| value + 5);
                        }
                        4 => {
                            tree.delete(&own(at)).unwrap();
                            mine[at as usize] = None;
                        }
                        5 => {
                            let counter = rng.u64(..shared);
                            tree.update(&key(counter << 50), &1u64.to_le_bytes()).unwrap();
                            added[counter as usize].fetch_add(1, Ordering::SeqCst);
                        }
                        6 => {
                            let counter = rng.u64(..shared);
                            let before = added[counter as usize].load(Ordering::SeqCst);
                            let found = number(tree.get(&key(counter << 50)).unwrap());
                            assert!(found >= Some(before), "{name}: an addition is lost");
                        }
                        _ => assert_eq!(number(tree.get(&own(at)).unwrap()), mine[at as usize], "{name}"),
                    }
                }
                for (at, value) in mine.into_iter().enumerate() {
                    assert_eq!(number(tree.get(&own(at as u64)).unwrap()), value, "{name}");
                }
            });
        }
    });
    for (counter, added) in added.iter().enumerate() {
        let found = number(tree.get(&key((counter as u64) << 50)).unwrap());
        assert_eq!(
            found,
            Some(added.load(Ordering::SeqCst)),
            "{name}: counter {counter}"
        );
    }
    let examined = tree.examine();
    assert!(
        examined.found.is_empty() && tree.pinned() == 0,
        "{name}: {:?}",
        examined.found
    );
}

#[test]
fn threads_lose_no_message_on_any_tree() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    let only = std::env::var("ALLUVIUM_PAGED_ONLY").unwrap_or_default();
    for (name, tree) in subjects(&operator) {
        if name.contains(&only) {
            add_up(&name, &*tree, operations(8000) / THREADS);
        }
    }
}

#[test]
fn readers_see_each_key_while_messages_move() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    for (name, tree) in subjects(&operator) {
        let steady: Vec<[u8; 8]> = (0..500).map(|at: u64| key(at * 0x9e37_79b9_7f4a)).collect();
        for steady in &steady {
            tree.insert(steady, &7u64.to_le_bytes()).unwrap();
        }
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..2u64 {
                let (tree, steady, is_done, name) = (&tree, &steady, &is_done, &name);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(reader);
                    while !is_done.load(Ordering::Relaxed) {
                        let wanted = rng.choice(steady).unwrap();
                        assert_eq!(number(tree.get(wanted).unwrap()), Some(7), "{name}");
                        if rng.u8(..100) == 0 {
                            let from = Some(steady[100].to_vec());
                            let below = Some(steady[160].to_vec());
                            let pairs = tree.pairs(ScanBounds { from, below }, reader == 0);
                            let seen = pairs.iter().filter(|(_, value)| value[..] == 7u64.to_le_bytes());
                            assert_eq!(seen.count(), 60, "{name}");
                        }
                    }
                });
            }
            let mut rng = fastrand::Rng::with_seed(9);
            for _ in 0..5000 {
                tree.insert(&key(rng.u64(..500 * 0x9e37_79b9_7f4a) | 1 << 63), b"otherone")
                    .unwrap();
                tree.insert(&key(rng.u64(..500 * 0x9e37_79b9_7f4a) | 1), b"otherone")
                    .unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert!(tree.examine().found.is_empty(), "{name}");
    }
}

#[test]
fn the_frames_that_a_flush_pins_are_bounded() {
    let frontier = |order, frames| {
        let tree = BepsTree::create(
            pool(512, frames, 90, MEANS[1]),
            options(90, RootStyle::Separate, order, Arc::new(Sum)),
        )
        .unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let tree = &tree;
                scope.spawn(move || {
                    for at in 0..4000u64 {
                        let key = key((at << 8 | thread).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                        tree.insert(&key, &at.to_le_bytes()).unwrap();
                    }
                });
            }
        });
        (
            tree.statistics().most_held,
            tree.shape().most_addressed() as u64,
            tree.examine().unwrap().height,
        )
    };
    let (held, addressed, height) = frontier(FlushOrder::Level, 256);
    assert!(
        held > 3 && held <= u64::from(height) * addressed + 2,
        "{held}, {addressed}, {height}"
    );
    // In depth-first order, a flush needs two nodes on each level and the child below them, so 16
    // frames are enough for four threads.
    let (held, _, height) = frontier(FlushOrder::Depth, 48);
    assert!(held <= 2 * u64::from(height) + 1, "{held}, {height}");
}

#[test]
fn several_threads_flush_ranges_while_others_write_and_read() {
    for &means in MEANS {
        let options = options(60, RootStyle::Separate, FlushOrder::Automatic, Arc::new(Sum));
        let tree = BepsTree::create(pool(512, 192 * means.shards, 60, means), options).unwrap();
        let tree = means.couple(tree);
        let at = |number: u64| key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..6000).for_each(|number| tree.insert(&at(number), &number.to_le_bytes()).unwrap());
        let quarters = |quarter: u64| ScanBounds {
            from: (quarter > 0).then(|| key(quarter << 62).to_vec()),
            below: (quarter < 3).then(|| key((quarter + 1) << 62).to_vec()),
        };
        std::thread::scope(|scope| {
            for quarter in 0..4 {
                let tree = &tree;
                scope.spawn(move || tree.flush_within(quarters(quarter)).unwrap());
            }
            (0..3000).for_each(|number| tree.update(&at(number), &1u64.to_le_bytes()).unwrap());
            for read in 0..3000 {
                assert_eq!(number(tree.get(&at(read)).unwrap()), Some(read + 1));
            }
        });
        std::thread::scope(|scope| {
            for quarter in 0..4 {
                let tree = &tree;
                scope.spawn(move || tree.flush_within(quarters(quarter)).unwrap());
            }
        });
        let examined = tree.examine().unwrap();
        assert!(examined.found.is_empty(), "{:?}", examined.found);
        assert_eq!((examined.messages, examined.pairs), (0, 6000), "{means:?}");
        for read in 0..6000 {
            let expected = read + u64::from(read < 3000);
            assert_eq!(number(tree.get(&at(read)).unwrap()), Some(expected));
        }
    }
}
