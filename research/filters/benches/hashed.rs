//! Benchmarks of structures that locate a hash: cuckoo tables, tries, perfect hashes, block
//! indexes. Run: `cargo bench -p research-filters`.
//!
//! "Paper" figures are those of Lim's thesis (2015) on one core of an i7-860 at 2.8 GHz, and of
//! Kurpicz et al. (2022).

use alluvium_filters::trie::{BatchChange, TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape};
use alluvium_filters::{Error, pachash};
use research_filters::{cuckoo, perfect};
use std::hint::black_box;
use std::time::Instant;

/// The length of a key in bytes: that of a SHA-1 digest.
const KEY: usize = 20;

type Key = [u8; KEY];

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    all(if full { 2_000_000 } else { 3000 });
}

/// Returns the median time of three runs, in seconds.
fn thrice(mut run: impl FnMut()) -> f64 {
    let mut seconds = [0.0; 3].map(|_| {
        let begin = Instant::now();
        run();
        begin.elapsed().as_secs_f64()
    });
    seconds.sort_by(f64::total_cmp);
    seconds[1]
}

/// Measures all structures with this number of keys.
fn all(keys: usize) {
    let mut random = fastrand::Rng::with_seed(12);
    let mut sorted: Vec<Key> = (0..keys).map(|_| [0; KEY].map(|_: u8| random.u8(..))).collect();
    sorted.sort_unstable();
    let mut queries: Vec<usize> = (0..sorted.len()).collect();
    random.shuffle(&mut queries);
    queries.truncate(200_000);
    println!("\nStructures over hashed keys of {KEY} bytes, {keys} of them, in one thread");
    cuckoo_tables(keys.min(100_000));
    tries(&sorted, &queries);
    sparse(&sorted, &queries);
    updates(&sorted);
    perfect_hashes(&sorted, &queries);
    block_indexes(keys);
}

/// Calls `look` for every query in batches of a few hundred. Returns the nanoseconds per call of
/// the median batch, and of the batch at the tenth percentile, which is the least disturbed.
fn time<T>(queries: &[T], mut look: impl FnMut(&T) -> u64) -> (f64, f64) {
    let mut turn = |queries: &[T]| {
        let begin = Instant::now();
        let sum = queries.iter().map(&mut look).fold(0u64, u64::wrapping_add);
        black_box(sum);
        begin.elapsed().as_secs_f64() / queries.len() as f64 * 1e9
    };
    let mut times: Vec<f64> = queries.chunks(400).map(&mut turn).collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() / 10])
}

/// The rate of a run over a number of operations, in millions per second.
fn rate(count: usize, seconds: f64) -> f64 {
    count as f64 / seconds * 1e-6
}

fn cuckoo_tables(lookups: usize) {
    println!(
        "\ncuckoo, 15-bit tags    load at first failure   insert M/s    hit M/s   miss M/s   filter M/s   bits a key   bytes a key"
    );
    println!(
        "paper (A or B)                0.93                10.2        1.84          -            -         16.1          6.5"
    );
    let small = lookups < 10_000;
    let shapes = if small {
        [cuckoo::CuckooShape::alternate(8), cuckoo::CuckooShape::xor(8, 15)]
    } else {
        [
            cuckoo::CuckooShape::alternate(15),
            cuckoo::CuckooShape::xor(15, 15),
        ]
    };
    for shape in shapes {
        let shape = shape.expect("a usual shape");
        let (mut load, mut inserted, mut last) = (0.0, 0, None);
        let begin = Instant::now();
        let runs = if small { 1 } else { 20 };
        for seed in 0..runs {
            let (mut table, mut random) = (
                cuckoo::CuckooTable::new(shape, seed),
                fastrand::Rng::with_seed(seed),
            );
            while table.insert(random.u64(..), 7).is_ok() {}
            load += table.load();
            inserted += table.len() as usize;
            last = Some((table, seed));
        }
        let insert = rate(inserted, begin.elapsed().as_secs_f64());
        let (table, seed) = last.expect("a run at least");
        let len = table.len() as usize;
        let hashes = |seed| -> Vec<u64> {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..len).map(|_| random.u64(..)).collect()
        };
        let candidate = |hash: &u64| {
            table
                .candidates(*hash)
                .next()
                .map_or(0, |(_, offset)| offset.into())
        };
        let (hit, miss) = (time(&hashes(seed), candidate), time(&hashes(99), candidate));
        let bytes = cuckoo::encode(&table);
        let filter = cuckoo::CuckooFilter::open(&bytes).expect("just written");
        let in_filter = time(&hashes(99), |hash| filter.may_hold(*hash).into());
        println!(
            "{:<22}        {:.4}            {insert:>8.1}   {:>8.1}   {:>8.1}     {:>8.1}     {:>8.2}      {:>8.2}",
            format!("{:?}", shape.variant()),
            load / runs as f64,
            1e3 / hit.0,
            1e3 / miss.0,
            1e3 / in_filter.0,
            bytes.len() as f64 * 8.0 / len as f64,
            table.bytes() as f64 / len as f64,
        );
    }
}

fn build(codes: &TrieCodes, shape: TrieShape, sorted: &[Key]) -> Vec<u8> {
    let mut builder =
        TrieIndexBuilder::new(codes, shape, shape.buckets(sorted.len() as u64)).expect("a shape");
    sorted
        .iter()
        .try_for_each(|key| builder.push(key))
        .expect("sorted keys");
    builder.finish()
}

/// Microseconds per lookup: of the median batch and of the tenth percentile.
fn lookups(index: &TrieIndex<'_>, sorted: &[Key], queries: &[usize]) -> String {
    let look = |at: &usize| index.lookup(&sorted[*at]).expect("sound").unwrap_or(0);
    let (median, quiet) = time(queries, look);
    format!("{:>8.3} {:>8.3}", median * 1e-3, quiet * 1e-3)
}

fn tries(sorted: &[Key], queries: &[usize]) {
    println!(
        "\ntries   g    hmax   bits a key   expected   lookup µs: median, quiet   build M/s   (paper at 256, 64: 2.51 bits, 7 µs, 7.6 M/s)"
    );
    let swept = [16, 32, 64, 128, 256, 512, 1024].map(|keys| (keys, 64));
    let hmaxes = [1, 8, 16, 32, 128, 256].map(|hmax| (256, hmax));
    for (keys_per_bucket, hmax) in swept.into_iter().chain(hmaxes) {
        let codes = TrieCodes::new(hmax);
        let shape = TrieShape {
            keys_per_bucket,
            hmax,
            ..TrieShape::new(KEY as u32)
        };
        let mut bytes = Vec::new();
        let seconds = thrice(|| bytes = build(&codes, shape, sorted));
        let index = TrieIndex::open(&codes, KEY as u32, &bytes).expect("just written");
        println!(
            "{keys_per_bucket:>9} {hmax:>7}   {:>10.4}   {:>8.4}   {:>24}   {:>9.2}",
            bytes.len() as f64 * 8.0 / sorted.len() as f64,
            codes.expected_bits_per_key(keys_per_bucket),
            lookups(&index, sorted, queries),
            rate(sorted.len(), seconds),
        );
    }
}

fn sparse(sorted: &[Key], queries: &[usize]) {
    println!("\nsparse tries, items a block   trie bits a key   all bits a key   lookup µs: median, quiet");
    let codes = TrieCodes::new(64);
    for block_items in [2, 4, 8, 16, 32, 64] {
        let shape = TrieShape {
            block_items,
            ..TrieShape::new(KEY as u32)
        };
        let bytes = build(&codes, shape, sorted);
        let index = TrieIndex::open(&codes, KEY as u32, &bytes).expect("just written");
        println!(
            "{block_items:>27}   {:>15.4}   {:>14.4}   {}",
            index.trie_bits() as f64 / sorted.len() as f64,
            bytes.len() as f64 * 8.0 / sorted.len() as f64,
            lookups(&index, sorted, queries),
        );
    }
}

/// Updating with a batch of one key in a thousand, compared with rebuilding from all keys.
fn updates(sorted: &[Key]) {
    let codes = TrieCodes::new(64);
    let shape = TrieShape::new(KEY as u32);
    let bytes = build(&codes, shape, sorted);
    let index = TrieIndex::open(&codes, KEY as u32, &bytes).expect("just written");
    let changes: Vec<(Key, BatchChange)> = sorted
        .iter()
        .step_by(1000)
        .map(|key| (*key, BatchChange::Delete))
        .collect();
    let mut read = 0;
    let seconds = thrice(|| {
        read = 0;
        let updated = index.update(&codes, &changes, |items| -> Result<Vec<Key>, Error> {
            read += items.end - items.start;
            Ok(sorted[items.start as usize..items.end as usize].to_vec())
        });
        black_box(updated.expect("sound").len());
    });
    let again = thrice(|| drop(black_box(build(&codes, shape, sorted))));
    println!(
        "\nupdate of 1 key in 1000: {:.1} ms, {:.0} % of the keys read; building again: {:.1} ms",
        seconds * 1e3,
        read as f64 / sorted.len() as f64 * 100.0,
        again * 1e3,
    );
}

fn perfect_hashes(sorted: &[Key], queries: &[usize]) {
    let mut bytes = Vec::new();
    let seconds = thrice(|| {
        let buckets = perfect::buckets(sorted.len() as u64);
        let mut builder = perfect::PerfectHashBuilder::new(KEY as u32, buckets, |_, _| {}).expect("a shape");
        sorted
            .iter()
            .try_for_each(|key| builder.push(key))
            .expect("sorted keys");
        bytes = builder.finish().expect("distinct keys");
    });
    let index = perfect::PerfectHashIndex::open(KEY as u32, &bytes).expect("just written");
    let (median, quiet) = time(queries, |at| {
        index.lookup(&sorted[*at]).expect("sound").unwrap_or(0)
    });
    println!(
        "\nperfect hashes (re-implementation of EPH): {:.3} bits a key (paper 3.85 and 3 MiB), lookup {:.3} µs, quiet {:.3} (paper 0.6), build {:.2} M/s",
        bytes.len() as f64 * 8.0 / sorted.len() as f64,
        median * 1e-3,
        quiet * 1e-3,
        rate(sorted.len(), seconds),
    );
}

fn block_indexes(objects: usize) {
    println!(
        "\nblock index, bins a block   bits a block   blocks a lookup   lookup ns: median, quiet   build M/s   (paper at 8: about 5 bits)"
    );
    let mut random = fastrand::Rng::with_seed(13);
    let mut sorted: Vec<(u64, u64)> = (0..objects)
        .map(|_| (random.u64(..), random.u64(50..462)))
        .collect();
    sorted.sort_unstable();
    let mut hashes: Vec<u64> = sorted.iter().map(|(hash, _)| *hash).collect();
    random.shuffle(&mut hashes);
    let total = sorted.iter().map(|(_, bytes)| bytes).sum();
    for bins_log in [2, 3, 4] {
        let mut bytes = Vec::new();
        let seconds = thrice(|| {
            let shape = pachash::BlockIndexShape::with_bins(total, 4096, bins_log).expect("a shape");
            let mut builder = pachash::BlockIndexBuilder::new(shape);
            let mut pushed = sorted.iter().map(|&(hash, bytes)| builder.push(hash, bytes));
            pushed.try_for_each(|pushed| pushed).expect("sorted objects");
            bytes = builder.finish().expect("all bytes");
        });
        let index = pachash::BlockIndex::open(&bytes).expect("just written");
        let blocks: u64 = hashes
            .iter()
            .map(|&hash| index.blocks(hash).expect("sound"))
            .map(|found| found.end - found.start)
            .sum();
        let (median, quiet) = time(&hashes, |hash| index.blocks(*hash).expect("sound").end);
        println!(
            "{:>25}   {:>12.3}   {:>15.4}   {:>14.1} {:>9.1}   {:>9.1}",
            1 << bins_log,
            bytes.len() as f64 * 8.0 / index.shape().blocks() as f64,
            blocks as f64 / objects as f64,
            median,
            quiet,
            rate(objects, seconds),
        );
    }
}
