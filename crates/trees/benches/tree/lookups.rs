//! Lookups of uncached keys: one at a time, in batches, and many concurrently.

use crate::scattered;
use crate::world::{Sizes, World, mix, value};
use alluvium_base::cost::{CostClock, CostFault, DeviceAccess};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::ThrottledDirectory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_model::PdamClock;
use alluvium_trees::tiered::{PolledTreeLookup, TieredTree, VictimPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

/// Number of concurrent lookups, and size of a batch.
const AT_ONCE: usize = 64;
/// Blocks that the device reads in each step.
const SLOTS: u64 = 32;
const STEP_NS: u64 = 100_000;

/// A device without simulated cost until it is switched on.
struct Switched {
    on: Arc<AtomicBool>,
    clock: PdamClock,
}

impl CostClock for Switched {
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
        if self.on.load(Ordering::Relaxed) {
            self.clock.charge(now_ns, access)
        } else {
            Ok(now_ns)
        }
    }
}

/// Returns the rate of `ask`, which looks up the keys of some turns, in thousands per second.
fn thousands(turns: std::ops::Range<u64>, ask: impl FnOnce(std::ops::Range<u64>)) -> f64 {
    let start = Instant::now();
    let count = turns.end - turns.start;
    ask(turns);
    count as f64 / start.elapsed().as_secs_f64() / 1e3
}

pub(crate) fn lookups(sizes: Sizes) {
    let sizes = Sizes {
        records: sizes.records / 20,
        memtable: (sizes.memtable / 16).max(128 << 10),
        cache: (sizes.cache / 6).max(4 << 20),
        ..sizes
    };
    let on = Arc::new(AtomicBool::new(false));
    let clock = Switched {
        on: Arc::clone(&on),
        clock: PdamClock::new(SLOTS, 4 << 10, STEP_NS),
    };
    let directory = ThrottledDirectory::new(Arc::new(MemoryDirectory::new()), Box::new(clock));
    let mut world = World::on(Arc::new(directory), sizes, VictimPolicy::Fullest);
    for index in 0..sizes.records {
        world.put(&scattered(index, 0), &value(index));
    }
    world.seal();
    let (tree, records) = (&world.tree, sizes.records);
    let index = |turn: u64| mix(turn) % records;
    let expect = |turn: u64, found: Option<Vec<u8>>| {
        assert_eq!(found.as_deref(), Some(&value(index(turn))[..]));
    };
    let one_by_one = |turns: std::ops::Range<u64>| {
        for turn in turns {
            let found = tree.get(&scattered(index(turn), 0), MAX_SEQUENCE, 0);
            expect(turn, found.expect("memory does not fail"));
        }
    };
    let in_batches = |turns: std::ops::Range<u64>| {
        let turns: Vec<u64> = turns.collect();
        for turns in turns.chunks(AT_ONCE) {
            let keys: Vec<_> = turns.iter().map(|&turn| scattered(index(turn), 0)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let found = tree
                .multi_get(&keys, MAX_SEQUENCE, 0)
                .expect("memory does not fail");
            turns
                .iter()
                .zip(found)
                .for_each(|(&turn, found)| expect(turn, found));
        }
    };
    // These lookups load index nodes and maplets into the cache.
    one_by_one(0..sizes.lookups / 4);
    on.store(true, Ordering::Relaxed);
    let few = sizes.lookups / 40;
    let singly = thousands(few..2 * few, one_by_one);
    let batched = thousands(10 * few..20 * few, in_batches);
    let polled = thousands(20 * few..30 * few, |turns| many(tree, turns, &index, &expect));
    println!(
        "lookups, thousands a second on {SLOTS} slots of 4 KiB in {} µs, of {records} records through {} MiB of cache: one by one {singly:.1}, \
         batches of {AT_ONCE} {batched:.1}, {AT_ONCE} under way {polled:.1}",
        STEP_NS / 1000,
        sizes.cache >> 20,
    );
}

/// Performs many concurrent lookups.
fn many(
    tree: &TieredTree,
    mut turns: std::ops::Range<u64>,
    index: &dyn Fn(u64) -> u64,
    expect: &dyn Fn(u64, Option<Vec<u8>>),
) {
    let mut under_way: Vec<(u64, PolledTreeLookup)> = turns
        .by_ref()
        .take(AT_ONCE)
        .map(|turn| (turn, tree.lookup(&scattered(index(turn), 0), MAX_SEQUENCE, 0)))
        .collect();
    while !under_way.is_empty() {
        under_way.retain_mut(|(turn, lookup)| {
            let Poll::Ready(found) = lookup.poll() else {
                return true;
            };
            expect(*turn, found.expect("memory does not fail"));
            let Some(next) = turns.next() else { return false };
            *turn = next;
            lookup.reset(&scattered(index(next), 0), MAX_SEQUENCE, 0);
            true
        });
    }
}
