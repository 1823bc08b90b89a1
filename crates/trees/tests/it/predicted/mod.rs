//! The model's predictions for a tree, compared with measurements: bytes counted at an in-memory
//! device, extents in use, and reads per lookup.

mod real;

use alluvium_base::Purpose;
use alluvium_model::tiered::{LookupSettings, RecordProfile, TreeShape, ValueLengths, WriteSimulation};
use alluvium_model::{Popularity, SplitMix64};
use real::{RECORD, Real, Sizes, VALUE};

/// One configuration.
#[derive(Clone, Copy, Debug)]
struct Case {
    memtable: u64,
    fanout: usize,
    /// Skew of the key distribution; 0 is uniform.
    skew: f64,
    /// Percentage of deletes.
    deletes: u64,
}

const KEYS: u64 = 40_000;
const UPDATES: u64 = 60_000;

/// Three fan-outs and three memtable sizes, uniform and skewed, with and without deletes. The first
/// case was used to calibrate the model's constants for caches and footers, so it does not count.
const CASES: [Case; 9] = [
    case(128, 8, 0.0, 0),
    case(128, 4, 0.0, 0),
    case(128, 16, 0.0, 0),
    case(64, 4, 0.99, 0),
    case(64, 8, 0.99, 20),
    case(128, 8, 0.0, 20),
    case(128, 4, 0.99, 10),
    case(256, 4, 0.0, 50),
    case(256, 8, 0.99, 0),
];

const fn case(memtable_kib: u64, fanout: usize, skew: f64, deletes: u64) -> Case {
    Case {
        memtable: memtable_kib << 10,
        fanout,
        skew,
        deletes,
    }
}

impl Case {
    fn flow(&self) -> WriteSimulation {
        let shape = TreeShape {
            memtable_bytes: self.memtable as f64,
            overhead_bytes: 0.0,
            fanout: self.fanout as u32,
            ..TreeShape::default()
        };
        let records = RecordProfile {
            key_bytes: (RECORD - VALUE as u64) as f64,
            value_bytes: VALUE as f64,
            values: ValueLengths::Equal,
        };
        WriteSimulation::new(shape, records, self.popularity()).unwrap()
    }

    fn popularity(&self) -> Popularity {
        Popularity::zipf(KEYS, self.skew).unwrap()
    }

    fn real(&self) -> Real {
        Real::new(Sizes {
            memtable: self.memtable,
            fanout: self.fanout,
            cache: 4 << 20,
        })
    }
}

/// Names of quantities, each with the predicted and the measured value.
#[derive(Debug, Default)]
struct Pairs(Vec<(String, f64, f64)>);

impl Pairs {
    fn add(&mut self, what: String, predicted: f64, measured: f64) {
        self.0.push((what, predicted, measured));
    }

    fn error(pair: &(String, f64, f64)) -> f64 {
        (pair.1 / pair.2 - 1.0).abs()
    }

    /// Asserts that the mean difference is at most `mean`, and every single difference at most
    /// `each`.
    fn agree(&self, mean: f64, each: f64) {
        let errors: Vec<f64> = self.0.iter().map(Pairs::error).collect();
        let found = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let lines: Vec<String> = (self.0.iter())
            .map(|pair| {
                format!(
                    "{}: {:.3}, measured {:.3}: {:.1} %",
                    pair.0,
                    pair.1,
                    pair.2,
                    100.0 * Pairs::error(pair)
                )
            })
            .collect();
        let all = lines.join("\n");
        println!("{all}\nmean {:.1} %, worst {:.1} %", 100.0 * found, 100.0 * worst);
        assert!(found <= mean && worst <= each, "{found} {worst}");
    }
}

/// Runs a phase in the real tree and in the model. Returns the number of bytes per user byte that
/// each has written.
fn phase(case: &Case, real: &mut Real, flow: &mut WriteSimulation, loads: bool) -> (f64, f64) {
    let before = real.written();
    flow.forget();
    if loads {
        real.load(KEYS);
        flow.load(KEYS as f64).unwrap();
    } else {
        real.update(&case.popularity(), UPDATES, case.deletes);
        flow.update(UPDATES as f64, case.deletes as f64 / 100.0).unwrap();
    }
    let now = real.written();
    let of = |purpose: Purpose| now.of(purpose).written_bytes - before.of(purpose).written_bytes;
    let bytes = of(Purpose::Incorporate) + of(Purpose::Compact);
    let written = flow.written();
    (written.amplification(), bytes as f64 / written.user_bytes)
}

#[test]
fn what_is_written_and_kept_is_as_predicted() {
    let (mut writes, mut space) = (Pairs::default(), Pairs::default());
    for case in &CASES[1..] {
        let (mut real, mut flow) = (case.real(), case.flow());
        for loads in [true, false] {
            let (predicted, measured) = phase(case, &mut real, &mut flow, loads);
            let what = format!("{case:?}, {}", if loads { "load" } else { "updates" });
            writes.add(what.clone(), predicted, measured);
            let live = real.tree.store().usage().0.total().live_extent_bytes;
            space.add(what, flow.space_bytes(), live as f64);
        }
    }
    writes.agree(0.1, 0.2);
    space.agree(0.2, 0.4);
}

/// Compares the reads per lookup at three cache sizes, each time after an equal number of other
/// lookups.
#[test]
fn what_lookups_read_is_as_predicted() {
    let mut reads = Pairs::default();
    for case in [&CASES[1], &CASES[2], &case(128, 4, 0.99, 0), &CASES[8]] {
        let (mut real, mut flow) = (case.real(), case.flow());
        phase(case, &mut real, &mut flow, true);
        phase(case, &mut real, &mut flow, false);
        let requests = case.popularity().requests().unwrap();
        let mut random = SplitMix64::from_seed(5);
        for cache in [1u64 << 20, 2 << 20, 4 << 20] {
            real.tree.store().cache().set_budget(cache).unwrap();
            let mut some = |count: usize| -> Vec<u64> {
                (0..count).map(|_| requests.draw(&mut random) as u64).collect()
            };
            let (first, then) = (some(20_000), some(10_000));
            real.reads(first.into_iter());
            let measured = real.reads(then.into_iter());
            let lookups = LookupSettings {
                page_cache_bytes: cache as f64,
                record_cache_bytes: 0.0,
                misses: 0.0,
                deleted: 0.0,
            };
            let predicted = flow.reads(&lookups).unwrap();
            reads.add(format!("{case:?}, {cache} bytes"), predicted.hit, measured);
            let absent = real.reads(KEYS..KEYS + 5000);
            let miss = flow
                .reads(&LookupSettings {
                    misses: 1.0,
                    ..lookups
                })
                .unwrap()
                .miss;
            assert!((absent - miss).abs() < 0.1, "{case:?}: {absent} {miss}");
        }
    }
    reads.agree(0.1, 0.3);
}

/// A compaction probes the maplets of a leaf to find out how many of its keys the leaf already has.
/// At that time, the cache is full of leaves from earlier lookups and has few free frames.
#[test]
fn a_compaction_reads_a_page_of_a_maplet_once() {
    let case = case(64, 16, 0.0, 0);
    let mut real = case.real();
    phase(&case, &mut real, &mut case.flow(), true);
    real.tree.store().cache().set_budget(1 << 20).unwrap();
    let before = real.asked;
    let mut random = SplitMix64::from_seed(3);
    for _ in 0..60 {
        real.reads((0..300).map(|_| random.below(KEYS as usize) as u64));
        real.update(&case.popularity(), 500, 0);
    }
    let asked = real.asked - before;
    let private = real.tree.store().cache().stats().private_reads;
    assert!(asked <= 100 && private <= 20, "{asked} reads, {private} private");
}
