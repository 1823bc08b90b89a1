//! Leaves that compactions of the tiered tree adopt without reading them. Compares the bytes
//! written and read for sequential, random and mixed loads, with and without adoption.

use crate::alone::Alone;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, Purpose};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::{AllocationClass, ReclaimLimit, UNIT};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_trees::tiered::{AdoptionPolicy, CheckLevel, StepProgress, TieredTree, TreeOptions, TrunkShape};
use std::collections::BTreeMap;
use std::sync::Arc;

const MEMTABLE: u64 = 256 << 10;

/// A tree and its expected contents.
struct Loaded {
    directory: Arc<dyn Directory>,
    tree: TieredTree,
    memtable: Arc<Memtable>,
    filled: u64,
    written: u64,
    sequence: u64,
    expected: BTreeMap<u64, u8>,
}

fn options(adoption: AdoptionPolicy) -> TreeOptions {
    TreeOptions {
        shape: TrunkShape {
            fanout: 4,
            memtable: MEMTABLE,
        },
        fingerprint_bits: 28,
        adoption,
        ..TreeOptions::default()
    }
}

fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes: 1 << 20,
        ..StoreOptions::default()
    }
}

impl Loaded {
    fn new(adoption: AdoptionPolicy) -> Loaded {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let store = Store::create(Arc::clone(&directory), &store_options(), b"").unwrap();
        Loaded {
            tree: TieredTree::create(Arc::new(store), options(adoption)),
            directory,
            memtable: Arc::new(Memtable::new(2 << 20)),
            filled: 0,
            written: 0,
            sequence: 0,
            expected: BTreeMap::new(),
        }
    }

    fn put(&mut self, number: u64) {
        self.sequence += 1;
        let byte = self.sequence as u8;
        let key = number.to_be_bytes();
        self.memtable
            .insert(&key, Message::put(self.sequence, &[byte; 100]))
            .unwrap();
        self.expected.insert(number, byte);
        self.filled += 108;
        self.written += 108;
        if self.filled >= MEMTABLE {
            self.sink();
        }
    }

    /// Flushes the memtable into the tree and runs all due work.
    fn sink(&mut self) {
        let fresh = Arc::new(Memtable::new(2 << 20));
        let sealed = std::mem::replace(&mut self.memtable, fresh);
        self.filled = 0;
        self.tree.horizon().raise_past(None, self.sequence);
        let mut taking = self
            .tree
            .incorporate(sealed, self.sequence, AllocationClass::Normal)
            .unwrap();
        while taking.poll(10_000).unwrap() == StepProgress::More {}
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(mut step) = self.tree.next_step().unwrap() {
            while step.poll(10_000).unwrap() == StepProgress::More {}
        }
    }

    /// Returns the bytes written to runs and maplets per user byte, in hundredths.
    fn amplification(&self) -> u64 {
        let stats = self.tree.stats();
        100 * (stats.compacted_bytes + stats.incorporated_bytes) / self.written
    }

    fn compaction_reads(&self) -> u64 {
        let counters = self.directory.counters().snapshot();
        counters.of(Purpose::Compact).read_bytes
    }

    fn check(&self) {
        assert_eq!(
            self.tree.check_with(CheckLevel::Everything, &[]).unwrap(),
            Vec::<String>::new()
        );
        let mut iter = self
            .tree
            .iter(KeyRange::everything(), MergeDirection::Forward, MAX_SEQUENCE, 0);
        for (number, byte) in &self.expected {
            let (key, value) = iter.next().unwrap().expect("a key that was written");
            assert_eq!((key, value[0]), (&number.to_be_bytes()[..], *byte));
        }
        assert!(iter.next().unwrap().is_none());
    }
}

/// Loads `count` keys. Some of them ascend in order, and the others are random keys above those.
fn mixed(adoption: AdoptionPolicy, in_order_percent: u64, count: u64) -> Loaded {
    let mut loaded = Loaded::new(adoption);
    let mut random = fastrand::Rng::with_seed(9);
    for number in 0..count {
        match random.u64(..100) < in_order_percent {
            true => loaded.put(number),
            false => loaded.put(random.u64(count..2 * count) * 3),
        }
    }
    loaded.sink();
    loaded
}

/// Loads keys, and then overwrites clusters of neighbouring ones.
fn clustered(adoption: AdoptionPolicy, cluster: u64, count: u64) -> Loaded {
    let mut loaded = Loaded::new(adoption);
    (0..count).for_each(|number| loaded.put(number));
    loaded.sink();
    let mut random = fastrand::Rng::with_seed(cluster);
    for _ in 0..2 * count / cluster {
        let first = random.u64(..count - cluster);
        (first..first + cluster).for_each(|number| loaded.put(number));
    }
    loaded.sink();
    loaded
}

#[test]
fn what_comes_in_order_is_taken_over_and_never_read() {
    let copying = mixed(AdoptionPolicy::Never, 75, 40_000);
    let adopting = mixed(AdoptionPolicy::WhereCheaper, 75, 40_000);
    copying.check();
    adopting.check();
    let (leaves, bytes) = adopting.tree.stats().adopted;
    assert!(
        leaves > 100 && bytes == leaves * 4096,
        "{leaves} leaves, {bytes} bytes"
    );
    assert_eq!(copying.tree.stats().adopted, (0, 0));
    let (with, without) = (adopting.amplification(), copying.amplification());
    assert!(with < without * 9 / 10, "{with} and {without} hundredths");
    let (with, without) = (adopting.compaction_reads(), copying.compaction_reads());
    assert!(
        with + bytes / 2 < without,
        "{with} and {without} bytes read, {bytes} taken over"
    );
    // A fully sequential load passes through the trunk as whole runs even without adopting single
    // leaves.
    let ordered = mixed(AdoptionPolicy::WhereCheaper, 100, 20_000);
    assert!(ordered.amplification() < 110, "{}", ordered.amplification());
}

#[test]
fn random_loads_are_copied_as_before() {
    let copying = mixed(AdoptionPolicy::Never, 0, 30_000);
    let adopting = mixed(AdoptionPolicy::WhereCheaper, 0, 30_000);
    adopting.check();
    let (with, without) = (adopting.amplification(), copying.amplification());
    assert!(
        with.abs_diff(without) <= 1 + without / 100,
        "{with} and {without}"
    );
}

#[test]
fn clusters_leave_their_neighbours_where_they_are_and_all_space_comes_free() {
    let copying = clustered(AdoptionPolicy::Never, 400, 30_000);
    let adopting = clustered(AdoptionPolicy::WhereCheaper, 400, 30_000);
    adopting.check();
    assert!(
        adopting.tree.stats().adopted.0 > 100,
        "{:?}",
        adopting.tree.stats()
    );
    let (with, without) = (adopting.amplification(), copying.amplification());
    assert!(with <= without, "{with} and {without}");
    let live = |loaded: &Loaded| loaded.tree.store().usage().0.total().live_extent_bytes;
    assert!(
        live(&adopting) < 2 * live(&copying),
        "extents are not held for a leaf or two"
    );
    // Once everything is deleted, no extent of any run remains.
    let mut loaded = adopting;
    loaded.sequence += 1;
    let everything = [0xff; 9];
    loaded
        .memtable
        .delete_range(b"", &everything, loaded.sequence)
        .unwrap();
    loaded.expected.clear();
    loaded.sink();
    loaded.tree.compact_fully(b"").unwrap();
    let mut low = Vec::new();
    while let Some(end) = loaded.tree.leaf_range(&low).high {
        low = end.to_vec();
        loaded.tree.compact_fully(&low).unwrap();
    }
    loaded.settle();
    for _ in 0..2 {
        loaded.tree.checkpoint().unwrap();
    }
    let limit = ReclaimLimit::default();
    while loaded.tree.store().reclaim(limit).unwrap().freed_bytes > 0 {}
    loaded.check();
    let usage = loaded.tree.store().usage().0.total();
    assert!(usage.live_extent_bytes <= 8 * UNIT, "{usage:?}");
}

/// Loads keys in order, mixed with random ones, deletes a range of them, and continues.
fn with_a_deleted_range(adoption: AdoptionPolicy) -> Loaded {
    let mut loaded = Loaded::new(adoption);
    let mut random = fastrand::Rng::with_seed(5);
    let mut load = |loaded: &mut Loaded, numbers: std::ops::Range<u64>| {
        for number in numbers {
            loaded.put(number);
            if random.u8(..4) == 0 {
                loaded.put(random.u64(..40_000));
            }
        }
    };
    load(&mut loaded, 0..20_000);
    loaded.sink();
    loaded.sequence += 1;
    let (start, end) = (4_000u64.to_be_bytes(), 9_000u64.to_be_bytes());
    loaded
        .memtable
        .delete_range(&start, &end, loaded.sequence)
        .unwrap();
    loaded
        .expected
        .retain(|number, _| !(4_000..9_000).contains(number));
    load(&mut loaded, 20_000..40_000);
    loaded.sink();
    loaded
}

#[test]
fn leaves_are_taken_over_beside_a_deleted_range_and_dropped_within_it() {
    let copying = with_a_deleted_range(AdoptionPolicy::Never);
    let mut adopting = with_a_deleted_range(AdoptionPolicy::Above(0));
    copying.check();
    adopting.check();
    let (with, without) = (adopting.amplification(), copying.amplification());
    assert!(with < without, "{with} and {without} hundredths");
    // Compact what the range delete has not reached yet.
    for low in [4_000u64, 6_000, 8_900] {
        adopting.tree.compact_fully(&low.to_be_bytes()).unwrap();
    }
    adopting.settle();
    adopting.check();
    let stats = adopting.tree.stats();
    assert!(
        stats.adopted.0 > 100 && stats.dropped_leaves > 20,
        "{} leaves taken over, {} dropped",
        stats.adopted.0,
        stats.dropped_leaves
    );
}

/// Prints the bytes written per user byte, with and without adoption:
///
/// ```text
/// ALLUVIUM_STITCHED_KEYS=300000 \
///     cargo test --release -p alluvium-trees --test it -- bytes_written_for --nocapture
/// ```
#[test]
fn bytes_written_for_mixes_and_clusters_are_not_more_than_before() {
    let count = alluvium_sim::environment::number("ALLUVIUM_STITCHED_KEYS", 8_000);
    let mut rows = Vec::new();
    for percent in [0, 25, 50, 75, 100] {
        let of = |adoption| mixed(adoption, percent, count);
        rows.push((
            format!("{percent} % in order"),
            of(AdoptionPolicy::Never),
            of(AdoptionPolicy::WhereCheaper),
        ));
    }
    for cluster in [4, 16, 64, 256] {
        let of = |adoption| clustered(adoption, cluster, count / 2);
        rows.push((
            format!("clusters of {cluster}"),
            of(AdoptionPolicy::Never),
            of(AdoptionPolicy::WhereCheaper),
        ));
    }
    println!(
        "load, bytes written per byte in hundredths before, after; live MiB before, after; leaves taken over"
    );
    for (name, before, after) in rows {
        let live = |loaded: &Loaded| loaded.tree.store().usage().0.total().live_extent_bytes >> 20;
        let (with, without) = (after.amplification(), before.amplification());
        let leaves = after.tree.stats().adopted.0;
        println!(
            "{name}, {without}, {with}; {}, {}; {leaves}",
            live(&before),
            live(&after)
        );
        assert!(with <= without + without / 50, "{name}: {with} and {without}");
    }
}
