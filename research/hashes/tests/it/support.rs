//! Shared test support: a common interface to every table.

use research_hashes::blocks::{Extent, MemorySpace, Result};
use research_hashes::boa::{Boa, Kind, Options};
use research_hashes::bot::{Bot, BotOptions, Schedule};
use std::collections::HashMap;

/// A table under test.
pub(crate) trait Table: Sized {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>>;
    fn commit(&mut self) -> Result<()>;
    fn violations(&self) -> Result<Vec<String>>;
    fn extents(&self) -> Result<Vec<Extent>>;
    fn space(&self) -> &MemorySpace;
    fn reopen(space: MemorySpace) -> Result<Self>;
}

impl Table for Boa<MemorySpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Boa::insert(self, key, value)
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Boa::delete(self, key)
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Boa::get(self, key)
    }
    fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        Boa::history(self, key)
    }
    fn commit(&mut self) -> Result<()> {
        Boa::commit(self)
    }
    fn violations(&self) -> Result<Vec<String>> {
        Ok(self.check()?.iter().map(ToString::to_string).collect())
    }
    fn extents(&self) -> Result<Vec<Extent>> {
        Boa::extents(self)
    }
    fn space(&self) -> &MemorySpace {
        Boa::space(self)
    }
    fn reopen(space: MemorySpace) -> Result<Self> {
        Boa::open(space)
    }
}

pub(crate) const KINDS: [Kind; 5] = [
    Kind::Leveled,
    Kind::Tiered,
    Kind::Interpolated,
    Kind::Routed,
    Kind::Refined,
];

pub(crate) fn space() -> MemorySpace {
    MemorySpace::new(256, 1 << 32)
}

pub(crate) fn boa(options: Options) -> Boa<MemorySpace> {
    Boa::create(space(), options).unwrap()
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

impl Table for Bot<MemorySpace> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Bot::insert(self, key, value)
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Bot::delete(self, key)
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Bot::get(self, key)
    }
    fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        Bot::history(self, key)
    }
    fn commit(&mut self) -> Result<()> {
        Bot::commit(self)
    }
    fn violations(&self) -> Result<Vec<String>> {
        Ok(self.check()?.iter().map(ToString::to_string).collect())
    }
    fn extents(&self) -> Result<Vec<Extent>> {
        Bot::extents(self)
    }
    fn space(&self) -> &MemorySpace {
        Bot::space(self)
    }
    fn reopen(space: MemorySpace) -> Result<Self> {
        Bot::open(space)
    }
}

pub(crate) fn bot(options: BotOptions) -> Bot<MemorySpace> {
    Bot::create(space(), options).unwrap()
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
            schedule: Schedule::Every { beta: 2 },
            ..usual
        },
    ]
}
