//! Routing filter tests, which compare each filter with the hashes in each run.

use super::{CandidateRuns, RoutingFilter, RoutingFilterBuilder, RoutingFilterShape};
use alluvium_base::Purpose;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::fetch::{BlockingFetch, unwrap_ready};
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn store() -> Arc<Store> {
    let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"");
    Arc::new(store.unwrap())
}

fn ask(store: &Store, filter: &RoutingFilter, hash: u64) -> CandidateRuns {
    let guard = store.epochs().pin();
    let fetch = BlockingFetch {
        cache: store.cache(),
        guard: &guard,
        purpose: Purpose::Lookup,
    };
    unwrap_ready(filter.find_candidates(hash, &fetch)).unwrap()
}

/// A level: the hashes of each run, and the level's routing filter.
struct Level {
    store: Arc<Store>,
    shape: RoutingFilterShape,
    runs: Vec<Vec<u64>>,
    filter: Option<RoutingFilter>,
    random: fastrand::Rng,
}

impl Level {
    fn new(shape: RoutingFilterShape, seed: u64) -> Level {
        Level {
            store: store(),
            shape,
            runs: Vec::new(),
            filter: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Adds a run to the level and checks that its records name the right previous runs.
    fn arrive(&mut self, mut hashes: Vec<u64>) {
        hashes.sort_unstable();
        let options = self
            .store
            .writer_options(Purpose::Compact, AllocationClass::Normal);
        let (number, records) = (self.runs.len() as u8, hashes.len() as u64);
        let old = self.filter.as_ref();
        let mut builder =
            RoutingFilterBuilder::new(&self.store, options, self.shape, old, number, records).unwrap();
        let mut latest: BTreeMap<u64, u8> = BTreeMap::new();
        for (run, hashes) in (0..).zip(&self.runs) {
            latest.extend(hashes.iter().map(|hash| (self.shape.prefix(*hash), run)));
        }
        for &hash in &hashes {
            while !builder.advance(hash, self.random.u64(1..3000)).unwrap() {}
            let expected = latest
                .get(&self.shape.prefix(hash))
                .filter(|_| !self.shape.is_refined());
            assert_eq!(builder.push(hash).unwrap(), expected.copied(), "{hash:016x}");
        }
        while !builder.go_on(self.random.u64(1..3000)).unwrap() {}
        let filter = builder.finish().unwrap().install();
        // Reading the filter back must return what was written.
        let read = RoutingFilter::open(DataFiles::of(&self.store), filter.pointer(), Purpose::Check).unwrap();
        assert_eq!(read.meta, filter.meta);
        self.filter = Some(filter);
        self.runs.push(hashes);
    }

    /// Checks that the filter returns the expected runs for each hash.
    fn compare(&mut self, hashes: &[u64]) {
        let (shape, filter) = (self.shape, self.filter.as_ref().unwrap());
        for &hash in hashes {
            let named = ask(&self.store, filter, hash);
            let has = |run: &Vec<u64>| {
                run.iter().any(|other| {
                    shape.prefix(*other) == shape.prefix(hash)
                        && (!shape.is_refined() || shape.check(*other) == shape.check(hash))
                })
            };
            if shape.is_refined() {
                for (number, run) in self.runs.iter().enumerate() {
                    assert_eq!(named.has(number), has(run), "{hash:016x} in run {number}");
                }
            } else {
                let latest = self.runs.iter().rposition(has);
                assert_eq!(named, CandidateRuns::Latest(latest.map(|run| run as u8)));
            }
        }
    }
}

fn shapes(skipped: u8, records: u64) -> Vec<RoutingFilterShape> {
    let mut all = Vec::new();
    for bits in [1, 2, 3, 4, 8] {
        all.push(RoutingFilterShape::plain(skipped, bits, records));
        all.push(RoutingFilterShape::refined(skipped, bits, records, 2));
    }
    all
}

#[test]
fn filters_name_the_runs_that_have_a_prefix_through_every_arrival() {
    for (seed, shape) in shapes(3, 60).into_iter().enumerate() {
        let mut level = Level::new(shape, seed as u64);
        let most = ((1usize << shape.character_bits) - 1).min(6);
        for _ in 0..most {
            let count = level.random.usize(1..120);
            // All hashes must belong to the same part, which the first three bits select.
            let mut hashes: Vec<u64> = (0..count).map(|_| 5 << 61 | level.random.u64(..) >> 3).collect();
            // Repeat some hashes, both within a run and across runs.
            let again: Vec<u64> = level.runs.iter().flatten().copied().take(20).collect();
            hashes.extend(again);
            hashes.extend(hashes.clone().into_iter().take(10));
            level.arrive(hashes);
        }
        let mut asked: Vec<u64> = level.runs.concat();
        asked.extend((0..500).map(|_| 5 << 61 | level.random.u64(..) >> 3));
        asked.extend([5 << 61, (6 << 61) - 1]);
        level.compare(&asked);
    }
}

#[test]
fn runs_whose_keys_are_all_equal_have_one_prefix() {
    for shape in shapes(0, 4) {
        let mut level = Level::new(shape, 1);
        let most = ((1usize << shape.character_bits) - 1).min(5);
        for _ in 0..most {
            level.arrive(vec![0xdead_beef_0000_0007; 300]);
        }
        level.compare(&[0xdead_beef_0000_0007, 0xdead_beef_0000_0008, 0, u64::MAX]);
        let entries = level.filter.as_ref().unwrap().entries();
        let expected = if shape.is_refined() { most as u64 } else { 1 };
        assert_eq!(entries, expected, "{shape:?}");
    }
}

#[test]
fn filters_of_many_pages_are_read_page_by_page() {
    // Sketches take only a few bits each, but there are enough of them for several pages, and one
    // prefix has more sketches than fit in a page.
    let shape = RoutingFilterShape {
        skipped_bits: 0,
        prefix_bits: 10,
        character_bits: 8,
        check_level: 1,
    };
    let mut level = Level::new(shape, 2);
    for _ in 0..12 {
        let mut hashes: Vec<u64> = (0..3000).map(|_| level.random.u64(..)).collect();
        hashes.extend((0..256).map(|check| 0x8000_0000_0000_0000 | check));
        level.arrive(hashes);
    }
    assert!(level.filter.as_ref().unwrap().pages() > 10);
    let mut asked: Vec<u64> = level
        .runs
        .iter()
        .flat_map(|run| run.iter().step_by(50))
        .copied()
        .collect();
    asked.extend((0..256).map(|check| 0x8000_0000_0000_0000 | check));
    asked.extend((0..100).map(|_| level.random.u64(..)));
    level.compare(&asked);
}

/// Returns the average number of runs that a lookup of an absent hash reads in a full level.
fn false_positives(shape: RoutingFilterShape, records: u64) -> f64 {
    let mut level = Level::new(shape, 77);
    let runs = (1usize << shape.character_bits) - 1;
    for _ in 0..runs {
        let hashes = (0..records).map(|_| level.random.u64(..)).collect();
        level.arrive(hashes);
    }
    let filter = level.filter.clone().unwrap();
    let prefixes: Vec<BTreeSet<u64>> = level
        .runs
        .iter()
        .map(|run| run.iter().map(|hash| shape.prefix(*hash)).collect())
        .collect();
    let (asked, mut read) = (4000, 0);
    for _ in 0..asked {
        let hash = level.random.u64(..);
        read += match ask(&level.store, &filter, hash) {
            CandidateRuns::Some(_) => ask(&level.store, &filter, hash).count(),
            // The chain of previous runs visits every run with the prefix.
            CandidateRuns::Latest(_) => prefixes
                .iter()
                .filter(|run| run.contains(&shape.prefix(hash)))
                .count() as u32,
            CandidateRuns::All => panic!("a level with a filter"),
        };
    }
    f64::from(read) / f64::from(asked)
}

#[test]
fn false_positives_follow_lambda_over_beta_and_check_characters_divide_them_by_lambda() {
    // There are β = λ prefixes for each record of a run. With n records in each of λ − 1 runs, (λ −
    // 1) n records are distributed over 2^bits prefixes, where λ n ≤ 2^bits ≤ 2 λ n.
    for (bits, records) in [(2, 1000), (4, 300)] {
        let lambda = f64::from(1 << bits);
        let plain = RoutingFilterShape::plain(0, bits, records);
        let density = (lambda - 1.0) * records as f64 / (1u64 << plain.prefix_bits) as f64;
        assert!((0.35..=1.0).contains(&density));
        let found = false_positives(plain, records);
        assert!(
            (found / density - 1.0).abs() < 0.15,
            "λ {lambda}: {found}, {density} expected"
        );
        assert!(found <= 1.0, "at most λ/β (Lemma 5)");
        let wider = RoutingFilterShape {
            prefix_bits: plain.prefix_bits + 2,
            ..plain
        };
        let fewer = false_positives(wider, records);
        assert!((4.0 * fewer / density - 1.0).abs() < 0.3, "β is 4 λ: {fewer}");
        let refined = false_positives(RoutingFilterShape::refined(0, bits, records, 3), records);
        let expected = density / lambda;
        assert!(
            (refined / expected - 1.0).abs() < 0.3,
            "{refined}, {expected} expected"
        );
    }
}

#[test]
fn a_builder_that_is_dropped_leaves_nothing() {
    for shape in shapes(0, 1000) {
        let mut level = Level::new(shape, 9);
        level.arrive(vec![1, 2, 3, u64::MAX]);
        if shape.character_bits == 1 {
            continue;
        }
        let before = level.store.extents().usage().total().live_bytes;
        let options = level
            .store
            .writer_options(Purpose::Compact, AllocationClass::Normal);
        let old = level.filter.as_ref();
        let mut builder = RoutingFilterBuilder::new(&level.store, options, shape, old, 1, 1000).unwrap();
        for hash in 0..500u64 {
            builder.push(hash << 50).unwrap();
        }
        drop(builder);
        let mut builder = RoutingFilterBuilder::new(&level.store, options, shape, old, 1, 1000).unwrap();
        while !builder.go_on(100).unwrap() {}
        drop(builder.finish().unwrap());
        assert_eq!(level.store.extents().usage().total().live_bytes, before);
        let filter = level.filter.as_ref().unwrap();
        let reachable = filter.extents().map(|(extent, _)| (extent, 1));
        assert_eq!(level.store.check(reachable).unwrap(), Vec::<String>::new());
    }
}
