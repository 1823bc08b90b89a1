//! What LevelDB writes for each byte inserted, counted, beside the model and the simulation of Lim
//! (§4.4.4, Figure 4.10), and how fast it takes inserts (Figure 4.3).
//!
//! As there: items are 18 bytes smaller than 1,000, each key is inserted once, and then at random
//! while bytes are counted that the process hands to the system. Where nothing but bytes is
//! measured, inserts wait for compactions, so that tables do not pile up in level 0.

use super::{LevelDb, MIB, Sizes, opened};
use crate::failure::free;
use alluvium_bench::engine::Engine;
use alluvium_model::lsm::LevelDb as Shape;
use alluvium_model::{Popularity, Random};
use anyhow::{Context, Result, ensure};
use research_models::leveldb::Rules;
use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a key and a value; LevelDB's formats add about 18.
const KEY: usize = 16;
const VALUE: usize = 966;
/// Bytes that an item is counted as.
const ITEM: f64 = 1000.0;
/// LevelDB's standard sizes of a memtable and a table.
const MEMTABLE: u64 = 4 * MIB;
const TABLE: usize = 2 << 20;
/// Tables of level 0 from which on inserts wait: one fewer than have them compacted.
const WAITING: u32 = 4;
/// Inserts between two looks, a twentieth of a memtable, and how long a look waits.
const BETWEEN: u64 = 200;
const NAP: Duration = Duration::from_millis(1);
/// How long nothing is written once all is done: longer than making a table durable takes.
const SETTLED: Duration = Duration::from_millis(100);

/// What is inserted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Study {
    /// How many keys there are.
    pub keys: u64,
    /// The exponent of Zipf's law; 0 is uniform.
    pub skew: f64,
    /// Counted inserts for each key.
    pub rounds: f64,
    /// What the draws follow from.
    pub seed: u64,
}

impl Study {
    fn check(&self) -> Result<()> {
        ensure!(
            self.rounds > 0.0 && self.rounds.is_finite(),
            "{} inserts for each key are none",
            self.rounds
        );
        Ok(())
    }
}

/// What was written for each byte inserted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// By LevelDB, counted.
    pub counted: f64,
    /// By the model.
    pub model: f64,
    /// By the simulation.
    pub simulated: f64,
    /// Inserts that were counted.
    pub inserts: u64,
}

/// Returns the bytes that this process has handed to the system.
fn handed_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io").context("reading /proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    let line = line.context("/proc/self/io does not say what was written")?;
    Ok(line.trim().parse()?)
}

impl LevelDb {
    /// Returns how many tables level 0 has.
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

    /// Waits until compactions have caught up: nothing is written for this long.
    fn catch_up(&self, quiet: Duration) -> Result<()> {
        loop {
            let before = handed_bytes()?;
            if self.tables_of_level_0()? >= WAITING {
                std::thread::sleep(NAP);
                continue;
            }
            std::thread::sleep(quiet);
            if handed_bytes()? == before {
                return Ok(());
            }
        }
    }
}

/// A store with each key of a study in it, whose compactions have caught up.
struct Loaded {
    engine: LevelDb,
    popularity: Popularity,
    /// Where in the order of keys each key lies, the most popular first: anywhere.
    places: Vec<u32>,
    /// What values are drawn with.
    random: Random,
}

fn load(directory: &Path, study: &Study) -> Result<Loaded> {
    let sizes = Sizes {
        cached: 8 * MIB,
        memtable: MEMTABLE,
        file: TABLE,
    };
    let popularity = Popularity::zipf(study.keys, study.skew)?;
    let engine = opened(&directory.join("store"), sizes)?;
    let mut random = Random::from_seed(study.seed);
    let mut places: Vec<u32> = (0..u32::try_from(study.keys)?).collect();
    random.shuffle(&mut places);
    let mut order = places.clone();
    random.shuffle(&mut order);
    insert(
        &engine,
        order.iter().copied(),
        &mut random,
        Pace::AfterCompactions,
    )?;
    engine.catch_up(SETTLED)?;
    Ok(Loaded {
        engine,
        popularity,
        places,
        random,
    })
}

impl Loaded {
    /// Inserts keys as a study says, and waits until compactions have caught up. Returns how many
    /// were inserted, and the bytes that were written for each of theirs.
    fn insert_again(&mut self, study: &Study, pace: Pace) -> Result<(u64, f64)> {
        let before = handed_bytes()?;
        let inserts = (study.rounds * study.keys as f64) as u64;
        let requests = self.popularity.requests()?;
        let mut draws = Random::from_seed(study.seed + 1);
        let drawn = (0..inserts).map(|_| self.places[requests.draw(&mut draws)]);
        insert(&self.engine, drawn, &mut self.random, pace)?;
        self.engine.catch_up(SETTLED)?;
        let written = (handed_bytes()? - before) as f64;
        Ok((inserts, written / (inserts as f64 * ITEM)))
    }
}

/// Counts what LevelDB writes in an empty directory, and has model and simulation say the same.
///
/// # Errors
/// As the file system or LevelDB say; for a study that is none.
pub fn count(directory: &Path, study: &Study) -> Result<Written> {
    study.check()?;
    let shape = Shape::standard(study.keys as f64)?;
    let mut loaded = load(directory, study)?;
    let model = shape.estimate(&loaded.popularity)?.total();
    let mut rules = Rules::new(shape);
    rules.rounds = study.rounds;
    let simulated = rules.run(&loaded.popularity, study.seed)?.total();
    let (inserts, counted) = loaded.insert_again(study, Pace::AfterCompactions)?;
    Ok(Written {
        counted,
        model,
        simulated,
        inserts,
    })
}

/// How fast LevelDB takes inserts, and what it writes for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Inserts a second, until the last compaction is done that they bring about.
    pub inserts: f64,
    /// Bytes written for each byte inserted.
    pub written: f64,
}

/// Measures how fast LevelDB takes inserts into a store with all keys of a study (Figure 4.3). It
/// makes tables durable, as it does by itself, and not its log.
///
/// # Errors
/// As the file system or LevelDB say; for a study that is none.
pub fn rate(directory: &Path, study: &Study) -> Result<Rate> {
    study.check()?;
    let mut loaded = load(directory, study)?;
    let begun = Instant::now();
    let (inserts, written) = loaded.insert_again(study, Pace::Full)?;
    Ok(Rate {
        inserts: inserts as f64 / begun.elapsed().as_secs_f64(),
        written,
    })
}

/// How fast keys are inserted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// As fast as LevelDB lets them.
    Full,
    /// Each part of a memtable once compactions have caught up with the one before.
    AfterCompactions,
}

fn insert(
    engine: &LevelDb,
    numbers: impl Iterator<Item = u32>,
    random: &mut Random,
    pace: Pace,
) -> Result<()> {
    let mut session = engine.session()?;
    let mut value = vec![0; VALUE];
    for (place, number) in (0u64..).zip(numbers) {
        let key = format!("{number:0KEY$}");
        value[..8].copy_from_slice(&random.bits().to_le_bytes());
        session.put(key.as_bytes(), &value)?;
        if pace == Pace::AfterCompactions && place % BETWEEN == 0 {
            engine.catch_up(NAP)?;
        }
    }
    Ok(())
}
