//! Maps the databases that clients select to the key prefixes of the stored data. SWAPDB exchanges
//! two databases in constant time by updating this mapping.
//!
//! Each stored key begins with a database number. Until databases are swapped, the client's
//! database 0 is stored under number 0, and so on. The mapping is kept both in the store and in
//! memory, and changes only while all locks are held. A command uses the mapping to compute the
//! keys that it locks or reads; it must verify afterwards that the mapping has not changed (S24).

use super::DATABASES;
use super::model::format;
use alluvium::{Keyspace, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// The mapping as an array: element `d` is the stored number of the client's database `d`.
pub(crate) type DatabaseNumbers = [u8; DATABASES as usize];

/// The mapping, packed into four bits per database.
#[derive(Debug)]
pub(crate) struct DatabaseMap(AtomicU64);

/// The initial mapping, which stores each database under its own number.
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
    /// Reads the mapping from a store. Returns the initial mapping if the store contains none.
    pub(crate) fn load(data: &Keyspace) -> Result<DatabaseMap> {
        let numbers = data.get(&format::databases_key()[..])?;
        Ok(DatabaseMap::of(&numbers_of(numbers.as_deref())))
    }

    fn of(numbers: &DatabaseNumbers) -> DatabaseMap {
        let databases = DatabaseMap(AtomicU64::new(0));
        databases.set(numbers);
        databases
    }

    /// Returns the whole mapping: element `d` is the stored number of the client's database `d`.
    pub(crate) fn numbers(&self) -> DatabaseNumbers {
        let packed = self.0.load(Ordering::Acquire);
        std::array::from_fn(|database| (packed >> (4 * database)) as u8 & 15)
    }

    /// Returns the stored number of the client's database.
    #[inline]
    pub(crate) fn number_of(&self, database: u8) -> u8 {
        (self.0.load(Ordering::Acquire) >> (4 * database)) as u8 & 15
    }

    /// Replaces the mapping in memory. The caller must hold all locks.
    pub(super) fn set(&self, numbers: &DatabaseNumbers) {
        let packed = numbers
            .iter()
            .rev()
            .fold(0, |packed, &number| packed << 4 | u64::from(number));
        self.0.store(packed, Ordering::Release);
    }
}

/// Decodes a mapping from the store. Returns the initial mapping if there is none or it is invalid.
pub(crate) fn numbers_of(stored: Option<&[u8]>) -> DatabaseNumbers {
    stored.and_then(format::decode_databases).unwrap_or(OWN)
}

/// Returns the client's database with this stored number.
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
        // An invalid mapping, which no server writes, is ignored.
        assert_eq!(numbers_of(Some(&[0; 16])), OWN);
        assert_eq!(numbers_of(Some(&stored[1..])), OWN);
    }
}
