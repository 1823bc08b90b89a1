//! Decides where records are stored: in the ordered keyspace with all other data, or in hashed
//! keyspaces.
//!
//! A store with hashed keys has one unordered keyspace per database for its records. A lookup in
//! such a keyspace needs one read and less than one byte of memory per key. The elements of
//! collections remain in the ordered keyspace.

use super::databases::numbers_of;
use super::layout::{existing, hashed_options};
use super::model::format::{self, InnerKey};
use super::{DATABASES, ReadReservation, ServerStore};
use crate::net::wait_hooks;
use crate::options::KeyLayout;
use alluvium::{Db, Keyspace, Snapshot, Value};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The keyspaces of hashed records.
#[derive(Debug)]
pub(crate) struct RecordKeyspaces {
    db: Db,
    /// One keyspace per database number, created when the first record is written to it. `None` if
    /// records are ordered.
    hashed: Option<[OnceLock<Keyspace>; DATABASES as usize]>,
}

/// The keyspace in which a key is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPlacement {
    /// The keyspace that all ordered data shares.
    Ordered,
    /// The keyspace for the hashed records of the database with this stored number.
    Records(u8),
}

impl RecordKeyspaces {
    /// Opens the existing record keyspaces of a store with this layout.
    pub(super) fn open(db: &Db, layout: KeyLayout) -> alluvium::Result<RecordKeyspaces> {
        let mut hashed = None;
        if layout == KeyLayout::Hashed {
            let spaces: [OnceLock<Keyspace>; DATABASES as usize] = Default::default();
            for (database, space) in (0..DATABASES).zip(&spaces) {
                if let Some(found) = existing(db, &format::records_name(database))? {
                    space.get_or_init(|| found);
                }
            }
            hashed = Some(spaces);
        }
        Ok(RecordKeyspaces {
            db: db.clone(),
            hashed,
        })
    }

    /// Returns whether the store has hashed records.
    #[inline]
    pub(crate) fn are_hashed(&self) -> bool {
        self.hashed.is_some()
    }

    /// Returns the keyspace in which an encoded key is stored.
    #[inline]
    pub(super) fn home(&self, inner: &[u8]) -> KeyPlacement {
        match inner.first() {
            Some(&database) if self.are_hashed() && database < DATABASES && format::is_record(inner) => {
                KeyPlacement::Records(database)
            }
            _ => KeyPlacement::Ordered,
        }
    }

    /// Returns the keyspace of a database's hashed records, or `None` if it does not exist yet.
    pub(crate) fn existing(&self, database: u8) -> Option<&Keyspace> {
        self.hashed.as_ref()?.get(usize::from(database))?.get()
    }

    /// Returns the keyspace of a database's hashed records. Creates it if it does not exist.
    pub(super) fn space(&self, database: u8) -> alluvium::Result<&Keyspace> {
        let spaces = self
            .hashed
            .as_ref()
            .expect("hashed records are asked for where there are any");
        let space = &spaces[usize::from(database)];
        if let Some(space) = space.get() {
            return Ok(space);
        }
        let name = format::records_name(database);
        let made = self.db.keyspace_with(&name, &hashed_options(&self.db))?;
        Ok(space.get_or_init(|| made))
    }

    /// Creates an encoded key's keyspace if it does not exist.
    pub(super) fn ensure(&self, inner: &[u8]) -> alluvium::Result<()> {
        if let KeyPlacement::Records(database) = self.home(inner) {
            self.space(database)?;
        }
        Ok(())
    }

    /// Returns all existing keyspaces of hashed records.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Keyspace> {
        (0..DATABASES).filter_map(|database| self.existing(database))
    }
}

/// Converts encoded keys to their form in the keyspace `home`.
fn names<'k>(home: KeyPlacement, places: impl Iterator<Item = &'k [u8]>) -> Vec<&'k [u8]> {
    let name = |place: &'k [u8]| match home {
        KeyPlacement::Ordered => place,
        KeyPlacement::Records(_) => format::user_key(place),
    };
    places.map(name).collect()
}

/// Records of one database to read: their keyspace, and their keys in that keyspace.
pub(crate) struct RecordReads<'s, 'k> {
    /// The keyspace, or `None` if no hashed record has ever been written to the database.
    pub(crate) space: Option<&'s Keyspace>,
    pub(crate) names: Vec<&'k [u8]>,
}

impl ServerStore {
    /// Prepares to read records of one database. Converts the record keys `places` to the form that
    /// the keyspace uses.
    pub(crate) fn gather<'s, 'k>(&'s self, database: u8, places: &'k [InnerKey]) -> RecordReads<'s, 'k> {
        let (space, home) = match self.records.are_hashed() {
            true => (self.records.existing(database), KeyPlacement::Records(database)),
            false => (Some(&self.data), KeyPlacement::Ordered),
        };
        let names = names(home, places.iter().map(|place| &place[..]));
        RecordReads { space, names }
    }

    /// Estimates the number of records in a database.
    pub(crate) fn approximate_records(&self, database: u8) -> alluvium::Result<u64> {
        if self.records.are_hashed() {
            let space = self.records.existing(database);
            return space.map_or(Ok(0), Keyspace::approximate_len);
        }
        let (start, end) = format::records(database);
        self.data.approximate_len_of(&start[..]..&end[..])
    }

    /// Returns whether a database contains any records.
    pub(crate) fn has_records(&self, database: u8) -> alluvium::Result<bool> {
        let first = match (self.records.are_hashed(), self.records.existing(database)) {
            (true, None) => None,
            (true, Some(space)) => space.unordered().next().transpose()?,
            (false, _) => {
                let (start, end) = format::records(database);
                self.data.range(&start[..]..&end[..]).next().transpose()?
            }
        };
        Ok(first.is_some())
    }

    /// Reads a user key's record from a snapshot. `database` is the client's database; the
    /// snapshot's own mapping supplies the stored number.
    pub(crate) fn record_at(
        &self,
        at: &Snapshot,
        database: u8,
        key: &[u8],
    ) -> alluvium::Result<Option<Value>> {
        let numbers = at.get(&self.data, &format::databases_key()[..])?;
        let number = numbers_of(numbers.as_deref())[usize::from(database)];
        match (self.records.are_hashed(), self.records.existing(number)) {
            (false, _) => at.get(&self.data, &format::record_key(number, key)[..]),
            (true, Some(space)) => at.get(space, key),
            (true, None) => Ok(None),
        }
    }

    /// Reads encoded keys, which may be in different keyspaces. Returns the values in the order of
    /// the keys, and a memory charge that the caller must keep while it uses them: see
    /// [`ServerStore::read_charged`].
    pub(super) fn read_places(
        &self,
        places: &[impl AsRef<[u8]>],
    ) -> alluvium::Result<(Vec<Option<Value>>, Option<ReadReservation>)> {
        if !self.records.are_hashed() {
            return self.read_charged(&self.data, places);
        }
        let first = places
            .first()
            .map_or(KeyPlacement::Ordered, |place| self.records.home(place.as_ref()));
        if places
            .iter()
            .all(|place| self.records.home(place.as_ref()) == first)
        {
            let Some(space) = self.space_of(first) else {
                return Ok((none_of(places.len()), None));
            };
            let names = names(first, places.iter().map(|place| place.as_ref()));
            return self.read_charged(space, &names);
        }
        let reading = self.wait_for_room_to_read(places.len());
        let read = |space: &Keyspace, names: &[&[u8]]| wait_hooks::wait_for(space.multi_get_async(names));
        Ok((self.read_apart(places, read)?, reading))
    }

    /// Groups encoded keys by keyspace and calls `read` once per keyspace. Returns the values in
    /// the order of the keys.
    pub(super) fn read_apart<E>(
        &self,
        places: &[impl AsRef<[u8]>],
        mut read: impl FnMut(&Keyspace, &[&[u8]]) -> Result<Vec<Option<Value>>, E>,
    ) -> Result<Vec<Option<Value>>, E> {
        let homes: Vec<KeyPlacement> = places
            .iter()
            .map(|place| self.records.home(place.as_ref()))
            .collect();
        let mut different: SmallVec<[KeyPlacement; 2]> = SmallVec::new();
        for &home in &homes {
            if !different.contains(&home) {
                different.push(home);
            }
        }
        let mut values = none_of(places.len());
        for home in different {
            let Some(space) = self.space_of(home) else {
                continue;
            };
            let at: Vec<usize> = (0..places.len()).filter(|&index| homes[index] == home).collect();
            let names = names(home, at.iter().map(|&index| places[index].as_ref()));
            let found = read(space, &names)?;
            assert!(found.len() == at.len(), "every key has an answer");
            for (index, value) in at.into_iter().zip(found) {
                values[index] = value;
            }
        }
        Ok(values)
    }

    fn space_of(&self, home: KeyPlacement) -> Option<&Keyspace> {
        match home {
            KeyPlacement::Ordered => Some(&self.data),
            KeyPlacement::Records(database) => self.records.existing(database),
        }
    }
}

fn none_of(count: usize) -> Vec<Option<Value>> {
    (0..count).map(|_| None).collect()
}
