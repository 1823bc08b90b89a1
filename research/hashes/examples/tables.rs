//! Prints block transfers of the hash tables together with the theoretical values, or runs a long
//! history of mixed operations against a map. In the folder `research`:
//!
//! ```sh
//! cargo run --release -p research-hashes --example tables -- fits 16 22
//! cargo run --release -p research-hashes --example tables -- mixed 10000000 [table]
//! cargo run --release -p research-hashes --example tables -- beta 20
//! cargo run --release -p research-hashes --example tables -- caches 16
//! cargo run --release -p research-hashes --example tables -- reads 20
//! ```

use alluvium_filters::fingerprint::HashIndependence;
use research_hashes::blocks::{BlockTransfers, MemoryBlockSpace, Result};
use research_hashes::boa::{BoaOptions, BoaStructure, BoaTable};
use research_hashes::bot::{BotOptions, BotTable, QueueSchedule};
use std::collections::HashMap;

/// The size of a block (about 32 records) and of the memory (32 blocks), in bytes.
const BLOCK: u32 = 1024;
const MEMORY: u64 = 32 * BLOCK as u64;

/// One of the tables.
enum Table {
    Levels(Box<BoaTable<MemoryBlockSpace>>),
    Trees(Box<BotTable<MemoryBlockSpace>>),
}

impl Table {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Table::Levels(table) => table.insert(key, value),
            Table::Trees(table) => table.insert(key, value),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        match self {
            Table::Levels(table) => table.delete(key),
            Table::Trees(table) => table.delete(key),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Table::Levels(table) => table.get(key),
            Table::Trees(table) => table.get(key),
        }
    }

    fn commit(&mut self) -> Result<()> {
        match self {
            Table::Levels(table) => table.commit(),
            Table::Trees(table) => table.commit(),
        }
    }

    fn space(&self) -> &MemoryBlockSpace {
        match self {
            Table::Levels(table) => table.space(),
            Table::Trees(table) => table.space(),
        }
    }

    fn violations(&self) -> Result<usize> {
        Ok(match self {
            Table::Levels(table) => table.check()?.len(),
            Table::Trees(table) => table.check()?.len(),
        })
    }
}

const TABLES: [&str; 7] = ["st-lsm", "interpolated", "boa", "refined", "bot", "cobot", "beta"];

fn space() -> MemoryBlockSpace {
    MemoryBlockSpace::new(u64::from(BLOCK), 1 << 40).with_meter(u64::from(BLOCK), MEMORY)
}

/// A space without a block size, except in its meter.
fn smooth(block: u64, memory: u64) -> MemoryBlockSpace {
    MemoryBlockSpace::new(8, 1 << 40).with_meter(block, memory)
}

fn table(name: &str, growth: u32, records: u64) -> Table {
    let levels = |kind| {
        let options = BoaOptions {
            growth,
            independence: HashIndependence::Assumed,
            ..BoaOptions::new(kind, BLOCK, MEMORY)
        };
        Table::Levels(Box::new(
            BoaTable::create(space(), options).expect("a possible table"),
        ))
    };
    let fast = |options: BotOptions| BotOptions {
        growth,
        independence: HashIndependence::Assumed,
        ..options
    };
    let trees = |options: BotOptions| {
        Table::Trees(Box::new(
            BotTable::create(space(), options).expect("a possible table"),
        ))
    };
    let bot = fast(BotOptions {
        fingerprint_bits: 128,
        ..BotOptions::new(BLOCK, MEMORY)
    });
    match name {
        "lt-lsm" => levels(BoaStructure::Leveled),
        "st-lsm" => levels(BoaStructure::Tiered),
        "interpolated" => levels(BoaStructure::Interpolated),
        "boa" => levels(BoaStructure::Routed),
        "refined" => levels(BoaStructure::Refined),
        "bot" => trees(bot.planned_for(records, 30)),
        "beta" => trees(BotOptions {
            schedule: QueueSchedule::Every { beta: 2 },
            ..bot.planned_for(records, 30)
        }),
        "cobot" => {
            let options = fast(BotOptions {
                fingerprint_bits: 128,
                ..BotOptions::oblivious()
            });
            let space = smooth(u64::from(BLOCK), MEMORY);
            Table::Trees(Box::new(
                BotTable::create(space, options.planned_for(records, 1)).expect("a possible table"),
            ))
        }
        other => panic!("{other} is none of {TABLES:?}"),
    }
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn log(base: f64, value: f64) -> f64 {
    value.log2() / base.log2()
}

/// The transfers of `records` inserts, then of successful and unsuccessful lookups, each with a
/// cold cache.
fn measure(table: &mut Table, records: u64) -> Result<(BlockTransfers, f64, f64)> {
    for number in 0..records {
        table.insert(&key(number), &number.to_le_bytes())?;
    }
    table.space().cool();
    let inserts = table.space().transfers(0);
    let mut reads = [0.0; 2];
    for (absent, reads) in reads.iter_mut().enumerate() {
        let lookups = 400;
        for at in 0..lookups {
            let number = absent as u64 * (1 << 40) + at * records / lookups;
            table.space().cool();
            let before = table.space().transfers(0);
            assert_eq!(table.get(&key(number))?.is_some(), absent == 0);
            *reads += table.space().transfers(0).since(before).reads as f64 / lookups as f64;
        }
    }
    Ok((inserts, reads[0], reads[1]))
}

/// Prints measured costs, the theoretical terms and their ratio for each table and λ.
fn fits(from: u32, to: u32, names: &[&str]) -> Result<()> {
    // A record has 8 bytes of fingerprint, 8 of key, 8 of value and 4 more.
    let (b, m) = (f64::from(BLOCK) / 28.0, MEMORY as f64 / 28.0);
    for name in names {
        let (mut inserts, mut lookups) = (Vec::new(), Vec::new());
        for growth in [2u32, 4, 16, 64] {
            for log2 in (from..=to).step_by(2) {
                let records = 1u64 << log2;
                let n = records as f64;
                let mut table = table(name, growth, records);
                let (moved, hit, miss) = measure(&mut table, records)?;
                let lambda = f64::from(growth);
                let per = moved.total() as f64 * b / n;
                let merging = log(m / b, n).max(1.0);
                let term = match *name {
                    "bot" | "cobot" | "beta" => lambda + merging + m.log2().log2(),
                    "boa" | "refined" => lambda + merging + log(lambda, n),
                    _ => log(lambda, n) + merging,
                };
                let levels = log(lambda, n).max(1.0);
                let bound = match *name {
                    "st-lsm" | "interpolated" => lambda * levels,
                    _ => levels,
                };
                println!(
                    "{name:12} λ {growth:2} N 2^{log2}: insert I/O·B/N {per:7.2}, term {term:6.2}, ratio {:5.2}; \
                     lookup hit {hit:6.2} miss {miss:6.2}, bound {bound:6.1}, ratio {:5.2}",
                    per / term,
                    hit / bound
                );
                inserts.push((growth, per / term));
                lookups.push((growth, hit.max(miss) / bound));
            }
        }
        for (what, ratios) in [("insert", inserts), ("lookup", lookups)] {
            for growth in [2, 4, 16, 64] {
                let of = || {
                    ratios
                        .iter()
                        .filter(|(at, _)| *at == growth)
                        .map(|(_, ratio)| *ratio)
                };
                let (low, high) = (of().fold(f64::MAX, f64::min), of().fold(0.0, f64::max));
                println!(
                    "{name:12} {what} λ {growth:2}: ratios {low:.2} to {high:.2}, residual {:.2}",
                    high / low
                );
            }
        }
    }
    Ok(())
}

/// Compares a table with a map over `operations` mixed operations.
fn mixed(operations: u64, names: &[&str]) -> Result<()> {
    for name in names {
        let mut table = table(name, 4, operations / 2);
        let (mut model, mut random) = (HashMap::new(), fastrand::Rng::with_seed(7));
        let begun = std::time::Instant::now();
        for at in 0..operations {
            let number = random.u64(..operations / 8);
            match random.u32(..100) {
                0..15 => {
                    table.delete(&key(number))?;
                    model.remove(&number);
                }
                15..25 => {
                    let value = model.get(&number).map(|value: &u64| value.to_le_bytes().to_vec());
                    assert_eq!(table.get(&key(number))?, value, "{name}: key {number} at {at}");
                }
                _ => {
                    table.insert(&key(number), &at.to_le_bytes())?;
                    model.insert(number, at);
                }
            }
            if at % 1_000_000 == 999_999 {
                table.commit()?;
            }
        }
        for number in (0..operations / 8).step_by(17) {
            let value = model.get(&number).map(|value| value.to_le_bytes().to_vec());
            assert_eq!(table.get(&key(number))?, value, "{name}: key {number} at the end");
        }
        let violations = if operations <= 20_000_000 {
            table.violations()?
        } else {
            0
        };
        println!(
            "{name}: {operations} operations agree, {violations} violations, {:.0?}",
            begun.elapsed()
        );
        assert_eq!(violations, 0);
    }
    Ok(())
}

/// Prints transfers by β, and the β that is chosen for ω.
fn beta(log2: u32) -> Result<()> {
    let records = 1u64 << log2;
    let base = BotOptions {
        growth: 2,
        fingerprint_bits: 128,
        independence: HashIndependence::Assumed,
        ..BotOptions::new(BLOCK, 16 * MEMORY)
    };
    let base = base.planned_for(records, 30);
    for beta in [1, 2, 3, 4, 5] {
        let options = BotOptions {
            schedule: QueueSchedule::Every { beta },
            ..base
        };
        // The meter's memory is small, so that the transfers of the queue are visible.
        let mut table = BotTable::create(space(), options)?;
        for number in 0..records {
            table.insert(&key(number), &number.to_le_bytes())?;
        }
        table.space().cool();
        let moved = table.space().transfers(0);
        let bits: u64 = table.figures().queue_bits.iter().sum();
        let (reads, writes) = (moved.reads as f64, moved.writes as f64);
        let each = f64::from(BLOCK) / 28.0 / records as f64;
        println!(
            "β {beta}: reads·B/N {:.2}, writes·B/N {:.2}, queue bits a record {:.1}, cost at ω = 8: {:.2}",
            reads * each,
            writes * each,
            bits as f64 / records as f64,
            moved.cost(8.0) * each
        );
    }
    for omega in [1.0, 2.0, 8.0, 32.0] {
        println!("ω {omega}: {:?}", base.for_asymmetry(omega, records)?.schedule);
    }
    Ok(())
}

/// Prints transfers of the BOT and the COBOT with several memory sizes.
fn caches(log2: u32) -> Result<()> {
    let records = 1u64 << log2;
    for (block, memory) in [(256u32, 1u64 << 15), (1024, 1 << 18), (4096, 1 << 21)] {
        let aligned =
            || MemoryBlockSpace::new(u64::from(block), 1 << 40).with_meter(u64::from(block), memory);
        let of = |options: BotOptions, leaf: u64| -> Result<BlockTransfers> {
            let space = if leaf == 1 {
                smooth(u64::from(block), memory)
            } else {
                aligned()
            };
            let options = BotOptions {
                fingerprint_bits: 128,
                independence: HashIndependence::Assumed,
                ..options
            };
            let mut table = BotTable::create(space, options.planned_for(records, leaf))?;
            for number in 0..records {
                table.insert(&key(number), &number.to_le_bytes())?;
            }
            table.space().cool();
            Ok(table.space().transfers(0))
        };
        let aware = of(BotOptions::new(block, memory), u64::from(block) / 34)?;
        let oblivious = of(BotOptions::oblivious(), 1)?;
        println!(
            "B {block}, M {memory}: BOT {aware:?}, COBOT {oblivious:?}, ratio {:.2}",
            oblivious.total() as f64 / aware.total() as f64
        );
    }
    Ok(())
}

/// Prints the number of blocks read by lookups in one interpolated run with a cold cache.
fn reads(log2: u32) -> Result<()> {
    let records = 1u64 << log2;
    let options = BoaOptions {
        growth: 256,
        independence: HashIndependence::Assumed,
        ..BoaOptions::new(BoaStructure::Interpolated, BLOCK, MEMORY)
    };
    let mut table = BoaTable::create(space(), options)?;
    for number in 0..records {
        table.insert(&key(number), &number.to_le_bytes())?;
    }
    table.rebuild()?;
    let mut counts = [0u32; 8];
    for at in 0..4000 {
        table.space().cool();
        let before = table.space().transfers(0);
        assert!(table.get(&key(at * records / 4000))?.is_some());
        counts[table.space().transfers(0).since(before).reads.min(7) as usize] += 1;
    }
    let fullest = table
        .buckets()
        .iter()
        .map(|(fullest, mean)| *fullest as f64 / mean)
        .fold(0.0, f64::max);
    println!(
        "N 2^{log2}: lookups by blocks read, from 0: {counts:?}; fullest bucket {fullest:.2} of the mean"
    );
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| {
        words
            .get(at)
            .map_or(usual, |word| word.parse().expect("a number"))
    };
    let names = |at: usize| words.get(at).map_or(TABLES.to_vec(), |name| vec![name.as_str()]);
    match words.first().map(String::as_str) {
        Some("mixed") => mixed(number(1, 1_000_000), &names(2)),
        Some("reads") => reads(number(1, 14) as u32),
        Some("beta") => beta(number(1, 16) as u32),
        Some("caches") => caches(number(1, 14) as u32),
        _ => fits(number(1, 12) as u32, number(2, 14) as u32, &names(3)),
    }
}
