//! Checkpoints of large trunks, and of trunks that change during the checkpoint.

use crate::alone::Alone;
use crate::schema::schema;
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_storage::NodeCodec;
use alluvium_storage::extents::{AllocationClass, ReclaimLimit};
use alluvium_storage::store::Store;
use alluvium_trees::tiered::{CheckLevel, StepProgress, TieredTree, TreeOptions, TrunkShape};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn options() -> TreeOptions {
    TreeOptions {
        shape: TrunkShape {
            fanout: 4,
            memtable: 8 << 10,
        },
        schema: schema(0, NodeCodec::None),
        ..TreeOptions::default()
    }
}

fn write(tree: &TieredTree, keys: impl Iterator<Item = Vec<u8>>) {
    let memtable = Memtable::new(8 << 20);
    let mut sequence = tree.cut();
    for key in keys {
        sequence += 1;
        memtable.insert(&key, Message::put(sequence, &[7; 100])).unwrap();
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

/// Closes and reopens the tree.
fn reopened(directory: Arc<dyn Directory>, tree: TieredTree) -> TieredTree {
    drop(tree);
    let store = Store::open(directory, &crate::world::store_options()).unwrap();
    let store = store.replay(&mut |_| Ok(())).unwrap();
    TieredTree::open_alone(Arc::new(store), options()).unwrap()
}

#[test]
fn a_trunk_of_many_nodes_with_long_keys_is_read_back() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let store = Store::create(Arc::clone(&directory), &crate::world::store_options(), b"").unwrap();
    let tree = TieredTree::create(Arc::new(store), options());
    // Separators include the long common prefix of the keys, and every trunk node has several
    // separators.
    let key = |number: u32| [&[b'k'; 6000][..], format!("{number:08}").as_bytes()].concat();
    let count = 9_000;
    for part in 0..count / 100 {
        write(&tree, (part * 100..part * 100 + 100).map(key));
        settle(&tree);
        if part % 16 == 15 {
            tree.checkpoint().unwrap();
            tree.store().reclaim(ReclaimLimit::default()).unwrap();
        }
    }
    tree.checkpoint().unwrap();
    assert!(tree.memory().trunk > 700 << 10, "{:?}", tree.memory());
    let cut = tree.cut();
    let tree = reopened(directory, tree);
    assert_eq!(tree.cut(), cut);
    assert_eq!(
        tree.check_with(CheckLevel::Trunk, &[]).unwrap(),
        Vec::<String>::new()
    );
    for number in (0..count).step_by(501) {
        let found = tree.get(&key(number), MAX_SEQUENCE, 0).unwrap();
        assert_eq!(found, Some(vec![7; 100]), "{number}");
    }
}

#[test]
fn a_checkpoint_holds_one_version_while_the_trunk_changes() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let store = Store::create(Arc::clone(&directory), &crate::world::store_options(), b"").unwrap();
    let tree = TieredTree::create(Arc::new(store), options());
    let is_over = AtomicBool::new(false);
    let key = |number: u32| format!("{:08}", number.wrapping_mul(7919) % 100_000).into_bytes();
    let checkpoints = std::thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Acquire) {
                tree.checkpoint().unwrap();
                tree.store().reclaim(ReclaimLimit::default()).unwrap();
                count += 1;
            }
            count
        });
        for part in 0..100 {
            write(&tree, (part * 100..part * 100 + 100).map(key));
            settle(&tree);
        }
        is_over.store(true, Ordering::Release);
        checkpoints.join().unwrap()
    });
    assert!(checkpoints > 1);
    assert_eq!(
        tree.check_with(CheckLevel::Trunk, &[]).unwrap(),
        Vec::<String>::new()
    );
    tree.checkpoint().unwrap();
    let tree = reopened(directory, tree);
    assert_eq!(
        tree.check_with(CheckLevel::Everything, &[]).unwrap(),
        Vec::<String>::new()
    );
    for number in (0..10_000).step_by(97) {
        assert!(
            tree.get(&key(number), MAX_SEQUENCE, 0).unwrap().is_some(),
            "{number}"
        );
    }
}
