//! Upgrades stores written by earlier versions of the server.
//!
//! Stores of format version 1 have no marks for keys with collections. The upgrade reads all
//! records once, in constant memory, and writes the marks, then the new version number. An
//! interrupted upgrade is repeated from the beginning and writes the same marks again.
//!
//! Stores of version 2 have no database mapping, and need no conversion. Version 4 does not succeed
//! version 3 but denotes a store with hashed records.

use super::DATABASES;
use super::model::format::{self, DecodedRecord, InnerKey};
use crate::error::{Error, Result};
use alluvium::{Db, Keyspace, WriteBatch};

/// The first format version in which keys with collections have marks.
const NOTES_SINCE: u64 = 2;

/// Number of marks per batch.
const AT_ONCE: usize = 4096;

/// Upgrades a store to the format version of this program. Fails if the store has a newer version.
pub(super) fn upgrade(db: &Db, data: &Keyspace) -> Result<()> {
    let version = match data.get(&format::version_key()[..])? {
        Some(value) => format::decode_number(&value).unwrap_or(u64::MAX),
        None => 1,
    };
    if version > format::HASHED_VERSION {
        return Err(Error::Newer {
            version,
            known: format::HASHED_VERSION,
        });
    }
    if version < format::VERSION {
        if version < NOTES_SINCE {
            for database in 0..DATABASES {
                note_collections(db, data, database)?;
            }
        }
        let version = format::encode_number(format::VERSION);
        data.put(&format::version_key()[..], version)?;
    }
    Ok(())
}

struct MarkBatch<'d> {
    db: &'d Db,
    data: &'d Keyspace,
    database: u8,
    batch: WriteBatch,
}

impl MarkBatch<'_> {
    fn add(&mut self, number: u64, key: &[u8]) -> Result<()> {
        let note = format::collection_key(self.database, number);
        let hash = format::encode_number(format::place(key));
        self.batch.put(self.data, &note, hash)?;
        if self.batch.len() >= AT_ONCE {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.db.write(&self.batch)?;
        self.batch.clear();
        Ok(())
    }
}

/// Writes the marks of all collections in a database.
fn note_collections(db: &Db, data: &Keyspace, database: u8) -> Result<()> {
    let walk = |(start, end): (InnerKey, InnerKey)| data.range(&start[..]..&end[..]);
    if walk(format::all_elements(database)).lend()?.is_none() {
        return Ok(());
    }
    let mut notes = MarkBatch {
        db,
        data,
        database,
        batch: WriteBatch::new(),
    };
    let mut records = walk(format::records(database));
    while let Some((inner, record)) = records.lend()? {
        if let Ok(DecodedRecord::Collection(collection)) = format::decode_record(record) {
            notes.add(collection.number, format::user_key(inner))?;
        }
    }
    // An expired collection's record may already have been dropped, but the collection keeps its
    // elements until the reaper deletes them, so it needs a mark, too.
    let mut expiries = walk(format::all_expiries(database));
    while let Some((inner, key)) = expiries.lend()? {
        if let Some(number) = format::expiring_number(inner) {
            notes.add(number, key)?;
        }
    }
    notes.write()
}
