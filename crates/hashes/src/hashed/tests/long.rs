//! Runs long sequences of mixed operations and compares the structure with a map.
//! `ALLUVIUM_HASHED_OPERATIONS` is the number of operations for each form of structure.

use super::{
    AllocationClass, AppendOperator, Dictionary, HashedOptions, HashedStructure, LookupKey, LookupState,
    MAX_SEQUENCE, Memtable, MemtableSlice, Message, PointLookup, StepProgress, Story, StructureContext,
    bundle, grove, lookup,
};
use alluvium_dictionary::contract::DictionaryScan;
use alluvium_dictionary::range::KeyRange;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of writes per memtable.
const WRITES: usize = 500;

struct Long {
    home: StructureContext,
    hashed: HashedStructure,
    options: HashedOptions,
    random: fastrand::Rng,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    at: u64,
    keys: u32,
}

impl Long {
    fn key(&mut self) -> Vec<u8> {
        // Write some keys much more often than others.
        let number = match self.random.bool() {
            true => self.random.u32(..self.keys),
            false => self.random.u32(..self.keys / 50),
        };
        format!("k{number:07}").into_bytes()
    }

    /// Inserts a random message into a memtable and applies it to the model.
    fn say(&mut self, memtable: &Memtable) {
        self.at += 1;
        let (at, key) = (self.at, self.key());
        match self.random.u32(..1000) {
            0..600 => {
                let value = vec![self.random.u8(..); self.random.usize(..24)];
                memtable.insert(&key, Message::put(at, &value)).unwrap();
                self.model.insert(key, value);
            }
            600..750 => {
                let operand = [self.random.u8(..)];
                memtable.insert(&key, Message::merge(at, &operand)).unwrap();
                self.model.entry(key).or_default().extend(operand);
            }
            750..999 => {
                memtable.insert(&key, Message::delete(at)).unwrap();
                self.model.remove(&key);
            }
            _ => {
                let end = [&key[..], b"~"].concat();
                let start = key[..key.len() - 1].to_vec();
                memtable.delete_range(&start, &end, at).unwrap();
                self.model.retain(|key, _| *key < start || *key >= end);
            }
        }
    }

    fn fill(&mut self) {
        let memtable = Memtable::new(4 << 20);
        (0..WRITES).for_each(|_| self.say(&memtable));
        let share = MemtableSlice::whole(Arc::new(memtable), self.at);
        let mut taking = self.hashed.incorporate(share, AllocationClass::Normal).unwrap();
        while taking.poll(1000).unwrap() == StepProgress::More {}
        taking.publish().unwrap();
        self.home.horizon.raise(self.at);
        while let Some(mut step) = self.hashed.next_step().unwrap() {
            let slice = self.random.usize(1..400);
            while step.poll(slice).unwrap() == StepProgress::More {}
        }
    }

    fn ask(&mut self) {
        let key = self.key();
        let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
        lookup::gather(&self.hashed.reader(), LookupKey::new(&key), &mut gather).unwrap();
        let found = gather.finish();
        assert_eq!(found.as_ref(), self.model.get(&key), "{}", key.escape_ascii());
    }

    fn reopen(&mut self) {
        let (root, at) = {
            let cut = self.hashed.checkpoint_root().unwrap();
            (cut.root.clone(), cut.at)
        };
        let files = super::DataFiles::of(&self.home.store);
        let found = super::check_files(files, &root, 0, &mut |_| Ok(())).unwrap();
        assert_eq!(found.into_sentences(), Vec::<String>::new());
        self.hashed = HashedStructure::open(self.home.clone(), &self.options, &root, at).unwrap();
        let list = Arc::new(super::List(super::MemtableList::default()));
        let mut walk = self.hashed.walk(list, KeyRange::everything(), self.at, 0);
        let mut count = 0;
        while let Some((key, value)) = walk.next().unwrap() {
            assert_eq!(self.model.get(key).map(Vec::as_slice), Some(value));
            count += 1;
        }
        assert_eq!(count, self.model.len());
    }
}

#[test]
fn a_long_history_is_that_of_a_map() {
    let operations = std::env::var("ALLUVIUM_HASHED_OPERATIONS");
    let operations: usize = operations.map_or(40_000, |number| number.parse().unwrap());
    for options in [grove(2), grove(4), grove(16), bundle(4, true)] {
        let story = Story::of(options.clone(), 1);
        let mut long = Long {
            home: story.home.clone(),
            hashed: story.hashed.clone(),
            options,
            random: fastrand::Rng::with_seed(5),
            model: BTreeMap::new(),
            at: 0,
            keys: (operations / 8).clamp(2000, 200_000) as u32,
        };
        let (mut rounds, mut highest) = (0, 0);
        while rounds * 2 * WRITES < operations {
            long.fill();
            (0..WRITES).for_each(|_| long.ask());
            rounds += 1;
            highest = highest.max(long.hashed.stats().levels);
            if rounds % (operations / WRITES / 8).max(1) == 0 {
                long.reopen();
            }
        }
        long.reopen();
        println!(
            "{:?}: {operations} operations, {} keys, {highest} levels, {:?}",
            long.options.form,
            long.model.len(),
            long.hashed.stats()
        );
        assert!(highest >= 2, "levels filled");
    }
}
