//! Size, accuracy and speed of the filters: `cargo bench -p alluvium-filters`.
//!
//! Two Bloom filters, the split-block kind and the textbook one, are measured in the same run, over
//! the same keys and at the same false-positive rate. Their lookups alternate with the quotient
//! filter's, so that disturbances of the machine affect all of them. Figures are medians over turns
//! of about 100 µs. "One by one" calls the lookup of one page; "in batches" prefetches the memory
//! of later lookups before it performs the earlier ones, as the trees do.

mod split;
mod textbook;

use alluvium_filters::{
    EntryChunk, Error, FilterBuilder, FilterEntry, FilterGeometry, FilterImage, FilterShape, Fingerprint,
    PageView, QuotientMaplet, lookup_many, merge, sort,
};
use split::SplitBlock;
use std::hint::black_box;
use std::time::Instant;
use textbook::Textbook;

/// Number of probes in one call of `lookup_many`.
const BATCH: usize = 256;

/// Prefetch distance of the Bloom filter in lookups. This value is the best for it.
const AHEAD: usize = 16;

/// Lookups per turn: about 100 µs, less than a time slice.
const TURN: usize = 10_000;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let scale = if full {
        Scale {
            small: 20,
            large: 28,
            turns: 60,
            strangers: 20_000_000,
            merged: 2_000_000,
        }
    } else {
        TINY
    };
    space_and_false_positives(&scale);
    lookups(&scale);
    building_and_merging(&scale);
}

/// The amount of work.
struct Scale {
    /// Binary logarithm of the bytes of a filter that fits a core's cache.
    small: u32,
    /// Binary logarithm of the bytes of a filter that does not fit.
    large: u32,
    turns: usize,
    strangers: usize,
    /// Fingerprints in each filter that is merged.
    merged: u64,
}

const TINY: Scale = Scale {
    small: 14,
    large: 15,
    turns: 1,
    strangers: 20_000,
    merged: 2000,
};

/// A filter and its contents.
struct Quotient {
    geometry: FilterGeometry,
    bytes: Vec<u8>,
    hashes: Vec<u64>,
    spilled: u32,
}

/// Builds a filter of about `bytes` bytes at this load. The number of quotients is (just above) a
/// power of two, so the remainders use exactly the freedom of their bits.
fn quotient(bytes: u64, remainder_bits: u32, value_bits: u32, load: f64) -> Quotient {
    let bits_per_quotient = f64::from(remainder_bits + value_bits) + 2.8;
    let quotient_bits = (bytes as f64 * 8.0 / bits_per_quotient).log2().round() as u32;
    let shape = FilterShape::new(quotient_bits + remainder_bits, value_bits);
    let (mut low, mut high) = (1u32, 1 << 20);
    while low < high {
        let middle = low.midpoint(high);
        let enough = !FilterGeometry::with_pages(middle, shape)
            .is_ok_and(|geometry| geometry.quotients() < 1 << quotient_bits);
        if enough { high = middle } else { low = middle + 1 }
    }
    let geometry = FilterGeometry::with_pages(low, shape).expect("a filter of this shape");
    assert_eq!(geometry.remainder_bits(), remainder_bits);
    let mut random = fastrand::Rng::with_seed(7);
    let keys = (geometry.quotients() as f64 * load) as usize;
    let hashes: Vec<u64> = (0..keys).map(|_| random.u64(..)).collect();
    let mut entries: Vec<FilterEntry> = hashes
        .iter()
        .map(|&hash| {
            FilterEntry::new(
                geometry.fingerprint(hash),
                (hash & ((1 << value_bits) - 1)) as u16,
            )
        })
        .collect();
    sort(&mut entries);
    let (bytes, spilled) = build(geometry, &entries);
    Quotient {
        geometry,
        bytes,
        hashes,
        spilled,
    }
}

fn build(geometry: FilterGeometry, entries: &[FilterEntry]) -> (Vec<u8>, u32) {
    let mut bytes = Vec::with_capacity(geometry.bytes() as usize + 65536);
    let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<(), Error> {
        bytes.extend_from_slice(page);
        Ok(())
    });
    entries
        .iter()
        .try_for_each(|&entry| builder.push(entry, 1))
        .expect("sorted entries");
    let built = builder.finish().expect("memory takes every page");
    (bytes, built.spilled)
}

impl SplitBlock {
    fn one_by_one(&self, hashes: &[u64]) -> usize {
        hashes.iter().filter(|&&hash| self.contains(hash)).count()
    }

    fn in_batches(&self, hashes: &[u64]) -> usize {
        let mut count = 0;
        for turn in 0..hashes.len() + AHEAD {
            if let Some(&hash) = hashes.get(turn) {
                self.prefetch(hash);
            }
            if let Some(&hash) = hashes.get(turn.wrapping_sub(AHEAD)) {
                count += usize::from(self.contains(hash));
            }
        }
        count
    }
}

impl Quotient {
    #[inline(always)]
    fn probe(&self, hash: u64) -> (PageView<'_>, Fingerprint) {
        let fingerprint = self.geometry.fingerprint(hash);
        let at = self.geometry.page_of(fingerprint) as usize * 4096;
        (
            PageView::new(&self.geometry, &self.bytes[at..at + 4096]).expect("a page"),
            fingerprint,
        )
    }

    fn one_by_one(&self, hashes: &[u64]) -> usize {
        let found = |&&hash: &&u64| {
            let (view, fingerprint) = self.probe(hash);
            view.contains(fingerprint) != alluvium_filters::FingerprintPresence::Absent
        };
        hashes.iter().filter(found).count()
    }

    /// Looks up the newest value of each hash, as the trees do.
    fn values(&self, hashes: &[u64]) -> usize {
        let newest = |&hash: &u64| {
            let (view, fingerprint) = self.probe(hash);
            match view.lookup(fingerprint) {
                alluvium_filters::PageLookup::InPage(mut values) => {
                    values.next().map_or(0, |value| usize::from(value) | 1)
                }
                alluvium_filters::PageLookup::Spilled => 1,
            }
        };
        hashes.iter().map(newest).sum()
    }

    fn in_batches(&self, hashes: &[u64]) -> usize {
        let mut count = 0;
        for hashes in hashes.chunks(BATCH) {
            let mut probes = [self.probe(0); BATCH];
            probes
                .iter_mut()
                .zip(hashes)
                .for_each(|(probe, &hash)| *probe = self.probe(hash));
            let found = |_, found: alluvium_filters::PageLookup<'_>| {
                count += usize::from(found.presence() != alluvium_filters::FingerprintPresence::Absent);
            };
            lookup_many(&probes[..hashes.len()], found);
        }
        count
    }
}

fn space_and_false_positives(scale: &Scale) {
    println!(
        "Space and false positives; theory is load x 2^-remainder bits, and the rate that both bloom filters are built for"
    );
    println!(
        "                  bits/key: quotient | split-block | literature   false positives      theory   ratio   in a second page"
    );
    for remainder_bits in [12, 8] {
        for load in [0.5, 0.9, 0.95] {
            let filter = quotient(1 << (scale.small + 1), remainder_bits, 0, load);
            let image = FilterImage::new(&filter.geometry, &filter.bytes).expect("a filter");
            let keys = filter.hashes.len() as f64;
            let theory = load * f64::from(-(remainder_bits as i32)).exp2();
            let (split, textbook) = (
                SplitBlock::build(&filter.hashes, theory),
                Textbook::build(&filter.hashes, theory),
            );
            let mut random = fastrand::Rng::with_seed(8);
            let strangers: Vec<u64> = (0..scale.strangers).map(|_| random.u64(..)).collect();
            let rate = |is_there: &dyn Fn(u64) -> bool| {
                strangers.iter().filter(|&&hash| is_there(hash)).count() as f64 / strangers.len() as f64
            };
            let wrong = rate(&|hash| {
                image
                    .contains(filter.geometry.fingerprint(hash))
                    .expect("a sound filter")
            });
            println!(
                "{remainder_bits:>2} bits at {:>2.0} %  {:>17.2} | {:>11.2} | {:>10.2}   {wrong:>15.3e}   {theory:>9.3e}  {:>6.3}   {:>14.4} %",
                load * 100.0,
                filter.bytes.len() as f64 * 8.0 / keys,
                split.bytes() as f64 * 8.0 / keys,
                textbook.bytes() as f64 * 8.0 / keys,
                wrong / theory,
                f64::from(filter.spilled) / keys * 100.0,
            );
            let blooms = [
                rate(&|hash| split.contains(hash)),
                rate(&|hash| textbook.contains(hash)),
            ];
            assert!(
                strangers.len() < 1_000_000
                    || blooms.iter().all(|rate| (0.9..1.1).contains(&(rate / theory))),
                "the bloom filters' rates {blooms:?} are not {theory}"
            );
        }
    }
}

fn lookups(scale: &Scale) {
    println!(
        "\nLookups, millions a second in one thread: quotient | split-block | literature's blocked bloom filter"
    );
    println!(
        "       size  bits    load        misses, one by one    in batches          hits, one by one      in batches     newest value"
    );
    let small = [(12, 0), (8, 0), (12, 4)]
        .into_iter()
        .flat_map(|bits| [0.5, 0.9, 0.95].map(|load| (scale.small, bits, load)));
    for (log, (remainder_bits, value_bits), load) in
        small.chain([(scale.large, (12, 0), 0.9), (scale.large, (12, 4), 0.95)])
    {
        let filter = quotient(1 << log, remainder_bits, value_bits, load);
        let rate = load * f64::from(-(remainder_bits as i32)).exp2();
        let (split, textbook) = (
            SplitBlock::build(&filter.hashes, rate),
            Textbook::build(&filter.hashes, rate),
        );
        let mut random = fastrand::Rng::with_seed(9);
        let queries = TURN * scale.turns;
        let misses: Vec<u64> = (0..queries).map(|_| random.u64(..)).collect();
        let hits: Vec<u64> = (0..queries)
            .map(|_| filter.hashes[random.usize(..filter.hashes.len())])
            .collect();
        print!(
            "{:>7} KiB  {remainder_bits:>2}+{value_bits}  {:>4.0} %",
            filter.bytes.len() >> 10,
            load * 100.0
        );
        for queries in [&misses, &hits] {
            let [one, blooms_one, textbooks, batch, blooms_batch] = rates(
                queries,
                [
                    &|hashes: &[u64]| filter.one_by_one(hashes),
                    &|hashes: &[u64]| split.one_by_one(hashes),
                    &|hashes: &[u64]| hashes.iter().filter(|&&hash| textbook.contains(hash)).count(),
                    &|hashes: &[u64]| filter.in_batches(hashes),
                    &|hashes: &[u64]| split.in_batches(hashes),
                ],
            );
            print!("   {one:>6.1} |{blooms_one:>6.1} |{textbooks:>6.1}   {batch:>6.1} |{blooms_batch:>6.1}");
        }
        let [values] = rates(&hits, [&|hashes: &[u64]| filter.values(hashes)]);
        println!("   {values:>6.1}");
    }
}

/// A lookup method. Its result depends on every answer.
type Way<'a> = &'a dyn Fn(&[u64]) -> usize;

/// Runs each method over a sequence of turns, then the next method over the same sequence, three
/// times over all queries. Returns the median rate of each method's turns in millions per second. A
/// sequence is long enough for a method's filter to return to the cache.
fn rates<const N: usize>(queries: &[u64], ways: [Way<'_>; N]) -> [f64; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..3 {
        for stretch in queries.chunks(TURN * 12) {
            for (way, times) in ways.iter().zip(&mut times) {
                for queries in stretch.chunks(TURN) {
                    let begin = Instant::now();
                    black_box(way(queries));
                    times.push(begin.elapsed().as_secs_f64() / queries.len() as f64);
                }
            }
        }
    }
    times.map(|times| 1e-6 / median(times))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn building_and_merging(scale: &Scale) {
    println!(
        "\nBuilding and merging, millions of fingerprints a second in one thread (slots of 12 + 4 bits at 90 %)"
    );
    let shape = FilterShape::new(36, 4);
    let total = scale.merged * 4;
    let of = |count: u64, seconds: f64| count as f64 / seconds * 1e-6;
    let mut random = fastrand::Rng::with_seed(10);
    let geometry = FilterGeometry::for_entries(total, shape).expect("a filter");
    let unsorted: Vec<FilterEntry> = (0..total)
        .map(|_| FilterEntry::new(geometry.fingerprint(random.u64(..)), random.u16(..16)))
        .collect();
    let mut sorted = unsorted.clone();
    println!(
        "sort                      {:>7.1}",
        of(
            total,
            thrice(|| {
                sorted.clone_from(&unsorted);
                sort(&mut sorted);
            })
        )
    );
    println!(
        "build from sorted         {:>7.1}",
        of(total, thrice(|| drop(black_box(build(geometry, &sorted)))))
    );
    for ways in [2u64, 4, 8, 16] {
        let parts: Vec<_> = (0..ways)
            .map(|part| {
                let entries: Vec<FilterEntry> = sorted
                    .iter()
                    .skip(part as usize)
                    .step_by(ways as usize)
                    .copied()
                    .collect();
                let geometry = FilterGeometry::for_entries(entries.len() as u64, shape).expect("a filter");
                (geometry, build(geometry, &entries).0)
            })
            .collect();
        let seconds = thrice(|| {
            let mut pages = 0;
            let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<(), Error> {
                black_box(page);
                pages += 1;
                Ok(())
            });
            let sources = parts
                .iter()
                .map(|(geometry, bytes)| FilterImage::new(geometry, bytes).expect("a filter").source());
            let keep =
                |source: usize, entry: FilterEntry| (entry.bits() & 0xff_0000 != 0).then_some(source as u16);
            merge(sources.collect(), keep, &mut builder).expect("sound filters");
            black_box(builder.finish::<Error>().expect("memory takes every page"));
        });
        println!("merge of {ways:>2}               {:>7.1}", of(total, seconds));
    }
    reading_and_inserting(&sorted, &unsorted, geometry);
}

fn reading_and_inserting(sorted: &[FilterEntry], unsorted: &[FilterEntry], geometry: FilterGeometry) {
    let (bytes, _) = build(geometry, sorted);
    let image = FilterImage::new(&geometry, &bytes).expect("a filter");
    let seconds = thrice(|| {
        let (mut source, mut chunk) = (image.source(), EntryChunk::new());
        while source(&mut chunk).expect("a sound filter") {
            black_box(chunk.entries().len());
        }
    });
    println!(
        "read in order             {:>7.1}",
        sorted.len() as f64 / seconds * 1e-6
    );
    let some = &unsorted[..unsorted.len().min(200_000)];
    let seconds = thrice(|| {
        let mut maplet = QuotientMaplet::new(
            FilterGeometry::for_entries(some.len() as u64, geometry.shape()).expect("a filter"),
        );
        some.iter().for_each(|&entry| maplet.insert(entry).expect("room"));
        black_box(maplet.len());
    });
    println!(
        "insert one by one         {:>7.2}",
        some.len() as f64 / seconds * 1e-6
    );
}

/// The median time of three runs, in seconds.
fn thrice(mut run: impl FnMut()) -> f64 {
    median(
        (0..3)
            .map(|_| {
                let begin = Instant::now();
                run();
                begin.elapsed().as_secs_f64()
            })
            .collect(),
    )
}
