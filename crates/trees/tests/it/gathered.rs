//! Separate values that compactions write again because they are scattered. Counts the device reads
//! of a scan, and what is written.

use crate::alone::Alone;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, Purpose};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace};
use alluvium_storage::extents::{AllocationClass, ReclaimLimit};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_trees::tiered::{
    AdoptionPolicy, CheckLevel, MaintenanceLimits, StepProgress, TieredTree, TreeOptions, TrunkShape,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const MEMTABLE: u64 = 1 << 20;
const VALUE: usize = 4 << 10;

/// Whether compactions gather values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Gathered,
    Written,
}

/// A tree of keys with values of 4 KiB, and its expected contents.
struct LoadedTree {
    directory: Arc<dyn Directory>,
    tree: TieredTree,
    memtable: Arc<Memtable>,
    filled: u64,
    sequence: u64,
    expected: BTreeMap<u64, u8>,
}

impl LoadedTree {
    fn new(values: Values) -> LoadedTree {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let options = StoreOptions {
            cache_bytes: 1 << 20,
            ..StoreOptions::default()
        };
        let store = Store::create(Arc::clone(&directory), &options, b"").unwrap();
        let options = TreeOptions {
            shape: TrunkShape {
                fanout: 4,
                memtable: MEMTABLE,
            },
            schema: Arc::new(OneKeyspace::new(KeyspaceRules {
                gathers_values: values == Values::Gathered,
                ..KeyspaceRules::default()
            })),
            adoption: AdoptionPolicy::Above(0),
            ..TreeOptions::default()
        };
        LoadedTree {
            tree: TieredTree::create(Arc::new(store), options),
            directory,
            memtable: Arc::new(Memtable::new(4 << 20)),
            filled: 0,
            sequence: 0,
            expected: BTreeMap::new(),
        }
    }

    fn put(&mut self, number: u64) {
        self.sequence += 1;
        let byte = self.sequence as u8;
        self.memtable
            .insert(&number.to_be_bytes(), Message::put(self.sequence, &[byte; VALUE]))
            .unwrap();
        self.expected.insert(number, byte);
        self.filled += VALUE as u64;
        if self.filled >= MEMTABLE {
            self.sink();
        }
    }

    /// Flushes the memtable into the tree and runs all due work.
    fn sink(&mut self) {
        let fresh = Arc::new(Memtable::new(4 << 20));
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

    /// Performs the maintenance of a store without writes.
    fn rest(&mut self) {
        let mut maintenance = MaintenanceLimits {
            budget_bytes: u64::MAX,
            fits_cache: false,
            is_idle: true,
        };
        while self.tree.maintain(&mut maintenance).unwrap() {
            self.settle();
        }
    }

    fn reads(&self) -> u64 {
        self.directory.counters().snapshot().of(Purpose::Scan).reads
    }

    /// Reads everything in order, compares it, and returns the number of device reads.
    fn scan(&self) -> u64 {
        let before = self.reads();
        let mut iter = self
            .tree
            .iter(KeyRange::everything(), MergeDirection::Forward, MAX_SEQUENCE, 0);
        for (number, byte) in &self.expected {
            let (key, value) = iter.next().unwrap().expect("a key that was written");
            assert_eq!((key, value), (&number.to_be_bytes()[..], &[*byte; VALUE][..]));
        }
        assert_eq!(iter.next().unwrap(), None);
        self.reads() - before
    }

    fn check(&self) {
        let found = self.tree.check_with(CheckLevel::Everything, &[]).unwrap();
        assert_eq!(found, Vec::<String>::new());
    }
}

fn in_random_order(values: Values, keys: u64) -> LoadedTree {
    let mut loaded = LoadedTree::new(values);
    let mut numbers: Vec<u64> = (0..keys).collect();
    fastrand::Rng::with_seed(5).shuffle(&mut numbers);
    numbers.into_iter().for_each(|number| loaded.put(number));
    loaded.sink();
    loaded
}

fn in_order(values: Values, keys: u64) -> LoadedTree {
    let mut loaded = LoadedTree::new(values);
    (0..keys).for_each(|number| loaded.put(number));
    loaded.sink();
    loaded
}

#[test]
fn a_scan_of_gathered_values_reads_from_as_few_places_as_of_values_in_order() {
    let keys = 4000;
    let (fresh, mut scattered) = (
        in_order(Values::Written, keys),
        in_random_order(Values::Written, keys),
    );
    let mut gathered = in_random_order(Values::Gathered, keys);
    scattered.rest();
    gathered.rest();
    let [fresh, scattered, in_places] = [&fresh, &scattered, &gathered].map(LoadedTree::scan);
    println!("device reads: {fresh} in order, {scattered} scattered, {in_places} gathered");
    assert!(scattered > 5 * fresh, "{scattered} reads, {fresh} in order");
    assert!(in_places < 3 * fresh / 2, "{in_places} reads, {fresh} in order");
    gathered.check();
    let written = gathered.tree.stats().gathered_bytes;
    let all = keys * VALUE as u64;
    println!("{written} bytes of {all} gathered");
    assert!((all..5 * all).contains(&written), "{written} bytes of {all}");
}

#[test]
fn values_that_were_written_in_order_are_not_written_again() {
    let mut loaded = in_order(Values::Gathered, 3000);
    loaded.rest();
    let stats = loaded.tree.stats();
    println!("{} bytes gathered", stats.gathered_bytes);
    let all = loaded.expected.len() as u64 * VALUE as u64;
    assert!(
        stats.gathered_bytes < all / 20,
        "{} bytes of {all}",
        stats.gathered_bytes
    );
    loaded.check();
}

/// Leaves whose values lie together are taken over, and those around them are copied.
#[test]
fn leaves_are_taken_over_between_values_that_are_gathered() {
    let mut loaded = LoadedTree::new(Values::Gathered);
    let mut scattered: Vec<u64> = (0..3000).collect();
    fastrand::Rng::with_seed(9).shuffle(&mut scattered);
    for (next, number) in scattered.into_iter().enumerate() {
        // Stretches of 500 keys in order between stretches of 500 in random order.
        let (stretch, place) = (number / 500, number % 500);
        loaded.put(stretch * 1000 + place);
        let next = next as u64;
        loaded.put(next / 500 * 1000 + 500 + next % 500);
    }
    loaded.sink();
    loaded.rest();
    let stats = loaded.tree.stats();
    println!("{:?}, {} bytes gathered", stats.adopted, stats.gathered_bytes);
    assert!(
        stats.adopted.0 > 10 && stats.gathered_bytes > 1 << 20,
        "{stats:?}"
    );
    loaded.scan();
    loaded.check();
}

#[test]
fn nothing_is_gathered_where_no_keyspace_asks_for_it() {
    let mut loaded = in_random_order(Values::Written, 2000);
    loaded.rest();
    assert_eq!(loaded.tree.stats().gathered_bytes, 0);
    loaded.scan();
}

/// Returns the space that is in use once every value has been replaced four times.
fn space_of_replaced(values: Values) -> u64 {
    let mut loaded = in_random_order(values, 3000);
    for round in 0..4 {
        let mut numbers: Vec<u64> = (0..3000).collect();
        fastrand::Rng::with_seed(round).shuffle(&mut numbers);
        numbers.into_iter().for_each(|number| loaded.put(number));
        loaded.sink();
    }
    loaded.rest();
    for _ in 0..2 {
        loaded.tree.checkpoint().unwrap();
    }
    let limit = ReclaimLimit::default();
    while loaded.tree.store().reclaim(limit).unwrap().freed_bytes > 0 {}
    loaded.scan();
    loaded.check();
    loaded.tree.store().usage().0.total().live_extent_bytes
}

#[test]
fn gathered_values_leave_their_old_places() {
    let [written, gathered] = [Values::Written, Values::Gathered].map(space_of_replaced);
    println!("{written} bytes in use, {gathered} where values are gathered");
    assert!(
        gathered <= written,
        "{gathered} bytes, and {written} without gathering"
    );
}
