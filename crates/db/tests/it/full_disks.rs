//! Recovery from a full disk in every structure. Writes are refused, deletes succeed, and the space
//! of deleted records accepts new values, repeatedly.
//!
//! Deletes wait at most five seconds for background work. That is too short on a loaded machine, so
//! the cycles run only at night.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Error, Keyspace, KeyspaceOptions, Options};
use alluvium_device::simulated::SimDirectory;
use alluvium_sim::environment::effort;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for background work; not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

/// Disk capacity, eight times the memory.
const CAPACITY: u64 = 128 << 20;
const MEMORY: u64 = 16 << 20;

/// Approximate maximum number of hash stores while merges keep up.
const FEW_STORES: u64 = 6;

/// A store and the keys that it holds.
struct Story {
    db: Db,
    keyspace: Keyspace,
    is_ordered: bool,
    value: Vec<u8>,
    /// Numbers of the keys that have a value.
    alive: Vec<u32>,
    next: u32,
}

/// Returns a key. Successive numbers give scattered keys.
fn key(number: u32) -> [u8; 16] {
    let mut key = [7; 16];
    key[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
    key
}

impl Story {
    fn new(structure: &str, value_bytes: usize) -> Story {
        let disk = SimDirectory::new(1);
        disk.set_capacity(CAPACITY);
        let options = Options::new().memory(MEMORY);
        let db = options.open_in(Arc::new(disk)).unwrap();
        let of = KeyspaceOptions::new().structure(structure.parse().unwrap());
        let keyspace = db.keyspace_with("main", &of).unwrap();
        Story {
            db,
            keyspace,
            is_ordered: !structure.starts_with("hashed"),
            value: vec![9; value_bytes],
            alive: Vec::new(),
            next: 0,
        }
    }

    /// Tries once to put one more value.
    fn put(&mut self) -> Result<(), Error> {
        self.keyspace.put(key(self.next), &self.value)?;
        self.alive.push(self.next);
        self.next += 1;
        Ok(())
    }

    /// Waits until the merges of hashed keyspaces keep up, as long as they have space. A record
    /// that many parts must merge occupies space until the last part has done so.
    fn let_merges_keep_up(&self) {
        let began = Instant::now();
        let waits = || {
            self.db
                .stats()
                .hashed
                .is_some_and(|hashed| hashed.hash_stores > FEW_STORES)
        };
        while waits() && began.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Writes until ten consecutive values are refused. Background work may free space meanwhile.
    fn fill(&mut self) {
        let mut refusals = 0;
        while refusals < 10 {
            if self.next.is_multiple_of(1000) && refusals == 0 {
                self.let_merges_keep_up();
            }
            match self.put() {
                Ok(()) => refusals = 0,
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    refusals += 1;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Deletes the keys at the chosen positions. No delete may be refused.
    fn delete(&mut self, is_chosen: impl Fn(usize) -> bool) {
        let all = self.alive.len();
        let (gone, alive): (Vec<_>, Vec<_>) = (0..all).partition(|place| is_chosen(*place));
        for place in gone {
            let deleted = self.keyspace.delete(key(self.alive[place]));
            deleted.unwrap_or_else(|error| panic!("{place} of {all}: {error}\n{}", self.db.stats()));
        }
        self.alive = alive.iter().map(|place| self.alive[*place]).collect();
    }

    /// Writes a number of values. Each may wait for space.
    fn write(&mut self, values: usize) {
        let began = Instant::now();
        for number in 0..values {
            while let Err(error) = self.put() {
                let is_late = began.elapsed() >= PATIENCE;
                assert!(
                    error.is_full() && !is_late,
                    "{number} of {values}: {error}\n{}",
                    self.db.stats()
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Fails if a live key is missing or a deleted key is found.
    fn compare(&self) {
        let found = match self.is_ordered {
            true => self.keyspace.iter().map(Result::unwrap).count(),
            false => self.keyspace.unordered().map(Result::unwrap).count(),
        };
        assert_eq!(found, self.alive.len());
        for number in self.alive.iter().step_by(97) {
            let value = self.keyspace.get(key(*number)).unwrap().expect("it was written");
            assert_eq!(value[..], self.value[..]);
        }
    }
}

/// Fills the disk three times, deleting the older half, every second key, and then everything.
fn heals(structure: &str, value_bytes: usize) {
    let mut story = Story::new(structure, value_bytes);
    for cycle in 0..effort(0, 3) {
        story.fill();
        let filled = story.alive.len();
        let bytes = (filled * value_bytes) as u64;
        println!("{structure}, cycle {cycle}: {filled} values, {} MiB", bytes >> 20);
        assert!(
            bytes > CAPACITY / 4,
            "{bytes} bytes are all that there was space for"
        );
        story.compare();
        match cycle {
            0 => story.delete(|place| place < filled / 2),
            1 => story.delete(|place| place % 2 == 0),
            _ => story.delete(|_| true),
        }
        let deleted = filled - story.alive.len();
        // Part of the freed space may have other uses: filters and merge output.
        story.write(deleted / 2);
        story.compare();
    }
    story.delete(|_| true);
    story.db.compact().unwrap();
    story.compare();
    assert_eq!(story.db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn of_hashed_keys() {
    heals("hashed", 1000);
}

#[test]
fn of_a_bundle_of_arrays() {
    heals("hashed,form=boa,lambda=2", 1000);
}

#[test]
fn of_the_tree() {
    heals("tiered", 1000);
}

#[test]
fn of_the_tree_with_values_that_are_apart() {
    heals("tiered", 4000);
}
