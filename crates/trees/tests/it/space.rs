//! Space reclamation.

use crate::alone::Alone;
use crate::schema::{schema, schema_with};
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::AppendOperator;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceSchema, OneKeyspace};
use alluvium_storage::NodeCodec;
use alluvium_storage::extents::{AllocationClass, ReclaimLimit};
use alluvium_storage::store::Store;
use alluvium_trees::tiered::{CheckLevel, StepProgress, TieredTree, TreeOptions, TrunkShape};
use std::sync::Arc;

const KEYS: u32 = 400;

fn key(number: u32) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn write(tree: &TieredTree, numbers: impl Iterator<Item = u32>, value: &[u8]) {
    let memtable = Memtable::new(64 << 20);
    let mut sequence = tree.cut();
    for number in numbers {
        sequence += 1;
        memtable
            .insert(&key(number), Message::put(sequence, value))
            .unwrap();
    }
    let mut step = tree
        .incorporate(Arc::new(memtable), sequence, AllocationClass::Normal)
        .unwrap();
    while step.poll(100).unwrap() == StepProgress::More {}
    tree.horizon().raise(tree.cut());
}

fn compact(tree: &TieredTree) {
    tree.compact_fully(b"").unwrap();
    while let Some(mut step) = tree.next_step().unwrap() {
        while step.poll(1000).unwrap() == StepProgress::More {}
    }
}

/// Returns the number of bytes in extents that are in use.
fn live_extents(tree: &TieredTree) -> u64 {
    tree.store().usage().0.total().live_extent_bytes
}

/// Overwrites nine in ten of each extent's values with short ones, and checks that the extents are
/// freed.
fn mostly_overwritten(len: usize) {
    let options = crate::world::store_options();
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").unwrap();
    let options = TreeOptions {
        schema: schema(0, NodeCodec::None),
        ..TreeOptions::default()
    };
    let tree = TieredTree::create(Arc::new(store), options);
    write(&tree, 0..KEYS, &vec![7; len]);
    compact(&tree);
    let all = live_extents(&tree);
    assert!(all >= u64::from(KEYS) * len as u64);
    write(&tree, (0..KEYS).filter(|number| number % 10 > 0), b"short");
    // The first compaction finds out how little of each extent is live. The second rewrites that
    // rest and frees the extents.
    compact(&tree);
    assert!(live_extents(&tree) > all * 9 / 10);
    compact(&tree);
    assert!(live_extents(&tree) < all / 4, "{} of {all}", live_extents(&tree));
    // Dense extents are still passed on by reference.
    let written = tree.stats().compacted_bytes;
    compact(&tree);
    let again = tree.stats().compacted_bytes - written;
    assert!(again < all / 20, "{again} of {all}");
    for number in 0..KEYS {
        let wanted = if number % 10 == 0 {
            vec![7; len]
        } else {
            b"short".to_vec()
        };
        assert_eq!(
            tree.get(&key(number), MAX_SEQUENCE, 0).unwrap(),
            Some(wanted),
            "{number}"
        );
    }
    assert_eq!(
        tree.check_with(CheckLevel::Everything, &[]).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn the_space_of_values_comes_back_when_most_of_their_extents_is_dead() {
    mostly_overwritten(20_000);
}

#[test]
fn the_space_of_long_values_comes_back_when_most_of_their_extents_is_dead() {
    mostly_overwritten(100_000);
}

/// Returns an empty tree with this fan-out, for memtables of 100 KiB.
fn empty(fanout: usize) -> TieredTree {
    empty_with(fanout, Arc::new(OneKeyspace::default()))
}

fn empty_with(fanout: usize, schema: Arc<dyn KeyspaceSchema>) -> TieredTree {
    let store = Store::create(
        Arc::new(MemoryDirectory::new()),
        &crate::world::store_options(),
        b"",
    );
    let options = TreeOptions {
        shape: TrunkShape {
            fanout,
            memtable: 100 << 10,
        },
        schema,
        ..TreeOptions::default()
    };
    TieredTree::create(Arc::new(store.unwrap()), options)
}

/// Runs the compactions that are due.
fn work(tree: &TieredTree) {
    while let Some(mut job) = tree.next_job().unwrap() {
        while job.poll(10_000).unwrap() == StepProgress::More {}
    }
}

#[test]
fn keys_that_are_overwritten_evenly_keep_few_older_versions() {
    const EVEN: u32 = 12_000;
    const AT_ONCE: u32 = 200;
    let tree = empty(8);
    let mut random = fastrand::Rng::with_seed(5);
    let mut all: Vec<u32> = (0..EVEN).collect();
    random.shuffle(&mut all);
    for some in all.chunks(AT_ONCE as usize) {
        write(&tree, some.iter().copied(), &[1; 500]);
        work(&tree);
    }
    let mut taken = Vec::new();
    for turn in 0..6 * EVEN / AT_ONCE {
        write(&tree, (0..AT_ONCE).map(|_| random.u32(..EVEN)), &[2; 500]);
        work(&tree);
        // By now, each key has been overwritten about twice.
        if turn >= 2 * EVEN / AT_ONCE {
            let records = tree.weigh(&KeyRange::everything()).unwrap().records;
            taken.push(100 * records / u64::from(EVEN));
        }
    }
    let mean = taken.iter().sum::<u64>() / taken.len() as u64;
    assert!(mean < 200, "{mean} records for a hundred keys: {taken:?}");
    let stats = tree.stats();
    let written = 100 * stats.compacted_bytes / (u64::from(7 * EVEN) * 508);
    assert!(written < 300, "{written} bytes for a hundred");
    assert_eq!(
        tree.check_with(CheckLevel::Everything, &[]).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn what_is_loaded_in_order_is_written_once_and_every_lookup_asks_one_run() {
    const AT_ONCE: u32 = 250;
    let tree = empty(4);
    let count = 100 * AT_ONCE;
    for first in (0..count).step_by(AT_ONCE as usize) {
        write(&tree, first..first + AT_ONCE, &[3; 500]);
        work(&tree);
    }
    let stats = tree.stats();
    assert_eq!(stats.compacted_bytes, 0, "{stats:?}");
    assert!(
        stats.shape.leaf_splits > 5 && stats.shape.adoptions > 50,
        "{stats:?}"
    );
    assert_eq!((tree.height() > 1, tree.longest_path()), (true, 1));
    for number in (0..count).step_by(7) {
        let found = tree.get(&key(number), MAX_SEQUENCE, 0).unwrap();
        assert_eq!(found.as_deref(), Some(&[3; 500][..]), "{number}");
    }
    // Writes to keys in between end up in newer runs and are found first.
    write(&tree, (0..count).step_by(10), &[4; 5]);
    work(&tree);
    for number in (0..count).step_by(5) {
        let found = tree.get(&key(number), MAX_SEQUENCE, 0).unwrap();
        let expected = if number % 10 == 0 {
            vec![4; 5]
        } else {
            vec![3; 500]
        };
        assert_eq!(found, Some(expected), "{number}");
    }
    assert_eq!(
        tree.check_with(CheckLevel::Everything, &[]).unwrap(),
        Vec::<String>::new()
    );
}

/// Overwrites one key a million times, with snapshots at the given sequence numbers. Returns the
/// number of records left, and of bytes on disk.
fn overwritten(snapshots: &[u64]) -> (u64, u64) {
    const MEMTABLES: u64 = 50;
    const EACH: u64 = 20_000;
    let tree = empty_with(4, schema(0, NodeCodec::None));
    let value = |sequence: u64| sequence.to_be_bytes().repeat(5);
    let mut sequence = 0;
    let mut memtable = Memtable::new(8 << 20);
    for _ in 0..MEMTABLES {
        for _ in 0..EACH {
            sequence += 1;
            let value = value(sequence);
            let message = match sequence % 3 {
                0 => Message::merge(sequence, b"m"),
                _ => Message::put(sequence, &value),
            };
            memtable.insert(b"hot", message).unwrap();
        }
        let open = snapshots.iter().copied().filter(|&at| at <= sequence);
        tree.horizon().raise_past(open, sequence);
        let sealed = Arc::new(memtable);
        let mut step = tree
            .incorporate(Arc::clone(&sealed), sequence, AllocationClass::Normal)
            .unwrap();
        while step.poll(1000).unwrap() == StepProgress::More {}
        drop(step);
        work(&tree);
        tree.checkpoint().unwrap();
        tree.store().reclaim(ReclaimLimit::default()).unwrap();
        memtable = Arc::into_inner(sealed).expect("it is written out").cleared();
    }
    for &at in snapshots.iter().chain([&MAX_SEQUENCE]) {
        let newest = at.min(sequence);
        let wanted = match newest % 3 {
            0 => Some([value(newest - 1), b"m".to_vec()].concat()),
            _ => Some(value(newest)),
        };
        let operator = AppendOperator;
        let mut gather = LookupState::new(at, 0, Some(&operator));
        lookup::gather(&tree.reader(), LookupKey::new(b"hot"), &mut gather).unwrap();
        assert_eq!(gather.finish(), wanted, "at {at}");
    }
    assert_eq!(
        tree.check_with(CheckLevel::Everything, &[]).unwrap(),
        Vec::<String>::new()
    );
    let records = tree.count_records().unwrap();
    (
        records.iter().map(|(_, counted)| counted).sum(),
        live_extents(&tree),
    )
}

#[test]
fn overwrites_take_no_space_while_snapshots_are_held() {
    let (records, bytes) = overwritten(&[]);
    let (held, bytes_held) = overwritten(&[10_001, 10_002, 500_000, 900_000]);
    assert!(held <= records + 8, "{held} records, {records} without snapshots");
    assert!(
        bytes_held <= 2 * bytes && bytes_held < 10 << 20,
        "{bytes_held} bytes, {bytes} without snapshots"
    );
}

#[test]
fn what_is_left_of_a_well_compressed_node_is_known_to_be_needed() {
    // A tiny value's share of its node rounds down to zero bytes.
    let options = crate::world::store_options();
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").unwrap();
    let options = TreeOptions {
        schema: schema_with(0, NodeCodec::Zstd, Some(0)),
        ..TreeOptions::default()
    };
    let tree = TieredTree::create(Arc::new(store), options);
    let check = || {
        assert_eq!(
            tree.check_with(CheckLevel::Everything, &[]).unwrap(),
            Vec::<String>::new()
        );
    };
    let write = |cut: u64, messages: &dyn Fn(&Memtable)| {
        let memtable = Memtable::new(1 << 20);
        messages(&memtable);
        let mut step = tree
            .incorporate(Arc::new(memtable), cut, AllocationClass::Normal)
            .unwrap();
        while step.poll(100).unwrap() == StepProgress::More {}
        tree.horizon().raise(cut);
        compact(&tree);
        check();
    };
    let mut random = fastrand::Rng::with_seed(4);
    let mut noise = || {
        std::iter::repeat_with(|| random.u8(..))
            .take(250)
            .collect::<Vec<u8>>()
    };
    let values: Vec<Vec<u8>> = (0..400).map(|_| noise()).collect();
    write(402, &|memtable| {
        for (number, value) in (1..).zip(&values) {
            let key = format!("a{number:03}");
            memtable
                .insert(key.as_bytes(), Message::put(number, value))
                .unwrap();
        }
        memtable.insert(b"b", Message::put(401, &[0; 3000])).unwrap();
        memtable.insert(b"c", Message::put(402, b"x")).unwrap();
    });
    write(403, &|memtable| memtable.delete_range(b"a", b"c", 403).unwrap());
    assert_eq!(tree.get(b"c", MAX_SEQUENCE, 0).unwrap(), Some(b"x".to_vec()));
    write(404, &|memtable| {
        memtable.insert(b"c", Message::delete(404)).unwrap();
    });
    assert_eq!(tree.get(b"c", MAX_SEQUENCE, 0).unwrap(), None);
}
