//! Measures the quality of advice: runs twenty workloads, each on every structure and setting that
//! `alluvium advise` ranks, and compares the cost of the advice with that of the cheapest choice.
//! The advice is the first in the ranking, or a store's default if the gain lies within the band.
//! `cargo run --release --example choices -p alluvium-bench -- 100000`.
//!
//! The first argument is the number of records, all or half of which each workload uses. The second
//! is the directory of the stores, which are removed at the end. If it contains the results of
//! `alluvium probe` for its device, they are used. The third is the number of a single workload to
//! run.
//!
//! A store is loaded and reopened. It runs the workload once, to bring its caches and levels to a
//! steady state, and is measured while it runs the workload twice more. The cost is the processor
//! time of the process plus the device time of the counted requests, summed as in the ranking. Wall
//! time is printed as well; it is shorter where writes and merges overlap. All choices are tried in
//! turn, three times, and the median counts.

#![allow(clippy::disallowed_methods)]

use alluvium::{Db, Keyspace, KeyspaceOptions, Options};
use alluvium_bench::workload::keys::scatter;
use alluvium_bench::workload::zipf::ZipfGenerator;
use alluvium_device::probe::{ProbeClock, ProcessClock};
use alluvium_model::probe::{self, ProbeConclusions};
use alluvium_model::structures::{
    MachineProfile, MemoryDivision, OperationRates, StructureCost, StructureModel, WorkloadProfile,
};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The file where `alluvium probe` stores its measurements.
const PROBE: &str = "probe.txt";
const WORKLOADS: usize = 20;
/// Bytes of a key.
const KEY: usize = 16;
/// Records per scan.
const SCANNED: usize = 20;
/// Number of times that all choices are tried.
const ROUNDS: usize = 3;
/// Choices that cost at most this fraction more than the cheapest one count as equal: two runs
/// differ by as much.
const SAME: f64 = 0.05;

/// A workload, in percentages of operations. The rest are lookups of existing keys.
#[derive(Clone, Copy, Debug)]
struct Mix {
    records: u64,
    memory: u64,
    value: usize,
    puts: u64,
    misses: u64,
    scans: u64,
    skew: f64,
}

fn mix(number: usize, most: u64) -> Mix {
    let (puts, misses, scans) = [(50, 0, 0), (5, 5, 0), (95, 0, 5), (100, 0, 0), (20, 20, 10)][number % 5];
    Mix {
        records: most / [1, 2][number % 2],
        memory: [16 << 20, 32 << 20][(number / 2) % 2],
        value: [100, 1000, 300][number % 3],
        puts,
        misses,
        scans,
        skew: [0.0, 0.99][(number / 4) % 2],
    }
}

impl Mix {
    fn workload(&self) -> WorkloadProfile {
        let (puts, misses, scans) = (self.puts as f64, self.misses as f64, self.scans as f64);
        WorkloadProfile {
            keys: self.records as f64,
            key_bytes: KEY as f64,
            value_bytes: self.value as f64,
            skew: self.skew,
            operations: OperationRates {
                inserts: 0.0,
                updates: puts,
                deletes: 0.0,
                hits: 100.0 - puts - misses - scans,
                misses,
                scans,
            },
            scan_records: SCANNED as f64,
            ..WorkloadProfile::default()
        }
    }
}

fn key(number: u64) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..8].copy_from_slice(&scatter(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Runs as many operations as there are records.
fn work(keyspace: &Keyspace, mix: &Mix, seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let zipf = ZipfGenerator::new(mix.records);
    for done in 0..mix.records {
        let number = match mix.skew > 0.0 {
            true => scatter(zipf.draw(&mut random)) % mix.records,
            false => random.u64(..mix.records),
        };
        match random.u64(..100) {
            at if at < mix.puts => keyspace.put(key(number), vec![done as u8; mix.value])?,
            at if at < mix.puts + mix.misses => {
                keyspace.get(key(number + mix.records))?;
            }
            at if at < mix.puts + mix.misses + mix.scans => {
                for pair in keyspace.range(key(number)..).take(SCANNED) {
                    pair?;
                }
            }
            _ => {
                keyspace.get(key(number))?;
            }
        }
    }
    Ok(())
}

/// The cost of a choice, in nanoseconds per operation.
#[derive(Clone, Copy, Debug)]
struct Spent {
    processor: f64,
    device: f64,
    clock: f64,
}

impl Spent {
    fn total(&self) -> f64 {
        self.processor + self.device
    }
}

/// Returns the median by total cost.
fn middle(mut rounds: Vec<Spent>) -> Result<Spent> {
    rounds.sort_by(|one, other| one.total().total_cmp(&other.total()));
    rounds.get(rounds.len() / 2).copied().context("there are rounds")
}

/// Returns what the process and the store have used so far: nanoseconds of processor time, requests
/// and bytes.
fn spent(db: &Db) -> (f64, u64, u64) {
    let all = db.stats().device.total();
    let ns = ProcessClock::new().cpu_ns() as f64;
    (ns, all.reads + all.writes, all.read_bytes + all.written_bytes)
}

/// Runs a workload on a choice.
fn run(
    place: &Path,
    choice: &StructureModel,
    mix: &Mix,
    machine: &MachineProfile,
    costs: Option<&Path>,
) -> Result<Spent> {
    let path = &place.join("store");
    std::fs::create_dir(path)?;
    let mut options = Options::new().memory(mix.memory);
    if let Some(costs) = costs {
        std::fs::copy(costs, path.join(PROBE))?;
        options = options.measured_device();
    }
    let name = choice.name().replace(", ", ",");
    let structure: alluvium::Structure = match (choice, name.split_once(',')) {
        (StructureModel::Tiered(setting), _) => {
            let caches = MemoryDivision::of(mix.memory, None).cache_bytes as f64;
            options = options.record_memory((setting.records_share * caches) as u64);
            "tiered".parse()?
        }
        (_, Some(("hashed", _))) => name.parse()?,
        _ => format!("levels,{name}").parse()?,
    };
    let structure = KeyspaceOptions::new().structure(structure);
    let db = options.open(path)?;
    let keyspace = db.keyspace_with("records", &structure)?;
    for number in 0..mix.records {
        keyspace.put(key(number), vec![number as u8; mix.value])?;
    }
    drop(keyspace);
    db.close()?;
    let db = options.open(path)?;
    let keyspace = db.keyspace_with("records", &structure)?;
    work(&keyspace, mix, 1)?;
    let (before, began) = (spent(&db), Instant::now());
    work(&keyspace, mix, 2)?;
    work(&keyspace, mix, 3)?;
    let (after, clock) = (spent(&db), began.elapsed());
    drop(keyspace);
    db.close()?;
    std::fs::remove_dir_all(path)?;
    let operations = 2.0 * mix.records as f64;
    let device = &machine.device;
    let setup = device.setup_ns as f64 / f64::from(device.parallelism.max(1));
    let (requests, bytes) = ((after.1 - before.1) as f64, (after.2 - before.2) as f64);
    Ok(Spent {
        processor: (after.0 - before.0) / operations,
        device: (requests * setup + bytes * device.byte_ps as f64 / 1000.0) / operations,
        clock: clock.as_nanos() as f64 / operations,
    })
}

/// Returns by which fraction a choice's cost exceeds the lowest of all.
fn regret(all: &[(StructureCost, Spent)], of: &dyn Fn(&Spent) -> f64, at: usize) -> f64 {
    let least = all.iter().map(|one| of(&one.1)).fold(f64::INFINITY, f64::min);
    of(&all[at].1) / least - 1.0
}

/// Tries all choices for a workload. Returns by which fractions the advised choice and the default
/// cost more than the cheapest one.
fn advised(place: &Path, mix: &Mix, machine: &MachineProfile, costs: Option<&Path>) -> Result<[f64; 2]> {
    let choices = StructureModel::CHOICES.iter();
    let choices: Vec<_> = choices
        .filter(|choice| choice.is_ordered() || mix.scans == 0)
        .collect();
    let mut rounds = vec![Vec::new(); choices.len()];
    for _ in 0..ROUNDS {
        for (choice, rounds) in choices.iter().zip(&mut rounds) {
            rounds.push(run(place, choice, mix, machine, costs)?);
        }
    }
    let mut all = Vec::new();
    for (choice, rounds) in choices.iter().zip(rounds) {
        all.push((choice.cost(&mix.workload(), machine)?, middle(rounds)?));
    }
    let predicted = |at: usize| all[at].0.total_ns.middle;
    let usual = 0;
    let first = (0..all.len())
        .min_by(|&one, &other| predicted(one).total_cmp(&predicted(other)))
        .context("there are choices")?;
    // A gain within the band is no reason to change.
    let is_sure = all[first].0.total_ns.p90 < predicted(usual);
    let advised = if is_sure { first } else { usual };
    for (at, (cost, spent)) in all.iter().enumerate() {
        println!(
            "     {:34} predicted {:8.0}, was {:8.0} (processor {:7.0}, device {:7.0}), by the clock {:8.0}{}",
            cost.name,
            cost.total_ns.middle,
            spent.total(),
            spent.processor,
            spent.device,
            spent.clock,
            if at == advised { "   advised" } else { "" }
        );
    }
    let above = [advised, usual].map(|at| regret(&all, &Spent::total, at));
    let clock = regret(&all, &|spent| spent.clock, advised);
    println!(
        "     above the cheapest: {:.1} % (by the clock {:.1} %); what is usual: {:.1} %",
        100.0 * above[0],
        100.0 * clock,
        100.0 * above[1]
    );
    Ok(above)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let most = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let only: Option<usize> = arguments.next().map(|text| text.parse()).transpose()?;
    let costs = Some(directory.join(PROBE)).filter(|path| path.exists());
    let (mut regrets, mut of_usual) = (Vec::new(), Vec::new());
    for number in (0..WORKLOADS).filter(|number| only.is_none_or(|only| only == *number)) {
        let (mix, place) = (mix(number, most), tempfile::tempdir_in(&directory)?);
        let mut machine = MachineProfile {
            memory_bytes: mix.memory as f64,
            ..MachineProfile::default()
        };
        if let Some(costs) = &costs {
            let measured = probe::format::decode(&std::fs::read(costs)?)?;
            let profile = ProbeConclusions::of(&measured).reliable_profile();
            machine.device = profile.map_err(anyhow::Error::msg)?;
        }
        println!("{number:2} {mix:?}");
        let above = advised(place.path(), &mix, &machine, costs.as_deref())?;
        regrets.push(above[0]);
        of_usual.push(above[1]);
    }
    let within = regrets.iter().filter(|&&regret| regret <= SAME).count();
    let mean = |all: &[f64]| 100.0 * all.iter().sum::<f64>() / all.len().max(1) as f64;
    println!(
        "\n{within} of {} within {:.0} % of the cheapest; mean {:.1} % above it, what is usual {:.1} %",
        regrets.len(),
        100.0 * SAME,
        mean(&regrets),
        mean(&of_usual)
    );
    Ok(())
}
