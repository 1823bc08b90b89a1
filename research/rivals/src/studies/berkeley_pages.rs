//! Berkeley DB with pages of 4 to 64 KiB: the cost of an insert and of a query, with a cache of a
//! sixteenth of the data (Bender et al. 2021, §5 and Figure 2).
//!
//! Debian builds the library without direct I/O, so that measured times are those of the page
//! cache. Pages are also counted and charged at the cost of the modelled disk, one request for each
//! page.

use super::{StudyDirectory, line};
use crate::berkeley::{BerkeleySizes, BerkeleyStore, LoggingMode, PageTransfers};
use alluvium_lab::MeasurementSet;
use alluvium_model::SplitMix64;
use alluvium_model::presets::HITACHI_1TB_2009;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Instant;

/// Bytes of a key, and of its value.
const KEY: usize = 16;
const VALUE: usize = 100;
/// Minimum bytes of a stored pair: two entries with their page offsets.
const STORED: u64 = 128;
/// Distance between loaded keys; inserts use the gaps.
const GAP: u64 = 1000;
/// The cache holds a `PART`-th of the data, but has at least the following number of bytes.
const PART: u64 = 16;
const LEAST_CACHE: u64 = 1 << 20;
/// Records for each insert that ages the tree.
const AGING: u64 = 20;
const KIB: [u32; 5] = [4, 8, 16, 32, 64];

pub(super) fn measure(directory: &Path, records: u64) -> Result<MeasurementSet> {
    ensure!(
        records >= 20_000,
        "--records {records}: 20000 are the fewest that a cache does not hold"
    );
    let mut points: Vec<(f64, PageSizeCosts)> = Vec::new();
    for kib in KIB {
        let place = StudyDirectory::new(&directory.join(format!("{kib}-kib")))?;
        points.push((f64::from(kib), at(place.path(), kib << 10, records)?));
    }
    let of = |what: &str, figure: fn(&PageSizeCosts) -> f64| {
        let all: Vec<(f64, f64)> = points.iter().map(|(kib, point)| (*kib, figure(point))).collect();
        line(format!("{what}, berkeley-db"), &all)
    };
    Ok(MeasurementSet {
        counts: vec![
            of("inserts", |point| point.insert.disk_us),
            of("queries", |point| point.query.disk_us),
            of("pages of inserts", |point| point.insert.pages),
            of("pages of queries", |point| point.query.pages),
            of("time of inserts", |point| point.insert.here_us),
            of("time of queries", |point| point.query.here_us),
        ],
        ..MeasurementSet::default()
    })
}

/// The average cost of an operation.
struct OperationCost {
    /// Number of pages read and written.
    pages: f64,
    /// Time on a disk of the affine model, in microseconds.
    disk_us: f64,
    /// Measured time through the page cache, in microseconds.
    here_us: f64,
}

struct PageSizeCosts {
    insert: OperationCost,
    query: OperationCost,
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:0KEY$}").into_bytes()
}

fn at(directory: &Path, page_bytes: u32, records: u64) -> Result<PageSizeCosts> {
    let sizes = BerkeleySizes {
        page_bytes,
        cache_bytes: (records * STORED / PART).max(LEAST_CACHE),
    };
    let store = BerkeleyStore::open(directory, sizes, LoggingMode::None)?;
    let value = [b'v'; VALUE];
    for number in 0..records {
        store.put(&key(number * GAP), &value)?;
    }
    let (mut random, keys) = (SplitMix64::from_seed(1), usize::try_from(records)?);
    let mut insert = |count: u64| -> Result<()> {
        for _ in 0..count {
            store.put(&key(random.below(keys * GAP as usize) as u64), &value)?;
        }
        Ok(())
    };
    insert(records / AGING)?;
    let count = (records / 100).clamp(1000, 20_000);
    let inserts = timed(&store, page_bytes, count, || insert(count))?;
    let (mut random, mut buffer) = (SplitMix64::from_seed(2), vec![0; 4 * VALUE]);
    let queries = timed(&store, page_bytes, count, || {
        for _ in 0..count {
            let number = random.below(keys) as u64;
            let found = store.get(&key(number * GAP), &mut buffer)?;
            ensure!(found == Some(&value), "Berkeley DB has lost record {number}");
        }
        Ok(())
    })?;
    store.close()?;
    Ok(PageSizeCosts {
        insert: inserts,
        query: queries,
    })
}

/// Performs `count` operations and returns their average cost.
fn timed(
    store: &BerkeleyStore,
    page_bytes: u32,
    count: u64,
    work: impl FnOnce() -> Result<()>,
) -> Result<OperationCost> {
    let (before, start): (PageTransfers, Instant) = (store.pages()?, Instant::now());
    work()?;
    let here_us = start.elapsed().as_secs_f64() * 1e6 / count as f64;
    let pages = store.pages()?.since(before).moved() as f64 / count as f64;
    let page_us = HITACHI_1TB_2009.clock().cost_ns(u64::from(page_bytes)) as f64 / 1e3;
    Ok(OperationCost {
        pages,
        disk_us: pages * page_us,
        here_us,
    })
}
