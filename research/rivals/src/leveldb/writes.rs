//! Measures LevelDB's write amplification, compared with the model and the simulation of Lim
//! (§4.4.4, Figure 4.10), and its insert throughput (Figure 4.3).
//!
//! As in the thesis, items are 18 bytes smaller than 1,000. Each key is inserted once; further
//! inserts use random keys while the bytes that the process passes to the operating system are
//! counted. If only bytes are measured, inserts wait for compactions, so that tables do not
//! accumulate in level 0.

use super::{LevelDbEngine, LevelDbSizes, MIB, opened};
use crate::library_error::free;
use alluvium_bench::engine::BenchEngine;
use alluvium_model::lsm::LevelDb as Shape;
use alluvium_model::{Popularity, SplitMix64};
use anyhow::{Context, Result, ensure};
use research_models::leveldb::CompactionRules;
use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a key and a value. LevelDB's formats add about 18 bytes.
const KEY: usize = 16;
const VALUE: usize = 966;
/// Bytes that each item is counted as.
const ITEM: f64 = 1000.0;
/// LevelDB's default sizes of a memtable and a table.
const MEMTABLE: u64 = 4 * MIB;
const TABLE: usize = 2 << 20;
/// Number of level-0 tables from which inserts wait; LevelDB then compacts the level.
const WAITING: u32 = 4;
/// Inserts between two checks, a twentieth of a memtable, and the pause between checks.
const BETWEEN: u64 = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Quiet time after which compactions are considered finished; longer than a sync of a table.
const SETTLED: Duration = Duration::from_millis(100);

/// The inserts of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InsertStudy {
    /// Number of distinct keys.
    pub keys: u64,
    /// Exponent of the Zipf distribution; 0 is uniform.
    pub skew: f64,
    /// Counted inserts for each key.
    pub rounds: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl InsertStudy {
    fn check(&self) -> Result<()> {
        ensure!(
            self.rounds > 0.0 && self.rounds.is_finite(),
            "{} inserts for each key are none",
            self.rounds
        );
        Ok(())
    }
}

/// Write amplification: bytes written for each byte inserted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteAmplification {
    /// Measured with LevelDB.
    pub counted: f64,
    pub model: f64,
    pub simulated: f64,
    /// Number of inserts that were counted.
    pub inserts: u64,
}

/// Returns the bytes that this process has passed to write system calls.
fn bytes_passed_to_writes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io").context("reading /proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    let line = line.context("/proc/self/io does not say what was written")?;
    Ok(line.trim().parse()?)
}

impl LevelDbEngine {
    /// Returns the number of tables in level 0.
    fn tables_of_level_0(&self) -> Result<u32> {
        // SAFETY: the database is open, the name ends with zero; what is returned is null or a text
        // that is ours to free.
        let text = unsafe {
            let text = super::ffi::leveldb_property_value(self.db, c"leveldb.num-files-at-level0".as_ptr());
            ensure!(
                !text.is_null(),
                "LevelDB does not say how many tables level 0 has"
            );
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            free(text);
            copy
        };
        Ok(text.trim().parse()?)
    }

    /// Waits for compactions to finish: until nothing has been written for `quiet`.
    fn catch_up(&self, quiet: Duration) -> Result<()> {
        loop {
            let before = bytes_passed_to_writes()?;
            if self.tables_of_level_0()? >= WAITING {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
            std::thread::sleep(quiet);
            if bytes_passed_to_writes()? == before {
                return Ok(());
            }
        }
    }
}

/// A store that contains each key of a study and whose compactions have finished.
struct LoadedStore {
    engine: LevelDbEngine,
    popularity: Popularity,
    /// Maps popularity rank to position in key order, at random.
    places: Vec<u32>,
    /// Random numbers from which values are made.
    random: SplitMix64,
}

fn load(directory: &Path, study: &InsertStudy) -> Result<LoadedStore> {
    let sizes = LevelDbSizes {
        cached: 8 * MIB,
        memtable: MEMTABLE,
        file: TABLE,
    };
    let popularity = Popularity::zipf(study.keys, study.skew)?;
    let engine = opened(&directory.join("store"), sizes)?;
    let mut random = SplitMix64::from_seed(study.seed);
    let mut places: Vec<u32> = (0..u32::try_from(study.keys)?).collect();
    random.shuffle(&mut places);
    let mut order = places.clone();
    random.shuffle(&mut order);
    insert(
        &engine,
        order.iter().copied(),
        &mut random,
        InsertPace::AfterCompactions,
    )?;
    engine.catch_up(SETTLED)?;
    Ok(LoadedStore {
        engine,
        popularity,
        places,
        random,
    })
}

impl LoadedStore {
    /// Inserts keys as the study specifies and waits for compactions to finish. Returns the number
    /// of inserts, and the bytes written for each inserted byte.
    fn insert_again(&mut self, study: &InsertStudy, pace: InsertPace) -> Result<(u64, f64)> {
        let before = bytes_passed_to_writes()?;
        let inserts = (study.rounds * study.keys as f64) as u64;
        let requests = self.popularity.requests()?;
        let mut draws = SplitMix64::from_seed(study.seed + 1);
        let drawn = (0..inserts).map(|_| self.places[requests.draw(&mut draws)]);
        insert(&self.engine, drawn, &mut self.random, pace)?;
        self.engine.catch_up(SETTLED)?;
        let written = (bytes_passed_to_writes()? - before) as f64;
        Ok((inserts, written / (inserts as f64 * ITEM)))
    }
}

/// Measures LevelDB's write amplification in an empty directory and computes the model's and the
/// simulation's.
///
/// # Errors
/// I/O errors and errors of LevelDB; for an invalid study.
pub fn count(directory: &Path, study: &InsertStudy) -> Result<WriteAmplification> {
    study.check()?;
    let shape = Shape::standard(study.keys as f64)?;
    let mut loaded = load(directory, study)?;
    let model = shape.estimate(&loaded.popularity)?.total();
    let mut rules = CompactionRules::new(shape);
    rules.rounds = study.rounds;
    let simulated = rules.run(&loaded.popularity, study.seed)?.total();
    let (inserts, counted) = loaded.insert_again(study, InsertPace::AfterCompactions)?;
    Ok(WriteAmplification {
        counted,
        model,
        simulated,
        inserts,
    })
}

/// The insert throughput of LevelDB, and its write amplification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InsertRate {
    /// Inserts per second; the time includes the compactions that the inserts cause.
    pub inserts: f64,
    /// Bytes written for each byte inserted.
    pub written: f64,
}

/// Measures LevelDB's insert throughput into a store that contains all keys of a study (Figure
/// 4.3). LevelDB syncs its tables, as it does by default, but not its log.
///
/// # Errors
/// I/O errors and errors of LevelDB; for an invalid study.
pub fn rate(directory: &Path, study: &InsertStudy) -> Result<InsertRate> {
    study.check()?;
    let mut loaded = load(directory, study)?;
    let begun = Instant::now();
    let (inserts, written) = loaded.insert_again(study, InsertPace::Full)?;
    Ok(InsertRate {
        inserts: inserts as f64 / begun.elapsed().as_secs_f64(),
        written,
    })
}

/// The pace of the inserts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InsertPace {
    /// As fast as LevelDB accepts them.
    Full,
    /// A fraction of a memtable at a time, each after compactions have caught up.
    AfterCompactions,
}

fn insert(
    engine: &LevelDbEngine,
    numbers: impl Iterator<Item = u32>,
    random: &mut SplitMix64,
    pace: InsertPace,
) -> Result<()> {
    let mut session = engine.session()?;
    let mut value = vec![0; VALUE];
    for (place, number) in (0u64..).zip(numbers) {
        let key = format!("{number:0KEY$}");
        value[..8].copy_from_slice(&random.bits().to_le_bytes());
        session.put(key.as_bytes(), &value)?;
        if pace == InsertPace::AfterCompactions && place % BETWEEN == 0 {
            engine.catch_up(POLL_INTERVAL)?;
        }
    }
    Ok(())
}
