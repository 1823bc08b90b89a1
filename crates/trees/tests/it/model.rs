//! Random user operations and background work, compared with the reference after every step.

use crate::world::{Workload, World};
use alluvium_device::memory::MemoryDirectory;
use alluvium_sim::environment::number;
use alluvium_storage::NodeCodec;
use alluvium_trees::tiered::{CheckLevel, JobTransition, TrunkShape, VictimPolicy};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Number of operations from which every compaction outcome must have occurred a hundred times.
const LARGE: u64 = 1_000_000;

/// Number of operations above which the tree is not fully maintained. To choose a step, maintenance
/// examines every leaf, which takes minutes in a larger tree.
const MAINTAINED: u64 = 50_000;

/// Runs one seed for `operations` operations.
fn run(workload: Workload, seed: u64, operations: u64) -> World {
    let mut world = World::new(Arc::new(MemoryDirectory::new()), workload, seed);
    for operation in 0..operations {
        let draw = world.random.u32(..1000);
        let done = match draw {
            0..780 => world.write(),
            780..850 => world.poll_incorporation(),
            850..929 => world.poll_step(),
            929 if operation.is_multiple_of(8) => {
                world.drop_step();
                Ok(())
            }
            929..975 => world.get(),
            975..981 => world.get_at(),
            981..985 => world.ingest(),
            985..990 => world.scan(),
            990..994 => {
                world.toggle_snapshot();
                Ok(())
            }
            994 => world.checkpoint(),
            995 => world.reclaim(),
            996 => world.maintain().map(|_| ()),
            997 => world.compact_somewhere(),
            998 if operation % 7 == 0 => world.reopen(),
            998 => world.seal(),
            _ => {
                world.check(CheckLevel::Trunk);
                world.compare_snapshots()
            }
        };
        done.unwrap_or_else(|error| panic!("seed {seed}, operation {operation} ({draw}): {error}"));
    }
    world.settle().unwrap();
    world.compare_snapshots().unwrap();
    if operations <= MAINTAINED {
        // Maintenance must come to an end, even while a snapshot reads data that has since been
        // deleted.
        world.hold_snapshot();
        for _ in 0..200 {
            world.write().unwrap();
        }
        world.maintain_all().unwrap();
        world.compare_snapshots().unwrap();
        world.forget_snapshots();
        world.maintain_all().unwrap();
    }
    world.check(CheckLevel::Everything);
    world
}

fn workloads() -> Vec<(&'static str, Workload)> {
    let named = |name, change: &dyn Fn(&mut Workload)| {
        let mut workload = Workload::default();
        change(&mut workload);
        (name, workload)
    };
    let small = |fanout, memtable| TrunkShape { fanout, memtable };
    vec![
        named("random", &|_| {}),
        named("in order", &|to| {
            (to.sequential, to.deletes, to.merges) = (100, 2, 2);
        }),
        named("half in order", &|to| to.sequential = 50),
        named("local", &|to| to.local = 95),
        named("deletes", &|to| {
            (to.deletes, to.range_deletes_in_10000) = (60, 200);
        }),
        named("few keys", &|to| {
            (to.keys, to.victim) = (60, VictimPolicy::RandomMessage);
        }),
        named("round robin", &|to| {
            (to.victim, to.shape) = (VictimPolicy::RoundRobin, small(6, 16 << 10));
        }),
        named("many keys", &|to| {
            to.keys = 200_000;
        }),
        named("growing", &|to| {
            (to.keys, to.deletes, to.range_deletes_in_10000) = (2_000_000, 2, 1);
            to.shape = small(4, 10 << 10);
        }),
        named("compressed", &|to| {
            to.codec = NodeCodec::Lz4;
        }),
        named("keyspaces", &|to| {
            (to.prefix, to.long_values) = (6, 3);
        }),
        named("snapshots", &|to| {
            (to.snapshots, to.keys, to.merges) = (40, 300, 25);
        }),
        named("snapshots of few keys", &|to| {
            (to.snapshots, to.keys) = (100, 30);
            to.range_deletes_in_10000 = 200;
        }),
        named("snapshots of keyspaces", &|to| {
            (to.snapshots, to.keys, to.prefix) = (20, 1200, 6);
        }),
        named("values apart, compressed", &|to| {
            (to.codec, to.value_threshold, to.long_values) = (NodeCodec::Zstd, Some(0), 3);
        }),
        named("values gathered", &|to| {
            (to.value_threshold, to.long_values, to.keys) = (Some(0), 2, 5000);
        }),
        named("large pages, compressed", &|to| {
            (to.page, to.codec, to.long_values) = (16 << 10, NodeCodec::Zstd, 3);
        }),
        named("the largest pages, compressed, values apart", &|to| {
            (to.page, to.codec, to.value_threshold) = (64 << 10, NodeCodec::Lz4, Some(100));
        }),
        named("large pages", &|to| {
            (to.page, to.prefix) = (8 << 10, 6);
        }),
    ]
}

#[test]
fn the_tree_reads_what_the_reference_reads() {
    let operations = number("ALLUVIUM_TREE_OPERATIONS", 60_000);
    let first = number("ALLUVIUM_TREE_SEED", 1);
    let rounds = number("ALLUVIUM_TREE_ROUNDS", 1);
    let workloads = workloads();
    let each = operations / (workloads.len() as u64 * rounds).max(1);
    let runs: Vec<(&str, Workload, u64)> = (first..first + rounds)
        .flat_map(|seed| {
            workloads
                .iter()
                .map(move |&(name, workload)| (name, workload, seed))
        })
        .collect();
    // Each idle thread takes the next seed. A run depends only on its seed.
    let next = AtomicUsize::new(0);
    let done = Mutex::new((BTreeMap::<JobTransition, u64>::new(), 0, 0, 0));
    std::thread::scope(|scope| {
        for _ in 0..number("ALLUVIUM_TREE_WORKERS", 1) {
            scope.spawn(|| {
                while let Some(&(name, workload, seed)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let world = run(workload, seed, each);
                    let height = world.tree.height();
                    let stats = world.tree.stats();
                    println!(
                        "{name}, seed {seed}: height {height}, {:?}, {} leaves taken over, {} dropped, \
                        {} bytes of values gathered, trace {:016x}",
                        stats.shape,
                        stats.adopted.0,
                        stats.dropped_leaves,
                        world.gathered_bytes(),
                        world.trace
                    );
                    let mut done = done.lock().unwrap();
                    let (edges, highest, ingests, gathered) = &mut *done;
                    *gathered += world.gathered_bytes();
                    *highest = height.max(*highest);
                    *ingests += world.ingests;
                    for (edge, count) in world.edges() {
                        *edges.entry(edge).or_default() += count;
                    }
                }
            });
        }
    });
    let (edges, highest, ingests, gathered) = done.into_inner().unwrap();
    for (edge, count) in &edges {
        println!("{edge}: {count}");
    }
    println!("highest trunk: {highest}, {ingests} ingests");
    assert!(operations < 10_000 || ingests >= 5, "{ingests} ingests");
    assert!(
        operations < 10_000 || gathered > 10_000,
        "{gathered} bytes of values gathered"
    );
    if operations >= LARGE {
        assert!(highest >= 3, "a trunk of three levels");
        for edge in JobTransition::ALL {
            assert!(
                edges.get(&edge).is_some_and(|count| *count >= 100),
                "{edge}: too seldom"
            );
        }
    }
}

/// Long sequences of keys fill whole leaves, and range deletes begin and end among them.
#[test]
fn the_tree_reads_what_the_reference_reads_beside_range_deletes() {
    let operations = number("ALLUVIUM_TREE_OPERATIONS", 30_000);
    let first = number("ALLUVIUM_TREE_SEED", 1);
    let workload = Workload {
        sequential: 99,
        deletes: 0,
        merges: 0,
        expires: false,
        range_deletes_in_10000: 20,
        long_values: 0,
        keys: 6000,
        snapshots: 2,
        shape: TrunkShape {
            fanout: 4,
            memtable: 48 << 10,
        },
        ..Workload::default()
    };
    let (mut adopted, mut dropped) = (0, 0);
    for seed in first..first + 3 {
        let stats = run(workload, seed, operations / 3).tree.stats();
        println!(
            "seed {seed}: {} leaves taken over, {} dropped",
            stats.adopted.0, stats.dropped_leaves
        );
        (adopted, dropped) = (adopted + stats.adopted.0, dropped + stats.dropped_leaves);
    }
    assert!(
        adopted > 0 && dropped > 0,
        "{adopted} leaves taken over, {dropped} dropped"
    );
}

/// Compactions write values again between adopted leaves, range deletes, merges and snapshots.
#[test]
fn the_tree_reads_what_the_reference_reads_where_values_are_gathered() {
    let operations = number("ALLUVIUM_TREE_OPERATIONS", 30_000);
    let first = number("ALLUVIUM_TREE_SEED", 1);
    let (mut gathered, mut adopted) = (0, 0);
    for seed in first..first + 3 {
        let workload = Workload {
            value_threshold: Some(0),
            sequential: [0, 50, 90][(seed % 3) as usize],
            deletes: 3,
            merges: 3,
            range_deletes_in_10000: 10,
            long_values: 1,
            keys: 4000,
            snapshots: 10,
            shape: TrunkShape {
                fanout: 4,
                memtable: 32 << 10,
            },
            ..Workload::default()
        };
        let world = run(workload, seed, operations / 3);
        let leaves = world.tree.stats().adopted.0;
        println!(
            "seed {seed}: {} bytes of values gathered, {leaves} leaves taken over",
            world.gathered_bytes()
        );
        (gathered, adopted) = (gathered + world.gathered_bytes(), adopted + leaves);
    }
    assert!(
        operations < 30_000 || gathered > 100_000,
        "{gathered} bytes gathered, {adopted} leaves taken over"
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let workload = Workload::default();
    let traces: Vec<u64> = (0..2).map(|_| run(workload, 77, 3000).trace).collect();
    assert_eq!(traces[0], traces[1]);
}
