//! Which keys of the store belong to which database of clients: SWAPDB lets two of them change
//! places at once, however many keys they have.
//!
//! Keys stand under the number of a database. What clients call database 0 is stored under 0 until
//! it is swapped with another; the store has the numbers of all databases, and this is the same in
//! memory. It changes while all locks are held. Who holds a lock, or has read, looks whether the
//! number is still that by which it chose its keys (S24).

use super::DATABASES;
use crate::model::format;
use alluvium::{Keyspace, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// Under which numbers databases are stored: of each the number, in order.
pub(crate) type Numbers = [u8; DATABASES as usize];

/// The numbers of all databases, four bits each.
#[derive(Debug)]
pub(crate) struct Databases(AtomicU64);

/// Each database under its own number.
const OWN: Numbers = {
    let mut numbers = [0; DATABASES as usize];
    let mut database = 0;
    while database < numbers.len() {
        numbers[database] = database as u8;
        database += 1;
    }
    numbers
};

const _: () = assert!(DATABASES as u32 * 4 == u64::BITS, "a number takes four bits");

impl Databases {
    /// What a store says; each is stored under its own number if it says nothing.
    pub(crate) fn load(data: &Keyspace) -> Result<Databases> {
        let numbers = data.get(&format::databases_key()[..])?;
        Ok(Databases::of(&numbers_of(numbers.as_deref())))
    }

    fn of(numbers: &Numbers) -> Databases {
        let databases = Databases(AtomicU64::new(0));
        databases.set(numbers);
        databases
    }

    /// The numbers of all databases.
    pub(crate) fn numbers(&self) -> Numbers {
        let packed = self.0.load(Ordering::Acquire);
        std::array::from_fn(|database| (packed >> (4 * database)) as u8 & 15)
    }

    /// The number that a database is stored under.
    #[inline]
    pub(crate) fn number_of(&self, database: u8) -> u8 {
        (self.0.load(Ordering::Acquire) >> (4 * database)) as u8 & 15
    }

    /// From now on databases are stored under these numbers. All locks are held.
    pub(super) fn set(&self, numbers: &Numbers) {
        let packed = numbers
            .iter()
            .rev()
            .fold(0, |packed, &number| packed << 4 | u64::from(number));
        self.0.store(packed, Ordering::Release);
    }
}

/// The numbers that a store says, or each its own.
pub(crate) fn numbers_of(stored: Option<&[u8]>) -> Numbers {
    stored.and_then(format::decode_databases).unwrap_or(OWN)
}

/// The database that is stored under a number.
pub(super) fn database_of(numbers: &Numbers, number: u8) -> u8 {
    let database = numbers.iter().position(|&other| other == number);
    database.map_or(number, |database| database as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_have_their_own_numbers_until_they_are_swapped() {
        let databases = Databases::of(&numbers_of(None));
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
        // What no server has written counts for nothing.
        assert_eq!(numbers_of(Some(&[0; 16])), OWN);
        assert_eq!(numbers_of(Some(&stored[1..])), OWN);
    }
}
