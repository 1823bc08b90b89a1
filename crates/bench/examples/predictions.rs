//! Measures the errors of the models: runs fifty workloads, ten of which drift, each on its own
//! store, and compares the predictions of `Db::forecast` with measurements. Each store is loaded
//! and reopened. It runs the workload once, to bring its caches and levels to a steady state, and
//! is measured while it runs the workload twice more. `cargo run --release --example predictions -p
//! alluvium-bench -- 400000`.
//!
//! The first argument is the number of records; each workload uses all of them, a half or a
//! quarter. The second is the directory of the stores, which are removed at the end. If it contains
//! the results of `alluvium probe` for its device, they are used. The third is the number of a
//! single workload to run.

#![allow(clippy::disallowed_methods)]

use alluvium::{CostComparison, CostQuantity, Db, Keyspace, KeyspaceOptions, Options, Stats};
use alluvium_bench::workload::keys::scatter;
use alluvium_bench::workload::zipf::ZipfGenerator;
use alluvium_device::probe::{ProbeClock, ProcessClock};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The file where `alluvium probe` stores its measurements.
const PROBE: &str = "probe.txt";
/// Number of workloads, and of drifting ones, which come last.
const WORKLOADS: usize = 50;
const DRIFTING: usize = 10;

/// A workload, in percentages of operations. The rest are lookups of existing keys.
#[derive(Clone, Copy, Debug)]
struct Workload {
    structure: &'static str,
    records: u64,
    memory: u64,
    value: usize,
    puts: u64,
    deletes: u64,
    misses: u64,
    is_skewed: bool,
    is_drifting: bool,
}

/// Returns one of the workloads. The periods of their properties are coprime, so most combinations
/// occur.
fn workload(number: usize, most: u64) -> Workload {
    let (puts, deletes, misses) = [
        (5, 0, 5),
        (50, 0, 0),
        (100, 0, 0),
        (40, 10, 10),
        (0, 0, 20),
        (95, 0, 5),
        (20, 5, 0),
    ][number % 7];
    Workload {
        structure: [
            "tiered",
            "tiered",
            "levels,samt,k=4",
            "tiered",
            "hashed",
            "tiered",
            "levels,cola,r=3",
        ][(number / 2) % 7],
        records: most / [1, 2, 4][number % 3],
        memory: [16 << 20, 32 << 20, 64 << 20][(number / 3) % 3],
        value: [100, 400, 30, 1000][number % 4],
        puts,
        deletes,
        misses,
        is_skewed: !number.is_multiple_of(2),
        is_drifting: number >= WORKLOADS - DRIFTING,
    }
}

/// Returns the key with this number.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scatter(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Writes each record once.
fn load(keyspace: &Keyspace, workload: &Workload) -> Result<()> {
    for number in 0..workload.records {
        keyspace.put(key(number), vec![number as u8; workload.value])?;
    }
    Ok(())
}

/// Runs as many operations as there are records. A drifting workload moves its popular keys and
/// gradually turns reads into writes.
fn work(keyspace: &Keyspace, workload: &Workload, seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let zipf = ZipfGenerator::new(workload.records);
    for done in 0..workload.records {
        let tenth = 10 * done / workload.records;
        let drawn = match workload.is_skewed {
            true => scatter(zipf.draw(&mut random)) % workload.records,
            false => random.u64(..workload.records),
        };
        let moved = if workload.is_drifting {
            tenth * workload.records / 50
        } else {
            0
        };
        let number = (drawn + moved) % workload.records;
        let drift = if workload.is_drifting { 3 * tenth } else { 0 };
        let puts = (workload.puts + drift).min(100);
        match random.u64(..100) {
            at if at < puts => keyspace.put(key(number), vec![done as u8; workload.value])?,
            at if at < puts + workload.deletes => keyspace.delete(key(number))?,
            at if at < puts + workload.deletes + workload.misses => {
                keyspace.get(key(number + workload.records))?;
            }
            _ => {
                keyspace.get(key(number))?;
            }
        }
    }
    Ok(())
}

/// Sums of one quantity over all workloads.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: usize,
    held: usize,
    error: f64,
}

/// The counters at a point in time.
struct Moment {
    stats: Stats,
    /// Number of operations of the workload.
    operations: u64,
    /// Processor time of this process.
    processor_ns: u64,
}

impl Moment {
    fn of(db: &Db, operations: u64) -> Moment {
        Moment {
            stats: db.stats(),
            operations,
            processor_ns: ProcessClock::new().cpu_ns(),
        }
    }
}

/// Returns a quantity between two moments, or `None` if there was too little activity. Merges write
/// in steps as large as the data, so writes count only if they amount to at least half of it.
fn measured(before: &Moment, after: &Moment, row: &CostComparison, data: f64) -> Option<f64> {
    let of = |count: fn(&Stats) -> u64| (count(&after.stats) - count(&before.stats)) as f64;
    let each = |all: f64, some: f64, least: f64| (some >= least).then(|| all / some);
    match row.what {
        CostQuantity::WriteAmplification => {
            let user = of(|stats| stats.written_bytes);
            each(of(|stats| stats.device.total().written_bytes), user, data / 2.0)
        }
        CostQuantity::HitReads => {
            let found = of(|stats| stats.operations.found);
            each(of(|stats| stats.operations.found_reads), found, 1000.0)
        }
        CostQuantity::MissReads => {
            let absent = of(|stats| stats.operations.absent);
            each(of(|stats| stats.operations.absent_reads), absent, 1000.0)
        }
        CostQuantity::ProcessorTime => {
            let ns = after.processor_ns - before.processor_ns;
            Some(ns as f64 / (after.operations - before.operations) as f64)
        }
        // The other quantities describe a single moment.
        _ => row.measured,
    }
}

fn measure(place: &Path, number: usize, workload: &Workload, sums: &mut [Sum]) -> Result<()> {
    let path = &place.join("store");
    let mut options = Options::new().memory(workload.memory);
    let costs = place.with_file_name(PROBE);
    if costs.exists() {
        std::fs::create_dir(path)?;
        std::fs::copy(&costs, path.join(PROBE))?;
        options = options.measured_device();
    }
    let structure = KeyspaceOptions::new().structure(workload.structure.parse()?);
    let db = options.open(path)?;
    load(&db.keyspace_with("records", &structure)?, workload)?;
    db.close()?;
    // The observed period begins with the workload.
    let db = options.open(path)?;
    let keyspace = db.keyspace_with("records", &structure)?;
    work(&keyspace, workload, 1)?;
    let before = Moment::of(&db, workload.records);
    work(&keyspace, workload, 2)?;
    work(&keyspace, workload, 3)?;
    let after = Moment::of(&db, 3 * workload.records);
    let forecast = db.forecast()?.context("a sample of the operations was seen")?;
    let drifts = if workload.is_drifting { ", drifting" } else { "" };
    let skew = if workload.is_skewed {
        "Zipf 0.99"
    } else {
        "uniform"
    };
    println!(
        "{number:2} {} ({}), {} records of {} bytes, {} MiB, {skew}{drifts}; % puts {}, deletes {}, misses {}",
        workload.structure,
        forecast.structure,
        workload.records,
        workload.value,
        workload.memory >> 20,
        workload.puts,
        workload.deletes,
        workload.misses
    );
    let data = (workload.records * (16 + workload.value as u64)) as f64;
    for row in &forecast.now {
        let Some(measured) = measured(&before, &after, row, data) else {
            continue;
        };
        let place = CostQuantity::ALL.iter().position(|what| *what == row.what);
        let sum = &mut sums[place.context("it is one of them")?];
        let slack = 0.02 * row.predicted.max(1.0);
        let holds = (row.p10 - slack..=row.p90 + slack).contains(&measured);
        sum.count += 1;
        sum.held += usize::from(holds);
        // With few reads, divide by 0.1 instead, because an error relative to almost none is
        // meaningless.
        sum.error += (measured - row.predicted).abs() / measured.max(0.1);
        println!(
            "     {:22} {:10.3} in {:.3} to {:.3}, was {measured:.3}{}",
            row.what.name(),
            row.predicted,
            row.p10,
            row.p90,
            if holds { "" } else { "   outside" }
        );
    }
    Ok(db.close()?)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let most = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let only: Option<usize> = arguments.next().map(|text| text.parse()).transpose()?;
    let mut sums = [Sum::default(); CostQuantity::ALL.len()];
    for number in (0..WORKLOADS).filter(|number| only.is_none_or(|only| only == *number)) {
        let place = tempfile::tempdir_in(&directory)?;
        measure(place.path(), number, &workload(number, most), &mut sums)?;
    }
    println!("\nquantity                 workloads   in the band   mean error");
    for (what, sum) in CostQuantity::ALL
        .iter()
        .zip(sums)
        .filter(|(_, sum)| sum.count > 0)
    {
        println!(
            "{:22} {:11} {:11} % {:10.1} %",
            what.name(),
            sum.count,
            100 * sum.held / sum.count,
            100.0 * sum.error / sum.count as f64
        );
    }
    Ok(())
}
