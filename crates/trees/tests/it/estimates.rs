//! A tree's estimates of memory, compaction debt and range sizes.

use crate::alone::Alone;
use crate::schema::schema;
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::contract::Dictionary;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::NodeCodec;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::Store;
use alluvium_trees::tiered::{
    CheckLevel, MaintenanceLimits, StepProgress, TieredTree, TreeDebt, TreeOptions, TrunkShape,
};
use std::sync::Arc;

const KEYS: u32 = 20_000;

fn key(number: u32) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// Writes 500 keys out of order.
fn write(tree: &TieredTree, part: u32, message: impl Fn(u64) -> Message<'static>) {
    let memtable = Memtable::new(1 << 20);
    let mut sequence = tree.cut();
    for number in 0..500 {
        sequence += 1;
        let number = (part * 500 + number) * 7919 % KEYS;
        memtable.insert(&key(number), message(sequence)).unwrap();
    }
    let mut step = tree
        .incorporate(Arc::new(memtable), sequence, AllocationClass::Normal)
        .unwrap();
    while step.poll(100).unwrap() == StepProgress::More {}
}

fn settle(tree: &TieredTree) {
    while let Some(mut step) = tree.next_step().unwrap() {
        while step.poll(1000).unwrap() == StepProgress::More {}
    }
}

/// Deletes every key and checks that the tree becomes empty.
fn delete_all(tree: &TieredTree) {
    for part in 0..KEYS / 500 {
        write(tree, part, Message::delete);
        settle(tree);
    }
    tree.horizon().raise(tree.cut());
    let mut maintenance = MaintenanceLimits {
        is_idle: false,
        budget_bytes: u64::MAX,
        fits_cache: false,
    };
    while tree.maintain(&mut maintenance).unwrap() {
        settle(tree);
    }
}

#[test]
fn a_tree_knows_about_what_it_holds_and_what_it_owes() {
    let options = crate::world::store_options();
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").unwrap();
    let options = TreeOptions {
        shape: TrunkShape {
            fanout: 4,
            memtable: 64 << 10,
        },
        schema: schema(0, NodeCodec::None),
        ..TreeOptions::default()
    };
    let tree = TieredTree::create(Arc::new(store), options);
    let empty = tree.memory().total();
    let mut most = TreeDebt::default();
    for part in 0..KEYS / 500 {
        write(&tree, part, |sequence| Message::put(sequence, &[7; 100]));
        if tree.debt().bytes() > most.bytes() {
            most = tree.debt();
        }
        if part % 8 == 7 {
            settle(&tree);
            assert_eq!(tree.debt(), TreeDebt::default());
        }
    }
    assert!(most.pending_jobs > 0 && most.pending_bytes > 64 << 10, "{most:?}");
    let user = u64::from(KEYS) * 108;
    assert!(most.pending_bytes < 2 * user, "{most:?}");

    let everything = KeyRange::everything();
    // A range also counts the run leaves that extend beyond its ends.
    let len = tree.approximate_len(&everything).unwrap();
    assert!(len.abs_diff(u64::from(KEYS)) < u64::from(KEYS) / 10, "{len}");
    let size = tree.size_on_disk(&everything).unwrap();
    assert!(size > user && size < user + user / 2, "{size} of {user}");
    let runs = tree.longest_path() as u64;
    for (low, high) in [
        (0, 10_000),
        (2500, 7500),
        (19_000, 25_000),
        (500, 501),
        (30_000, 40_000),
    ] {
        let range = KeyRange::new(&key(low), Some(&key(high)));
        let wanted = u64::from(high.min(KEYS).saturating_sub(low));
        let found = tree.approximate_len(&range).unwrap();
        // A leaf has about 36 records. Each run on the path has one partially covered leaf at each
        // end of the range.
        assert!(
            found.abs_diff(wanted) <= wanted / 10 + 2 * 36 * runs,
            "{low} to {high}: {found}, {runs} runs"
        );
    }
    let full = tree.memory();
    assert!(
        full.trunk > 500 && full.runs > 10_000 && full.maplets > 500,
        "{full:?}"
    );
    assert!(full.total() > empty + 10_000 && full.compactions == 0, "{full:?}");
    assert_eq!(
        tree.check_with(CheckLevel::Trunk, &[]).unwrap(),
        Vec::<String>::new()
    );

    delete_all(&tree);
    assert_eq!(tree.approximate_len(&everything).unwrap(), 0);
    assert_eq!(tree.weigh(&everything).unwrap().records, 0);
    assert!(tree.memory().total() < empty + 4096, "{:?}", tree.memory());
    assert_eq!(
        tree.check_with(CheckLevel::Everything, &[]).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn different_keys_are_counted_however_often_they_were_written() {
    let options = crate::world::store_options();
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").unwrap();
    let options = TreeOptions {
        shape: TrunkShape {
            fanout: 4,
            memtable: 64 << 10,
        },
        schema: schema(0, NodeCodec::None),
        ..TreeOptions::default()
    };
    let tree = TieredTree::create(Arc::new(store), options);
    assert_eq!(tree.distinct_keys().unwrap().keys, 0.0);
    // Write all keys once, then a quarter of them four more times. Compactions are unlimited.
    let parts = KEYS / 500;
    for part in (0..parts).chain((0..parts).map(|part| part % (parts / 4))) {
        write(&tree, part, |sequence| Message::put(sequence, &[7; 100]));
        if part % 4 == 3 {
            let Some(mut step) = tree.next_step().unwrap() else {
                continue;
            };
            while step.poll(1000).unwrap() == StepProgress::More {}
        }
    }
    let everything = KeyRange::everything();
    let records = tree.holdings(&everything).unwrap().records;
    assert!(records > u64::from(KEYS) * 6 / 5, "{records}: versions are left");
    let keys = tree.distinct_keys().unwrap().keys;
    assert!((keys / f64::from(KEYS) - 1.0).abs() < 0.02, "{keys} of {KEYS}");
    settle(&tree);
    let keys = tree.distinct_keys().unwrap().keys;
    assert!((keys / f64::from(KEYS) - 1.0).abs() < 0.02, "{keys} of {KEYS}");
}

#[test]
fn a_compaction_under_way_is_counted_until_it_ends() {
    let options = crate::world::store_options();
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").unwrap();
    let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    for part in 0..20 {
        write(&tree, part, |sequence| Message::put(sequence, b"value"));
    }
    let due = tree.debt();
    assert_eq!((due.pending_jobs, due.running_jobs), (1, 0));
    let mut step = tree.next_step().unwrap().unwrap();
    step.poll(10).unwrap();
    let running = tree.debt();
    assert_eq!((running.pending_jobs, running.running_jobs), (0, 1));
    assert_eq!(running.bytes(), due.bytes());
    assert!(tree.memory().compactions > 1 << 20);
    drop(step);
    assert_eq!(tree.debt(), due);
    settle(&tree);
    assert_eq!(tree.memory().compactions, 0);
}

#[test]
fn what_is_looked_up_again_and_again_becomes_one_run() {
    let options = crate::world::store_options();
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").unwrap();
    let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    for part in 0..6 {
        write(&tree, part, |sequence| Message::put(sequence, b"value"));
    }
    settle(&tree);
    let mut maintenance = MaintenanceLimits {
        is_idle: false,
        budget_bytes: u64::MAX,
        fits_cache: false,
    };
    assert!(!tree.maintain(&mut maintenance).unwrap(), "there was no lookup");
    let found = || (0..KEYS).filter(|&number| tree.get(&key(number), MAX_SEQUENCE, 0).unwrap().is_some());
    assert_eq!((tree.longest_path(), found().count()), (6, 3000));
    assert!(tree.maintain(&mut maintenance).unwrap());
    settle(&tree);
    assert_eq!((tree.longest_path(), found().count()), (1, 3000));
    assert!(!tree.maintain(&mut maintenance).unwrap());
}
