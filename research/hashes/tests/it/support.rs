//! Shared test support: a common interface to every table.

use research_hashes::blocks::{BlockExtent, MemoryBlockSpace, Result};
use research_hashes::boa::{BoaOptions, BoaStructure, BoaTable};
use research_hashes::bot::{BotOptions, BotTable, QueueSchedule};
use std::collections::HashMap;

/// A table under test.
pub(crate) trait Table: Sized {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>>;
    fn commit(&mut self) -> Result<()>;
    fn violations(&self) -> Result<Vec<String>>;
    fn extents(&self) -> Result<Vec<BlockExtent>>;
    fn space(&self) -> &MemoryBlockSpace;
    fn reopen(space: MemoryBlockSpace) -> Result<Self>;
}

impl Table for BoaTable<MemoryBlockSpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        BoaTable::insert(self, key, value)
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        BoaTable::delete(self, key)
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        BoaTable::get(self, key)
    }
    fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        BoaTable::history(self, key)
    }
    fn commit(&mut self) -> Result<()> {
        BoaTable::commit(self)
    }
    fn violations(&self) -> Result<Vec<String>> {
        Ok(self.check()?.iter().map(ToString::to_string).collect())
    }
    fn extents(&self) -> Result<Vec<BlockExtent>> {
        BoaTable::extents(self)
    }
    fn space(&self) -> &MemoryBlockSpace {
        BoaTable::space(self)
    }
    fn reopen(space: MemoryBlockSpace) -> Result<Self> {
        BoaTable::open(space)
    }
}

pub(crate) const KINDS: [BoaStructure; 5] = [
    BoaStructure::Leveled,
    BoaStructure::Tiered,
    BoaStructure::Interpolated,
    BoaStructure::Routed,
    BoaStructure::Refined,
];

pub(crate) fn space() -> MemoryBlockSpace {
    MemoryBlockSpace::new(256, 1 << 32)
}

pub(crate) fn boa(options: BoaOptions) -> BoaTable<MemoryBlockSpace> {
    BoaTable::create(space(), options).unwrap()
}

pub(crate) fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes()[3..].to_vec()
}

/// The distribution of a random history of operations.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) keys: u64,
    /// The percentage of deletes.
    pub(crate) deletes: u32,
    pub(crate) longest_value: usize,
}

pub(crate) type Model = HashMap<Vec<u8>, Vec<u8>>;

/// Draws one operation and applies it to the table and the model.
pub(crate) fn step<T: Table>(table: &mut T, model: &mut Model, mix: Mix, random: &mut fastrand::Rng) {
    let key = key(random.u64(..mix.keys));
    match random.u32(..100) {
        draw if draw < mix.deletes => {
            table.delete(&key).unwrap();
            model.remove(&key);
        }
        draw if draw < mix.deletes + 15 => {
            assert_eq!(table.get(&key).unwrap(), model.get(&key).cloned(), "key {key:?}");
        }
        _ => {
            let value = vec![random.u8(..); random.usize(..=mix.longest_value)];
            table.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

/// Compares all answers, checks all invariants, and detects leaked extents.
pub(crate) fn agree<T: Table>(table: &T, model: &Model, keys: u64) {
    for number in 0..keys {
        let key = key(number);
        assert_eq!(table.get(&key).unwrap(), model.get(&key).cloned(), "key {number}");
    }
    assert_eq!(table.violations().unwrap(), [""; 0]);
    assert_eq!(
        table.extents().unwrap(),
        table.space().extents(),
        "extents leak or are gone"
    );
}

/// Performs `operations` operations, comparing at intervals.
pub(crate) fn drive<T: Table>(table: &mut T, mix: Mix, operations: u32, seed: u64) -> Model {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    for done in 1..=operations {
        step(table, &mut model, mix, &mut random);
        if done % (operations / 2).max(1) == 0 {
            agree(table, &model, mix.keys.min(3000));
        }
    }
    model
}

impl Table for BotTable<MemoryBlockSpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        BotTable::insert(self, key, value)
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        BotTable::delete(self, key)
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        BotTable::get(self, key)
    }
    fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        BotTable::history(self, key)
    }
    fn commit(&mut self) -> Result<()> {
        BotTable::commit(self)
    }
    fn violations(&self) -> Result<Vec<String>> {
        Ok(self.check()?.iter().map(ToString::to_string).collect())
    }
    fn extents(&self) -> Result<Vec<BlockExtent>> {
        BotTable::extents(self)
    }
    fn space(&self) -> &MemoryBlockSpace {
        BotTable::space(self)
    }
    fn reopen(space: MemoryBlockSpace) -> Result<Self> {
        BotTable::open(space)
    }
}

pub(crate) fn bot(options: BotOptions) -> BotTable<MemoryBlockSpace> {
    BotTable::create(space(), options).unwrap()
}

/// The three bundles of trees: the BOT, the cache-oblivious one, and one with a queue on every
/// second level.
pub(crate) fn bots() -> [BotOptions; 3] {
    let usual = BotOptions::new(512, 8192);
    let oblivious = BotOptions {
        fingerprint_bits: 128,
        levels: 9,
        ..BotOptions::oblivious()
    };
    [
        usual,
        oblivious,
        BotOptions {
            schedule: QueueSchedule::Every { beta: 2 },
            ..usual
        },
    ]
}
