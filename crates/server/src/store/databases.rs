//! The mapping of the clients' databases to prefixes in the store. SWAPDB exchanges two databases
//! by changing the mapping, at a cost that does not depend on the number of keys.
//!
//! Each key is prefixed with a database number. Database 0 of the clients is stored under number 0
//! until it is swapped. The mapping is kept in the store and in memory. It changes only while all
//! locks are held. A command that has locked or read keys checks afterwards that the number by
//! which it chose them is still current (S24).

use super::DATABASES;
use super::model::format;
use alluvium::{Keyspace, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// For each database, in order, the number that it is stored under.
pub(crate) type DatabaseNumbers = [u8; DATABASES as usize];

/// The mapping, with four bits for each database.
#[derive(Debug)]
pub(crate) struct DatabaseMap(AtomicU64);

/// The initial mapping: each database under its own number.
const OWN: DatabaseNumbers = {
    let mut numbers = [0; DATABASES as usize];
    let mut database = 0;
    while database < numbers.len() {
        numbers[database] = database as u8;
        database += 1;
    }
    numbers
};

const _: () = assert!(DATABASES as u32 * 4 == u64::BITS, "a number takes four bits");

impl DatabaseMap {
    /// Loads the mapping of a store, or the initial one if the store has none.
    pub(crate) fn load(data: &Keyspace) -> Result<DatabaseMap> {
        let numbers = data.get(&format::databases_key()[..])?;
        Ok(DatabaseMap::of(&numbers_of(numbers.as_deref())))
    }

    fn of(numbers: &DatabaseNumbers) -> DatabaseMap {
        let databases = DatabaseMap(AtomicU64::new(0));
        databases.set(numbers);
        databases
    }

    /// Returns the mapping: the element at `d` is the number that database `d` is stored under.
    pub(crate) fn numbers(&self) -> DatabaseNumbers {
        let packed = self.0.load(Ordering::Acquire);
        std::array::from_fn(|database| (packed >> (4 * database)) as u8 & 15)
    }

    /// Returns the number that a database is stored under.
    #[inline]
    pub(crate) fn number_of(&self, database: u8) -> u8 {
        (self.0.load(Ordering::Acquire) >> (4 * database)) as u8 & 15
    }

    /// Changes the mapping. The caller holds all locks.
    pub(super) fn set(&self, numbers: &DatabaseNumbers) {
        let packed = numbers
            .iter()
            .rev()
            .fold(0, |packed, &number| packed << 4 | u64::from(number));
        self.0.store(packed, Ordering::Release);
    }
}

/// Decodes a stored mapping, or returns the initial one.
pub(crate) fn numbers_of(stored: Option<&[u8]>) -> DatabaseNumbers {
    stored.and_then(format::decode_databases).unwrap_or(OWN)
}

/// Returns the database that is stored under a number.
pub(super) fn database_of(numbers: &DatabaseNumbers, number: u8) -> u8 {
    let database = numbers.iter().position(|&other| other == number);
    database.map_or(number, |database| database as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_have_their_own_numbers_until_they_are_swapped() {
        let databases = DatabaseMap::of(&numbers_of(None));
        assert_eq!(databases.numbers(), OWN);
        let mut numbers = OWN;
        numbers.swap(0, 15);
        numbers.swap(15, 3);
        databases.set(&numbers);
        assert_eq!(databases.numbers(), numbers);
        for database in 0..DATABASES {
            let number = databases.number_of(database);
            assert_eq!(number, numbers[usize::from(database)]);
            assert_eq!(database_of(&numbers, number), database);
        }
        let stored = format::encode_databases(&numbers);
        assert_eq!(numbers_of(Some(&stored)), numbers);
        // Data that no server has written is ignored.
        assert_eq!(numbers_of(Some(&[0; 16])), OWN);
        assert_eq!(numbers_of(Some(&stored[1..])), OWN);
    }
}
