//! Block transfers of the hash tables of chapter 2, counted.

use alluvium_filters::fingerprint::Independence;
use anyhow::{Result, ensure};
use research_hashes::blocks::{self, MemorySpace, Transfers};
use research_hashes::boa::{Boa, Kind, Options};
use research_hashes::bot::{Bot, BotOptions, Schedule};

/// Bytes of a block.
const BLOCK: u32 = 1024;
/// Bytes of simulated memory.
const MEMORY: u64 = 32 * BLOCK as u64;
/// Bytes of a record: 8 of fingerprint, 8 of key, 8 of value and 4 of lengths.
const RECORD: f64 = 28.0;
/// Number of counted lookups that hit, and of those that miss.
const LOOKUPS: u64 = 200;
/// Numbers from here on are never used as keys.
const ABSENT: u64 = 1 << 40;

/// Number of levels that share a series of characters in the asymmetric table.
pub(super) const BETA: u32 = 2;

/// A hash table of chapter 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// The refined bundle of arrays.
    Refined,
    /// The bundle of trees.
    Trees,
    /// The bundle of trees that trades more reads for fewer writes.
    Asymmetric,
    /// The cache-oblivious bundle of trees, which knows neither block nor memory size.
    Oblivious,
}

/// Average transfers of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) insert_reads: f64,
    pub(super) insert_writes: f64,
    /// Reads of a lookup that finds its key.
    pub(super) hit: f64,
    /// Reads of a lookup that does not find its key.
    pub(super) miss: f64,
}

/// The operations that each table must support here.
trait Counted {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> blocks::Result<()>;
    fn get(&self, key: &[u8]) -> blocks::Result<Option<Vec<u8>>>;
    fn space(&self) -> &MemorySpace;
}

impl Counted for Boa<MemorySpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> blocks::Result<()> {
        Boa::insert(self, key, value)
    }

    fn get(&self, key: &[u8]) -> blocks::Result<Option<Vec<u8>>> {
        Boa::get(self, key)
    }

    fn space(&self) -> &MemorySpace {
        Boa::space(self)
    }
}

impl Counted for Bot<MemorySpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> blocks::Result<()> {
        Bot::insert(self, key, value)
    }

    fn get(&self, key: &[u8]) -> blocks::Result<Option<Vec<u8>>> {
        Bot::get(self, key)
    }

    fn space(&self) -> &MemorySpace {
        Bot::space(self)
    }
}

/// Returns the number of records in a block.
pub(super) fn block_records() -> f64 {
    f64::from(BLOCK) / RECORD
}

/// Returns the number of records that fit in memory.
pub(super) fn memory_records() -> f64 {
    MEMORY as f64 / RECORD
}

impl Table {
    /// Counts the transfers of `records` inserts, and of lookups that start with a cold memory.
    pub(super) fn count(self, growth: u32, records: u64) -> Result<Counts> {
        let mut table = self.create(growth, records)?;
        for number in 0..records {
            table.insert(&key(number), &number.to_le_bytes())?;
        }
        table.space().cool();
        let inserts: Transfers = table.space().transfers(0);
        let each = |transfers: u64| transfers as f64 / records as f64;
        Ok(Counts {
            insert_reads: each(inserts.reads),
            insert_writes: each(inserts.writes),
            hit: lookups(&*table, records, 0)?,
            miss: lookups(&*table, records, ABSENT)?,
        })
    }

    fn create(self, growth: u32, records: u64) -> Result<Box<dyn Counted>> {
        let aligned = || MemorySpace::new(u64::from(BLOCK), 1 << 40).with_meter(u64::from(BLOCK), MEMORY);
        let trees = |options: BotOptions| BotOptions {
            growth,
            fingerprint_bits: 128,
            independence: Independence::Assumed,
            ..options
        };
        let leaf = u64::from(BLOCK) / (RECORD as u64 + 6);
        Ok(match self {
            Table::Refined => {
                let options = Options {
                    growth,
                    independence: Independence::Assumed,
                    ..Options::new(Kind::Refined, BLOCK, MEMORY)
                };
                Box::new(Boa::create(aligned(), options)?)
            }
            Table::Trees => {
                let options = trees(BotOptions::new(BLOCK, MEMORY)).planned_for(records, leaf);
                Box::new(Bot::create(aligned(), options)?)
            }
            Table::Asymmetric => {
                let options = trees(BotOptions::new(BLOCK, MEMORY)).planned_for(records, leaf);
                let schedule = Schedule::Every { beta: BETA };
                Box::new(Bot::create(aligned(), BotOptions { schedule, ..options })?)
            }
            Table::Oblivious => {
                // Blocks are not aligned because the table does not know their size.
                let space = MemorySpace::new(8, 1 << 40).with_meter(u64::from(BLOCK), MEMORY);
                let options = trees(BotOptions::oblivious()).planned_for(records, 1);
                Box::new(Bot::create(space, options)?)
            }
        })
    }
}

/// Returns the average reads of a lookup, over keys from `first` on.
fn lookups(table: &dyn Counted, records: u64, first: u64) -> Result<f64> {
    let mut reads = 0;
    for at in 0..LOOKUPS {
        let number = at * records / LOOKUPS;
        table.space().cool();
        let before = table.space().transfers(0);
        let found = table.get(&key(first + number))?;
        let expected = (first == 0).then(|| number.to_le_bytes().to_vec());
        ensure!(found == expected, "the table has lost or made up key {number}");
        reads += table.space().transfers(0).since(before).reads;
    }
    Ok(reads as f64 / LOOKUPS as f64)
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}
