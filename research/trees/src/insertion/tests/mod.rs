//! Compares the tree with an ordered map, with every policy, and on failing devices.

mod rates;

use super::*;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{InjectedFault, SimDirectory};
use alluvium_device::{DeviceOperation, Directory, FileOptions};

const POLICIES: [FlushPolicy; 5] = [
    FlushPolicy::None,
    FlushPolicy::FullestBin,
    FlushPolicy::RandomBall,
    FlushPolicy::GoldenGate,
    FlushPolicy::RandomWalk,
];

/// A buffer of 60 records in front of leaves of 20, with pages of 1 KiB.
fn options(policy: FlushPolicy) -> InsertionOptions {
    InsertionOptions {
        page_bytes: 1024,
        leaf_records: 20,
        waiting_records: if policy == FlushPolicy::None { 0 } else { 60 },
        policy,
        absorption: AbsorptionMode::Off,
        leaves_in_memory: 0,
        seed: 1,
    }
}

fn file() -> Arc<dyn Device> {
    MemoryDirectory::new()
        .create("leaves", FileOptions::DIRECT)
        .unwrap()
}

fn all(tree: &mut InsertionTree) -> Vec<LeafRecord> {
    tree.scan(&[], usize::MAX).unwrap()
}

#[test]
fn a_tree_answers_like_an_ordered_map_with_every_policy() {
    for policy in POLICIES {
        for (absorption, leaves_in_memory) in [
            (AbsorptionMode::Off, 0),
            (AbsorptionMode::Off, 7),
            (AbsorptionMode::On, 7),
        ] {
            let options = InsertionOptions {
                absorption,
                leaves_in_memory,
                ..options(policy)
            };
            let mut tree = InsertionTree::new(file(), options).unwrap();
            let mut plain: BTreeMap<Box<[u8]>, Box<[u8]>> = BTreeMap::new();
            let mut random = SplitMix64::from_seed(3);
            for step in 0..6000 {
                // Keys of 0 to 40 bytes, which leaves of 1 KiB also split by bytes.
                let key: Box<[u8]> = (0..random.below(41))
                    .map(|_| b'a' + random.below(3) as u8)
                    .collect();
                match random.below(10) {
                    0..6 => {
                        let value: Box<[u8]> = (0..random.below(90)).map(|_| random.bits() as u8).collect();
                        tree.put(&key, &value).unwrap();
                        plain.insert(key, value);
                    }
                    6..8 => {
                        let there = plain.range(key.clone()..).next().map(|(key, _)| key.clone());
                        let key = there.unwrap_or(key);
                        tree.delete(&key).unwrap();
                        plain.remove(&key);
                    }
                    8 => assert_eq!(tree.get(&key).unwrap(), plain.get(&key).cloned()),
                    _ => {
                        let wanted = plain.range(key.clone()..).take(30);
                        let wanted: Vec<LeafRecord> =
                            wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
                        assert_eq!(tree.scan(&key, 30).unwrap(), wanted);
                    }
                }
                if step % 500 == 0 {
                    let wrong = tree.check();
                    assert!(wrong.is_empty(), "{policy:?} {absorption:?}: {wrong:?}");
                }
            }
            assert!(tree.leaves() > 20 && tree.waiting() < 60, "{}", tree.leaves());
            assert!(all(&mut tree).into_iter().eq(plain));
            tree.flush_all().unwrap();
            assert_eq!(tree.waiting(), 0);
            assert!(tree.check().is_empty());
        }
    }
}

#[test]
fn each_page_that_is_read_or_written_is_counted() {
    let directory = MemoryDirectory::new();
    for (policy, leaves_in_memory) in [
        (FlushPolicy::None, 0),
        (FlushPolicy::GoldenGate, 0),
        (FlushPolicy::RandomBall, 9),
    ] {
        let device = directory.create("leaves", FileOptions::DIRECT).unwrap();
        let options = InsertionOptions {
            leaves_in_memory,
            ..options(policy)
        };
        let mut tree = InsertionTree::new(device, options).unwrap();
        let before = directory.counters().snapshot();
        let mut random = SplitMix64::from_seed(4);
        for _ in 0..2000 {
            let key = random.bits().to_be_bytes();
            tree.put(&key, &[0; 10]).unwrap();
            tree.get(&random.bits().to_be_bytes()).unwrap();
        }
        tree.flush_all().unwrap();
        let moved = directory.counters().snapshot().since(&before);
        let counts = tree.counts();
        let moved = moved.total();
        assert_eq!(
            (moved.reads, moved.writes),
            (counts.reads, counts.writes),
            "{policy:?}"
        );
        assert_eq!(counts.changes, 2000);
        if policy == FlushPolicy::None {
            assert!(counts.writes >= 2000, "a page for each record: {counts:?}");
        } else {
            assert!(counts.writes < 1500, "{counts:?}");
        }
        directory.remove("leaves").unwrap();
    }
}

#[test]
fn leaves_in_memory_absorb_what_would_wait() {
    let counts = |absorption| {
        let options = InsertionOptions {
            absorption,
            leaves_in_memory: 20,
            ..options(FlushPolicy::RandomBall)
        };
        let mut tree = InsertionTree::new(file(), options).unwrap();
        let mut random = SplitMix64::from_seed(5);
        for _ in 0..5000 {
            tree.put(&random.bits().to_be_bytes(), &[0; 10]).unwrap();
            if random.below(4) == 0 {
                tree.get(&random.bits().to_be_bytes()).unwrap();
            }
        }
        assert!(tree.check().is_empty(), "IB3");
        let counts = tree.counts();
        assert_eq!(
            counts.flushed + counts.absorbed + tree.waiting() as u64,
            counts.changes,
            "each record goes one way"
        );
        counts
    };
    let (on, off) = (counts(AbsorptionMode::On), counts(AbsorptionMode::Off));
    assert_eq!(off.absorbed, 0);
    assert!(on.absorbed > 1000 && on.flushes < off.flushes, "{on:?} {off:?}");
    assert!(on.reads + on.writes < off.reads + off.writes, "{on:?} {off:?}");
}

#[test]
fn a_device_that_fails_loses_nothing() {
    let directory = SimDirectory::new(6);
    let device = directory.create("leaves", FileOptions::DIRECT).unwrap();
    let options = InsertionOptions {
        leaves_in_memory: 3,
        ..options(FlushPolicy::FullestBin)
    };
    let mut tree = InsertionTree::new(device, options).unwrap();
    let (mut plain, mut errors) = (BTreeMap::new(), 0);
    let mut random = SplitMix64::from_seed(7);
    for step in 0..3000_u32 {
        if step % 40 == 20 {
            let operation = [DeviceOperation::Read, DeviceOperation::Write][random.below(2)];
            directory.inject(InjectedFault::failing(operation));
        }
        let key = (random.below(500) as u32).to_be_bytes();
        errors += u32::from(tree.put(&key, &step.to_be_bytes()).is_err());
        plain.insert(key, step);
    }
    directory.clear_faults();
    assert!(errors > 20, "{errors}");
    let wrong = tree.check();
    assert!(wrong.is_empty(), "{wrong:?}");
    let found = all(&mut tree).into_iter();
    let wanted = plain
        .iter()
        .map(|(key, step)| (key[..].into(), step.to_be_bytes()[..].into()));
    assert!(found.eq(wanted), "what was refused waits");
}

#[test]
fn damage_is_an_error_with_the_place() {
    let device = file();
    let mut tree = InsertionTree::new(Arc::clone(&device), options(FlushPolicy::GoldenGate)).unwrap();
    for key in 0..400_u32 {
        tree.put(&key.to_be_bytes(), b"value").unwrap();
    }
    let mut page = device.read_at(1024, 1024, Purpose::Other).unwrap();
    page[100] ^= 1;
    device.write_at(1024, page, Purpose::Other).unwrap();
    let wrong = tree.check();
    assert_eq!(wrong.len(), 1);
    assert!(
        wrong[0]
            .to_string()
            .contains("damaged node in leaves at offset 1024"),
        "{wrong:?}"
    );
    assert!(
        tree.scan(&[], 1000)
            .unwrap_err()
            .to_string()
            .contains("offset 1024")
    );
}

#[test]
fn options_that_make_no_tree_are_refused() {
    let refused = |options: InsertionOptions| match InsertionTree::new(file(), options) {
        Err(Error::BadOption { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    let good = options(FlushPolicy::RandomWalk);
    for page_bytes in [0, 700, 2 << 20] {
        assert_eq!(refused(InsertionOptions { page_bytes, ..good }), "page_bytes");
    }
    assert_eq!(
        refused(InsertionOptions {
            leaf_records: 1,
            ..good
        }),
        "leaf_records"
    );
    assert_eq!(
        refused(InsertionOptions {
            waiting_records: 0,
            ..good
        }),
        "waiting_records"
    );
    let none = options(FlushPolicy::None);
    assert_eq!(
        refused(InsertionOptions {
            waiting_records: 9,
            ..none
        }),
        "waiting_records"
    );
    let used = file();
    used.grow(512).unwrap();
    assert!(
        InsertionTree::new(used, good)
            .unwrap_err()
            .to_string()
            .contains("name an empty file")
    );
    let mut tree = InsertionTree::new(file(), good).unwrap();
    let error = tree.put(b"key", &[0; 1010]).unwrap_err().to_string();
    assert!(error.contains("take larger pages"), "{error}");
    tree.put(b"key", &[0; 1002]).unwrap();
}
