//! Block transfers of the hash tables of chapter 2, counted.

use alluvium_filters::fingerprint::HashIndependence;
use anyhow::{Result, ensure};
use research_hashes::blocks::{self, BlockTransfers, MemoryBlockSpace};
use research_hashes::boa::{BoaOptions, BoaStructure, BoaTable};
use research_hashes::bot::{BotOptions, BotTable, QueueSchedule};

/// Block size B, in bytes.
const BLOCK: u32 = 1024;
/// Size M of the simulated memory, in bytes.
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
pub(super) enum HashTableKind {
    /// The refined bundle of arrays.
    Refined,
    Trees,
    /// The bundle of trees that trades more reads for fewer writes.
    Asymmetric,
    /// The cache-oblivious bundle of trees, which knows neither block nor memory size.
    Oblivious,
}

/// Average transfers of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferCounts {
    pub(super) insert_reads: f64,
    pub(super) insert_writes: f64,
    /// Reads of a lookup that finds its key.
    pub(super) hit: f64,
    /// Reads of a lookup that does not find its key.
    pub(super) miss: f64,
}

/// The operations that each table must support here.
trait MeteredTable {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> blocks::Result<()>;
    fn get(&self, key: &[u8]) -> blocks::Result<Option<Vec<u8>>>;
    fn space(&self) -> &MemoryBlockSpace;
}

impl MeteredTable for BoaTable<MemoryBlockSpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> blocks::Result<()> {
        BoaTable::insert(self, key, value)
    }

    fn get(&self, key: &[u8]) -> blocks::Result<Option<Vec<u8>>> {
        BoaTable::get(self, key)
    }

    fn space(&self) -> &MemoryBlockSpace {
        BoaTable::space(self)
    }
}

impl MeteredTable for BotTable<MemoryBlockSpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> blocks::Result<()> {
        BotTable::insert(self, key, value)
    }

    fn get(&self, key: &[u8]) -> blocks::Result<Option<Vec<u8>>> {
        BotTable::get(self, key)
    }

    fn space(&self) -> &MemoryBlockSpace {
        BotTable::space(self)
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

impl HashTableKind {
    /// Counts the transfers of `records` inserts, and of lookups that start with a cold memory.
    pub(super) fn count(self, growth: u32, records: u64) -> Result<TransferCounts> {
        let mut table = self.create(growth, records)?;
        for number in 0..records {
            table.insert(&key(number), &number.to_le_bytes())?;
        }
        table.space().cool();
        let inserts: BlockTransfers = table.space().transfers(0);
        let each = |transfers: u64| transfers as f64 / records as f64;
        Ok(TransferCounts {
            insert_reads: each(inserts.reads),
            insert_writes: each(inserts.writes),
            hit: lookups(&*table, records, 0)?,
            miss: lookups(&*table, records, ABSENT)?,
        })
    }

    fn create(self, growth: u32, records: u64) -> Result<Box<dyn MeteredTable>> {
        let aligned =
            || MemoryBlockSpace::new(u64::from(BLOCK), 1 << 40).with_meter(u64::from(BLOCK), MEMORY);
        let trees = |options: BotOptions| BotOptions {
            growth,
            fingerprint_bits: 128,
            independence: HashIndependence::Assumed,
            ..options
        };
        let leaf = u64::from(BLOCK) / (RECORD as u64 + 6);
        Ok(match self {
            HashTableKind::Refined => {
                let options = BoaOptions {
                    growth,
                    independence: HashIndependence::Assumed,
                    ..BoaOptions::new(BoaStructure::Refined, BLOCK, MEMORY)
                };
                Box::new(BoaTable::create(aligned(), options)?)
            }
            HashTableKind::Trees => {
                let options = trees(BotOptions::new(BLOCK, MEMORY)).planned_for(records, leaf);
                Box::new(BotTable::create(aligned(), options)?)
            }
            HashTableKind::Asymmetric => {
                let options = trees(BotOptions::new(BLOCK, MEMORY)).planned_for(records, leaf);
                let schedule = QueueSchedule::Every { beta: BETA };
                Box::new(BotTable::create(aligned(), BotOptions { schedule, ..options })?)
            }
            HashTableKind::Oblivious => {
                // Blocks are not aligned because the table does not know their size.
                let space = MemoryBlockSpace::new(8, 1 << 40).with_meter(u64::from(BLOCK), MEMORY);
                let options = trees(BotOptions::oblivious()).planned_for(records, 1);
                Box::new(BotTable::create(space, options)?)
            }
        })
    }
}

/// Returns the average reads of a lookup, over keys from `first` on.
fn lookups(table: &dyn MeteredTable, records: u64, first: u64) -> Result<f64> {
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
