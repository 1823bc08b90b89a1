//! Cost of the extents of a large store: `cargo bench -p alluvium-storage --bench extents`.
//!
//! A 1 TiB tier in memory, with no data written, is filled in three ways. The bench then measures
//! the cost of the map and of single calls. Each figure is a median of three. Under `cargo test`,
//! the tier has 1 GiB.

use alluvium_base::{GIB, KIB, MIB, Purpose, TIB};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::TierFiles;
use alluvium_storage::extents::{
    AllocationClass, Extent, ExtentOptions, Extents, MapPointer, ReclaimLimit, UNIT,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A way to fill a store.
struct Shape {
    name: &'static str,
    units: u32,
    /// Whether live bytes and references vary between extents.
    uneven: bool,
    /// Whether every other extent is freed again.
    gaps: bool,
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "1 MiB extents, all alike",
        units: 8,
        uneven: false,
        gaps: false,
    },
    Shape {
        name: "1 MiB extents, each different",
        units: 8,
        uneven: true,
        gaps: false,
    },
    Shape {
        name: "128 KiB extents, each different, half of them free",
        units: 1,
        uneven: true,
        gaps: true,
    },
];

struct Bench {
    directory: Arc<dyn Directory>,
    tiers: Arc<TierFiles>,
    extents: Extents,
    live: Vec<Extent>,
    generation: u64,
    random: fastrand::Rng,
}

fn main() {
    let real = std::env::args().any(|argument| argument == "--bench");
    let size = if real { TIB } else { GIB };
    println!("a tier of {} GiB in memory; medians of three", size / GIB);
    for shape in &SHAPES {
        println!("\n{}", shape.name);
        let mut bench = Bench::fill(shape, size);
        bench.map();
        bench.calls(if real { 200_000 } else { 200 });
    }
}

fn report(what: &str, figure: &str) {
    println!("  {what:<52} {figure:>24}");
}

fn median(mut runs: [Duration; 3]) -> Duration {
    runs.sort_unstable();
    runs[1]
}

fn per_call(calls: usize, whole: Duration) -> String {
    format!("{:.0} ns", whole.as_nanos() as f64 / calls as f64)
}

impl Bench {
    fn fill(shape: &Shape, size: u64) -> Bench {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let tiers = Arc::new(TierFiles::create(&[directory.as_ref()]).expect("memory"));
        let extents = Extents::create(Arc::clone(&tiers), ExtentOptions::default()).expect("memory");
        let mut random = fastrand::Rng::with_seed(1);
        let count = (size / UNIT) as u32 / shape.units;
        let mut live = Vec::with_capacity(count as usize);
        let start = Instant::now();
        for _ in 0..count {
            let extent = extents
                .allocate(0, shape.units, AllocationClass::Normal)
                .expect("there is room");
            let bytes = if shape.uneven {
                random.u64(..extent.bytes())
            } else {
                extent.bytes()
            };
            extents.install(&[(extent, bytes)]);
            if shape.uneven && random.u8(..4) == 0 {
                extents.retain(extent);
                extents.release(extent, 0);
            }
            live.push(extent);
        }
        report(
            "fill: allocate and install one extent",
            &per_call(count as usize, start.elapsed()),
        );
        let mut bench = Bench {
            directory,
            tiers,
            extents,
            live,
            generation: 0,
            random,
        };
        bench.checkpoint();
        if shape.gaps {
            let mut index = 0;
            bench.live.retain(|&extent| {
                index += 1;
                let stays = index % 2 == 0;
                if !stays {
                    bench.extents.release(extent, 0);
                }
                stays
            });
            bench.checkpoint();
            let limit = ReclaimLimit {
                extents: usize::MAX,
                operations: 0,
            };
            let start = Instant::now();
            bench.extents.reclaim(1, limit).expect("memory");
            report(
                "reclaim: one extent becomes free",
                &per_call(count as usize / 2, start.elapsed()),
            );
        }
        let used = bench.extents.usage();
        let memory = used.memory_bytes as f64;
        let share = memory / used.total().live_extent_bytes as f64 * 100.0;
        report(
            "memory",
            &format!("{:.1} MiB, {share:.4} % of use", memory / MIB as f64),
        );
        bench
    }

    fn checkpoint(&mut self) -> (MapPointer, Duration, Duration) {
        self.generation += 1;
        let start = Instant::now();
        let frozen = self.extents.freeze(self.generation);
        let cut = start.elapsed();
        let start = Instant::now();
        let pointer = self.extents.write_map(&self.directory, frozen).expect("memory");
        let written = start.elapsed();
        self.extents.made_durable(self.generation);
        (pointer, cut, written)
    }

    /// Writes a checkpoint after making `changes` changes.
    fn delta(&mut self, changes: usize) -> (MapPointer, Duration, Duration) {
        for _ in 0..changes {
            let extent = self.live[self.random.usize(..self.live.len())];
            let live = self.extents.live(extent);
            self.extents.sub_live(extent, self.random.u64(..=live.min(100)));
        }
        self.checkpoint()
    }

    fn map(&mut self) {
        // Once the deltas outgrow the snapshot, the next checkpoint writes a new snapshot.
        let (mut pointer, mut cut, mut written) = self.checkpoint();
        let kib = |bytes: u64| format!("{:.1} KiB", bytes as f64 / KIB as f64);
        report("first snapshot", &kib(pointer.snapshot));
        let mut file = pointer.file;
        while pointer.file == file || pointer.length != pointer.snapshot {
            file = pointer.file;
            (pointer, cut, written) = self.delta(self.live.len() / 3 + 1);
        }
        let changes = self.live.len() / 3 + 1;
        report(
            "later snapshot, a third of the extents changed",
            &kib(pointer.snapshot),
        );
        report(
            &format!("snapshot: freeze (of {changes} changes), write"),
            &format!("{cut:.1?}, {written:.1?}"),
        );
        for changes in [1, 100, 10_000] {
            let mut before = pointer.length;
            let runs = [(); 3].map(|()| {
                let (next, cut, written) = self.delta(changes);
                let bytes = next.length - std::mem::replace(&mut before, next.length);
                pointer = next;
                (bytes, cut, written)
            });
            let what = format!("delta of {changes} changes");
            report(&what, &kib(runs[1].0));
            let (cut, written) = (median(runs.map(|run| run.1)), median(runs.map(|run| run.2)));
            report(
                &format!("{what}: freeze, write"),
                &format!("{cut:.1?}, {written:.1?}"),
            );
        }
        let runs = [(); 3].map(|()| {
            let start = Instant::now();
            let tiers = Arc::clone(&self.tiers);
            let opened = Extents::open(&self.directory, tiers, &pointer, ExtentOptions::default());
            let elapsed = start.elapsed();
            assert_eq!(
                opened.expect("just written").usage().total().live_extents,
                self.live.len() as u64
            );
            elapsed
        });
        report("open", &format!("{:.1?}", median(runs)));
        let start = Instant::now();
        let reachable = self.live.iter().map(|&extent| (extent, 1));
        let violations = self.extents.check(reachable);
        assert_eq!(violations, []);
        report("check", &format!("{:.1?}", start.elapsed()));
    }

    fn calls(&mut self, calls: usize) {
        for units in [1, 8, 64] {
            let mut taken = Vec::with_capacity(calls);
            let calls = calls / units as usize;
            let (mut allocate, mut abandon) = ([Duration::ZERO; 3], [Duration::ZERO; 3]);
            for run in 0..3 {
                let start = Instant::now();
                taken.extend((0..calls).map(|_| {
                    self.extents
                        .allocate(0, units, AllocationClass::Normal)
                        .expect("room")
                }));
                allocate[run] = start.elapsed();
                let start = Instant::now();
                taken.drain(..).for_each(|extent| self.extents.abandon(extent));
                abandon[run] = start.elapsed();
            }
            report(
                &format!("allocate {units} units"),
                &per_call(calls, median(allocate)),
            );
            report(
                &format!("abandon {units} units"),
                &per_call(calls, median(abandon)),
            );
        }
        let picked: Vec<Extent> = (0..calls)
            .map(|_| self.live[self.random.usize(..self.live.len())])
            .collect();
        let runs = [(); 3].map(|()| {
            let start = Instant::now();
            for &extent in &picked {
                self.extents.retain(extent);
                black_box(self.extents.release(extent, 0));
            }
            start.elapsed()
        });
        report(
            "retain and release one of them at random",
            &per_call(calls, median(runs)),
        );
        black_box(self.tiers.sync(Purpose::Other).is_ok());
    }
}
