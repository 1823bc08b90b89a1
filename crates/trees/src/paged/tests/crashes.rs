//! Tests of trees in files, with a crash at any point and with device failures.
//!
//! By default the test is small. To test more crash points from another seed:
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=60000 ALLUVIUM_SIM_SEED=7 \
//!     cargo test --release -p alluvium-trees --lib -- a_crash_at_every
//! ```

use super::*;
use crate::paged::store::TreeLocation;
use alluvium_base::ErrorKind;
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, InjectedFailure, InjectedFault, SimDirectory};
use alluvium_sim::environment::{number, points};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The kind of tree and its options.
#[derive(Clone, Copy, Debug)]
enum Sort {
    Beps(u32, RootStyle, UnderfullPolicy),
    Adaptive(UnderfullPolicy),
    Bplus(UnderfullPolicy),
}

/// A tree in a file, of either kind.
enum Stored {
    Beps(BepsTree<PagePool>),
    Bplus(BplusTree<PagePool>),
}

fn pool_options() -> PoolOptions {
    PoolOptions {
        page_bytes: 512,
        memory_bytes: 24 * 512,
        policy: QueuePolicy::Quarter,
        longest_wait: Duration::from_millis(100),
        ..PoolOptions::default()
    }
}

fn place(directory: &SimDirectory) -> TreeLocation<'_> {
    TreeLocation {
        directory,
        name: "tree",
    }
}

impl Stored {
    fn create(directory: &SimDirectory, sort: Sort) -> Result<Stored> {
        Stored::create_with(directory, sort, MEANS[1])
    }

    fn create_with(directory: &SimDirectory, sort: Sort, means: Means) -> Result<Stored> {
        let pool = PoolOptions {
            #[cfg(feature = "couplings")]
            pins: means.pins,
            shards: means.shards,
            memory_bytes: 24 * 512 * means.shards,
            ..pool_options()
        };
        let place = place(directory);
        match sort {
            Sort::Beps(epsilon, root, merging) => {
                let options = BepsOptions {
                    merging,
                    ..options(epsilon, root, FlushOrder::Depth, Arc::new(Append))
                };
                let tree = BepsTree::create_in(place, 5, pool, options)?;
                Ok(Stored::Beps(means.couple(tree)))
            }
            Sort::Adaptive(merging) => {
                let options = BepsOptions {
                    merging,
                    epsilon: EpsilonMode::Adaptive,
                    ..options(0, RootStyle::Separate, FlushOrder::Depth, Arc::new(Append))
                };
                let tree = BepsTree::create_in(place, 5, pool, options)?;
                Ok(Stored::Beps(means.couple(tree)))
            }
            Sort::Bplus(merging) => {
                let limits = (8, 8);
                let tree = BplusTree::create_merging_in(place, 5, pool, limits, Arc::new(Append), merging)?;
                Ok(Stored::Bplus(means.couple(tree)))
            }
        }
    }

    /// Opens a tree. Returns the tree, and the number of operations contained in its checkpoint.
    fn open(directory: &SimDirectory, sort: Sort) -> Result<(Stored, u64)> {
        let (place, pool) = (place(directory), pool_options());
        let (tree, own) = match sort {
            Sort::Beps(..) | Sort::Adaptive(_) => {
                let opened = BepsTree::open_in(place, pool, FlushOrder::Depth, Arc::new(Append));
                opened.map(|(tree, own)| (Stored::Beps(tree), own))?
            }
            Sort::Bplus(_) => BplusTree::open_in(place, pool, Arc::new(Append))
                .map(|(tree, own)| (Stored::Bplus(tree), own))?,
        };
        Ok((tree, own.try_into().map_or(0, u64::from_le_bytes)))
    }

    fn tree(&self) -> &dyn Subject {
        match self {
            Stored::Beps(tree) => tree,
            Stored::Bplus(tree) => tree,
        }
    }

    fn checkpoint(&self, operations: u64) -> Result<()> {
        match self {
            Stored::Beps(tree) => tree.checkpoint(&operations.to_le_bytes()),
            Stored::Bplus(tree) => tree.checkpoint(&operations.to_le_bytes()),
        }
    }

    fn check(&self) -> Vec<String> {
        match self {
            Stored::Beps(tree) => tree.check().unwrap().found,
            Stored::Bplus(tree) => tree.check().unwrap().found,
        }
    }

    /// Returns the number of nodes that have been merged into others.
    fn merges(&self) -> u64 {
        let counters = match self {
            Stored::Beps(tree) => &tree.core.counters,
            Stored::Bplus(tree) => &tree.core.counters,
        };
        counters.merges.load(Ordering::Relaxed)
    }

    fn contents(&self) -> Model {
        self.tree()
            .pairs(ScanBounds::default(), false)
            .into_iter()
            .collect()
    }
}

/// Runs operation `number`, which is an insert, an update or a delete.
fn operate(tree: &dyn Subject, number: u64, seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed << 32 | number);
    let key = key(rng.u64(..400).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let operand = [rng.u8(..), rng.u8(..)];
    let drawn = rng.u8(..8);
    if number / 200 % 3 == 2 {
        // Deleting many neighbouring keys leaves nodes under-full.
        let near = |key: &[u8]| u64::from(key[0] >> 6) == number / 600 % 4;
        let mut keys =
            std::iter::repeat_with(|| self::key(rng.u64(..400).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        return tree.delete(&keys.find(|key| near(key)).expect("there are such keys"));
    }
    match drawn {
        0..5 => tree.insert(&key, &operand),
        5..7 => tree.update(&key, &operand),
        _ => tree.delete(&key),
    }
}

/// The states that may be found after a crash.
#[derive(Default)]
struct Known {
    /// The content of each checkpoint, by the number of operations that it contains. The first one
    /// is durable.
    checkpoints: BTreeMap<u64, Model>,
    /// Number of operations that have been completed.
    done: u64,
}

/// Opens the state that a crash has left. If `redo` is set, repeats the operations after its
/// checkpoint, as if from a log.
fn survive(image: &SimDirectory, sort: Sort, seed: u64, known: &Known, redo: bool) {
    let (tree, operations) = Stored::open(image, sort).unwrap();
    let expected = known.checkpoints.get(&operations);
    let expected = expected.unwrap_or_else(|| panic!("a checkpoint of {operations} operations, {sort:?}"));
    assert_eq!(tree.check(), [""; 0]);
    assert_eq!(
        &tree.contents(),
        expected,
        "{sort:?} after {operations} of {} operations",
        known.done
    );
    if redo {
        (operations..known.done).for_each(|number| operate(tree.tree(), number, seed).unwrap());
        tree.checkpoint(known.done).unwrap();
        let before = tree.contents();
        drop(tree);
        let (tree, operations) = Stored::open(image, sort).unwrap();
        assert!(operations == known.done && tree.contents() == before && tree.check().is_empty());
    }
}

fn story(seed: u64, sort: Sort, means: Means, operations: u64) -> u64 {
    let directory = SimDirectory::new(seed);
    let tree = Stored::create_with(&directory, sort, means).unwrap();
    let known = Arc::new(Mutex::new(Known::default()));
    known.lock().unwrap().checkpoints.insert(0, Model::new());
    let points = Arc::new(AtomicU64::new(0));
    let (seen, counted) = (Arc::clone(&known), Arc::clone(&points));
    directory.on_operation(move |point| {
        let at = counted.fetch_add(1, Ordering::Relaxed);
        let survival = CrashSurvival::ALL[at as usize % CrashSurvival::ALL.len()];
        let image = point.image(survival, seed ^ at << 8);
        survive(&image, sort, seed, &seen.lock().unwrap(), at.is_multiple_of(16));
    });
    let mut rng = fastrand::Rng::with_seed(seed);
    for number in 0..operations {
        operate(tree.tree(), number, seed).unwrap();
        // If nodes have snapshots, these lookups read them.
        (0..3).for_each(|_| drop(tree.tree().get(&key(rng.u64(..))).unwrap()));
        known.lock().unwrap().done = number + 1;
        if rng.u8(..100) == 0 || number == 600 {
            let contents = tree.contents();
            known.lock().unwrap().checkpoints.insert(number + 1, contents);
            tree.checkpoint(number + 1).unwrap();
            // From now on, no older state may be found after a crash.
            known.lock().unwrap().checkpoints.retain(|made, _| *made > number);
        }
    }
    directory.clear_hook();
    let merges = match sort {
        Sort::Beps(_, _, merging) | Sort::Bplus(merging) | Sort::Adaptive(merging) => {
            merging == UnderfullPolicy::UnderFull
        }
    };
    assert_eq!(tree.merges() > 0, merges, "{sort:?}: {} merges", tree.merges());
    points.load(Ordering::Relaxed)
}

#[test]
fn a_crash_at_every_moment_leaves_a_checkpoint_of_each_tree() {
    let sorts = [
        Sort::Beps(0, RootStyle::Separate, UnderfullPolicy::Never),
        Sort::Beps(90, RootStyle::Separate, UnderfullPolicy::Never),
        Sort::Beps(60, RootStyle::Buffered, UnderfullPolicy::UnderFull),
        Sort::Bplus(UnderfullPolicy::UnderFull),
        Sort::Beps(90, RootStyle::Separate, UnderfullPolicy::UnderFull),
        Sort::Bplus(UnderfullPolicy::Never),
        Sort::Adaptive(UnderfullPolicy::UnderFull),
    ];
    let (wanted, mut seed) = (points(5000), number("ALLUVIUM_SIM_SEED", 1));
    let mut points = 0;
    while points < wanted {
        for (at, sort) in sorts.into_iter().enumerate() {
            let means = MEANS[(seed as usize + at) % MEANS.len()];
            points += story(seed, sort, means, 1500);
        }
        seed += 1;
    }
    println!("{points} images");
}

#[test]
fn a_crash_during_creation_leaves_an_empty_tree_or_none() {
    for sort in [
        Sort::Beps(50, RootStyle::Separate, UnderfullPolicy::Never),
        Sort::Bplus(UnderfullPolicy::UnderFull),
    ] {
        let directory = SimDirectory::new(1);
        let outcomes = Arc::new(Mutex::new((0, 0)));
        let counted = Arc::clone(&outcomes);
        directory.on_operation(move |point| {
            for survival in CrashSurvival::ALL {
                let mut counted = counted.lock().unwrap();
                match Stored::open(&point.image(survival, point.index), sort) {
                    Ok((tree, 0)) => {
                        assert!(tree.contents().is_empty());
                        counted.0 += 1;
                    }
                    Ok((_, other)) => panic!("{other} operations"),
                    Err(error) => {
                        let is_missing = error.to_string().contains("does not exist");
                        assert!(is_missing || error.kind() == ErrorKind::NotAStore, "{error}");
                        counted.1 += 1;
                    }
                }
            }
        });
        let tree = Stored::create(&directory, sort).unwrap();
        directory.clear_hook();
        drop(tree);
        let counted = *outcomes.lock().unwrap();
        assert!(counted.1 > 10, "{counted:?}");
        Stored::open(&directory, sort).unwrap();
    }
}

#[test]
fn failures_of_the_device_lose_nothing_that_a_checkpoint_has() {
    for (operation, failure) in [
        (DeviceOperation::Read, InjectedFailure::Io),
        (DeviceOperation::Write, InjectedFailure::Io),
        (DeviceOperation::Sync, InjectedFailure::Io),
        (DeviceOperation::Grow, InjectedFailure::Full),
        (DeviceOperation::Read, InjectedFailure::FlippedBits(2)),
    ] {
        for at in 1..25 {
            let directory = SimDirectory::new(at);
            let merging = [UnderfullPolicy::Never, UnderfullPolicy::UnderFull][at as usize % 2];
            let sort = Sort::Beps(50, RootStyle::Separate, merging);
            let tree = Stored::create(&directory, sort).unwrap();
            (0..600).for_each(|number| operate(tree.tree(), number, 1).unwrap());
            tree.checkpoint(600).unwrap();
            let expected = tree.contents();
            directory.inject(InjectedFault::new(operation, failure).at(at));
            let failed = (600..1400).find_map(|number| operate(tree.tree(), number, 1).err());
            let failed = failed.or_else(|| tree.checkpoint(1400).err());
            directory.clear_faults();
            let (again, operations) = Stored::open(&directory.reopen(), sort).unwrap();
            assert_eq!(again.check(), [""; 0]);
            if operations == 600 {
                assert!(failed.is_some(), "{operation} {at}: a checkpoint was lost");
                assert_eq!(again.contents(), expected, "{operation} {at}");
            } else {
                assert!(operations == 1400 && tree.tree().examine().found.is_empty());
            }
        }
    }
}

#[test]
fn a_merge_that_fails_is_made_up_for_by_the_next_write() {
    let mut made_up = 0;
    let mut order: Vec<u64> = (0..1200).collect();
    fastrand::Rng::with_seed(2).shuffle(&mut order);
    for at in (300..700).step_by(7) {
        let directory = SimDirectory::new(at);
        let tree = Stored::create(&directory, Sort::Bplus(UnderfullPolicy::UnderFull)).unwrap();
        let subject = tree.tree();
        (0..1200).for_each(|number| subject.insert(&key(number), b"12345678").unwrap());
        directory.inject(
            InjectedFault::new(DeviceOperation::Read, InjectedFailure::Io)
                .at(at)
                .sticky(),
        );
        let failed = order
            .iter()
            .position(|number| subject.delete(&key(*number)).is_err());
        directory.clear_faults();
        let failed = failed.expect("a page is not in memory");
        made_up += u32::from(!tree.check().is_empty());
        // A write to another key triggers the merge again.
        subject.insert(&key(9999), b"12345678").unwrap();
        assert_eq!(tree.check(), [""; 0], "{at}");
        subject.delete(&key(order[failed])).unwrap();
        assert_eq!(tree.contents().len(), 1200 - failed, "{at}");
    }
    assert!(made_up > 0, "some failures are in the middle of merges");
}

#[test]
fn a_tree_is_opened_as_what_it_is() {
    let directory = SimDirectory::new(1);
    drop(Stored::create(&directory, Sort::Bplus(UnderfullPolicy::Never)).unwrap());
    let refused = BepsTree::open_in(
        place(&directory),
        pool_options(),
        FlushOrder::Depth,
        Arc::new(Append),
    );
    assert!(refused.unwrap_err().to_string().contains("it holds a B⁺-tree"));
    let other = SimDirectory::new(1);
    drop(
        Stored::create(
            &other,
            Sort::Beps(50, RootStyle::Separate, UnderfullPolicy::Never),
        )
        .unwrap(),
    );
    let refused = BplusTree::open_in(place(&other), pool_options(), Arc::new(Append));
    assert!(refused.unwrap_err().to_string().contains("it holds a Bε-tree"));
    assert!(
        Stored::create(&other, Sort::Bplus(UnderfullPolicy::Never)).is_err(),
        "the file exists"
    );
}
