//! Prints the documents' tables at full size, and the running time of the optimiser:
//! `cargo bench -p research-models --bench structures [words]`.
//!
//! The words select among `optimise`, `simulate`, `recycle` and `insert`; without words all of
//! them run, which needs half an hour and 2 GiB of memory. `large` adds the simulation of 100
//! million keys. Under `cargo test` every part runs with small inputs.

use alluvium_model::lsm::{ItemStage, LevelDb};
use alluvium_model::{BadParameter, Popularity};
use research_models::leveldb::{CompactionPace, CompactionRules, LevelChoice, TableChoice};
use research_models::recycling::{BinChoice, InsertionBuffer, KeyDistribution, RecyclingGame};
use std::time::Instant;

const SKEWS: [f64; 2] = [0.0, 0.99];

const CHOICES: [BinChoice; 3] = [
    BinChoice::FullestBin,
    BinChoice::RandomBall,
    BinChoice::GoldenGate,
];

fn main() -> Result<(), BadParameter> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let real = arguments.iter().any(|argument| argument == "--bench");
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let asked = |name: &str| words.iter().any(|word| *word == name);
    let wanted = |name: &str| !real || words.is_empty() || asked(name);
    if wanted("optimise") {
        optimise(if real { 100_000_000 } else { 1_000_000 })?;
    }
    if wanted("simulate") {
        simulate(if real {
            &[1_000_000, 3_300_000, 10_000_000]
        } else {
            &[30_000]
        })?;
    }
    if asked("large") {
        simulate(&[100_000_000])?;
    }
    if wanted("recycle") {
        recycle(if real { 3e7 } else { 1e4 })?;
    }
    if wanted("insert") {
        insert(if real { 1_000_000 } else { 20_000 })?;
    }
    Ok(())
}

/// Prints the level sizes with the lowest write amplification, and the time to find them.
fn optimise(keys: u64) -> Result<(), BadParameter> {
    println!("level sizes for {keys} keys: standard, optimised, sizes, estimates, seconds");
    for skew in SKEWS {
        let popularity = Popularity::zipf(keys, skew)?;
        let standard = LevelDb::standard(popularity.keys())?;
        let start = Instant::now();
        let best = standard.optimise(&popularity)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "  skew {skew}: {:.2}, {:.3}, {:.0?}, {}, {seconds:.3}",
            standard.estimate(&popularity)?.total(),
            best.costs.total(),
            best.shape.sizes,
            best.evaluations,
        );
    }
    Ok(())
}

/// Prints simulated and estimated write amplification, and that of other policies.
fn simulate(sizes: &[u64]) -> Result<(), BadParameter> {
    println!(
        "LevelDB: keys, skew: estimate, simulation; optimised: estimate, simulation; largest table first; level 0 first"
    );
    for &keys in sizes {
        for skew in SKEWS {
            let popularity = Popularity::zipf(keys, skew)?;
            let standard = LevelDb::standard(popularity.keys())?;
            let run = |shape: &LevelDb, change: &dyn Fn(&mut CompactionRules)| {
                let mut rules = CompactionRules::new(shape.clone());
                change(&mut rules);
                rules.run(&popularity, 1)
            };
            let estimate = standard.estimate(&popularity)?;
            let measured = run(&standard, &|_| ())?;
            let best = standard.optimise(&popularity)?;
            let improved = run(&best.shape, &|_| ())?;
            let largest = run(&standard, &|rules| rules.tables = TableChoice::Largest)?;
            // A device that sustains three quarters of the required writes.
            let starved = run(&standard, &|rules| {
                rules.levels = LevelChoice::Level0First;
                let writes = 0.75 * (measured.total() - 2.0);
                rules.pace = CompactionPace::Limited { writes, stop: 12 };
            })?;
            println!(
                "  {keys}, {skew}: {:.2}, {:.2}; {:.2}, {:.2}; {:.2}; {:.2}",
                estimate.total(),
                measured.total(),
                best.costs.total(),
                improved.total(),
                largest.total(),
                starved.total(),
            );
            for (stage, writes) in &measured.stages {
                if *stage != ItemStage::Log {
                    println!("    {stage}: {:.2}, {writes:.2}", estimate.stage(*stage));
                }
            }
        }
    }
    Ok(())
}

/// Prints the recycling rates of strategies over a thousand bins.
fn recycle(throws: f64) -> Result<(), BadParameter> {
    println!("recycling rates with 1000 bins: skew, balls: fullest bin, random ball, golden gate");
    for skew in [0.0, 1.0, 2.0] {
        // Light bins first.
        let weights: Vec<f64> = (1..=1000).rev().map(|rank| f64::from(rank).powf(-skew)).collect();
        for balls in [100, 1000, 10_000, 100_000] {
            print!("  {skew}, {balls}:");
            for choice in CHOICES {
                let game = RecyclingGame::new(&weights, balls, choice)?;
                let expected = (2.0 * balls as f64 / 1000.0).max(1.0);
                let rounds = ((throws / expected) as u64).max(100);
                let outcome = game.play(rounds / 3, rounds, 1)?;
                print!(" {:.3} ± {:.3}", outcome.rate, outcome.half_width);
            }
            println!();
        }
    }
    Ok(())
}

/// Prints the recycling rates of insertion buffers as leaves split.
fn insert(inserts: usize) -> Result<(), BadParameter> {
    println!("insertion buffer of 2500 keys over leaves of 160: inserts, leaves, rate");
    for choice in CHOICES {
        let buffer = InsertionBuffer {
            keys: KeyDistribution::Uniform { below: 1000.0 },
            buffered: 2500,
            leaf: 160,
            choice,
        };
        println!("  {choice:?}");
        let measured = buffer.fill(inserts, inserts / 20, 1)?;
        for at in [1, 3, 9, 19] {
            let window = &measured[at];
            println!("    {}, {}: {:.2}", window.inserts, window.leaves, window.rate);
        }
    }
    Ok(())
}
