//! Volatile keyspaces, whose writes are not logged and whose size is limited.
//!
//! A commit may write to both volatile and other keyspaces, and is atomic for as long as the store
//! is open. The log contains its writes to the other keyspaces, but only a sequence number for each
//! write to a volatile keyspace. When the store is opened again, the writes to the other keyspaces
//! are recovered, and all volatile keyspaces are empty.

use super::DictionarySet;
use crate::engine::CommitRecord;
use crate::error::{Error, Result};
use crate::options::kind::DictionaryPlace;
use crate::schema::format::{self, KeyspaceId, LogWrite};
use alluvium_base::MessageKind;
use alluvium_dictionary::contract::Dictionary;
use alluvium_trees::map::OrderedMap;
use std::collections::BTreeMap;

/// The map with the data of all volatile keyspaces.
#[derive(Debug)]
pub(super) struct VolatileMap {
    pub(super) map: OrderedMap,
    /// Maximum size of the map, in bytes.
    pub(super) most: u64,
}

/// The part of a commit that must be written to the log.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) enum LoggedPart {
    /// The entire commit, because it does not write to a volatile keyspace.
    All,
    /// This record, which contains only a sequence number for each write to a volatile keyspace.
    Part(Vec<u8>),
    /// Nothing. The commit's sequence numbers are voided.
    Nothing,
}

/// Returns whether a key belongs to a volatile keyspace.
fn is_volatile(placed: &BTreeMap<KeyspaceId, DictionaryPlace>, key: &[u8]) -> bool {
    let keyspace = format::split(key).map(|(_, id)| id);
    let place = keyspace.and_then(|id| placed.get(&id));
    place.is_some_and(|place| !place.structure.lasts())
}

/// Returns the part of a commit that must be logged, which leaves out writes to volatile keyspaces.
fn without_volatile(placed: &BTreeMap<KeyspaceId, DictionaryPlace>, commit: &CommitRecord<'_>) -> LoggedPart {
    let mut record = Vec::new();
    let (mut kept, mut left_out) = (0_u32, 0_u32);
    for write in commit.writes().flatten() {
        let (LogWrite::One { key, .. }
        | LogWrite::Range { start: key, .. }
        | LogWrite::Ingest { first: key, .. }) = write
        else {
            unreachable!("no commit is made of a record that was read");
        };
        if is_volatile(placed, key) {
            left_out += 1;
            format::encode_volatile(&mut record);
            continue;
        }
        kept += 1;
        match write {
            LogWrite::One {
                key,
                kind,
                expires_ms,
                operand,
            } => format::encode_one(&mut record, &[], key, kind, expires_ms, operand),
            LogWrite::Range { start, end } => format::encode_range(&mut record, start, end),
            LogWrite::Ingest { first, last } => format::encode_ingest(&mut record, first, last),
            LogWrite::Volatile => {}
        }
    }
    assert_eq!(kept + left_out, commit.count, "a number for each write");
    match (kept, left_out) {
        (_, 0) => LoggedPart::All,
        (0, _) => LoggedPart::Nothing,
        _ => LoggedPart::Part(record),
    }
}

impl DictionarySet {
    /// Returns the part of a commit that must be written to the log.
    pub(in crate::engine) fn kept(&self, commit: &CommitRecord<'_>) -> LoggedPart {
        if self.volatile.get().is_none() {
            return LoggedPart::All;
        }
        without_volatile(&self.placed.read(), commit)
    }

    /// Returns whether a commit writes only to volatile keyspaces, so that it need not be synced.
    pub(in crate::engine) fn is_all_volatile(&self, commit: &CommitRecord<'_>) -> bool {
        if self.volatile.get().is_none() {
            return false;
        }
        let placed = self.placed.read();
        commit.writes().flatten().all(|write| match write {
            LogWrite::One { key, .. } | LogWrite::Range { start: key, .. } => is_volatile(&placed, key),
            LogWrite::Ingest { .. } | LogWrite::Volatile => false,
        })
    }

    /// Fails if a commit adds data to volatile keyspaces that are full. Only data flushed to the
    /// map counts, because memtables have their own limit.
    ///
    /// # Errors
    /// [`Error::VolatileFull`].
    pub(in crate::engine) fn admit_volatile(&self, commit: &CommitRecord<'_>) -> Result<()> {
        let Some(VolatileMap { map, most }) = self.volatile.get() else {
            return Ok(());
        };
        let placed = self.placed.read();
        let added: u64 = commit
            .writes()
            .flatten()
            .map(|write| match write {
                LogWrite::One {
                    key, kind, operand, ..
                } if kind != MessageKind::Delete && is_volatile(&placed, key) => {
                    (key.len() + operand.len()) as u64
                }
                _ => 0,
            })
            .sum();
        let held = map.pending_work().memory_bytes;
        if added > 0 && held.saturating_add(added) > *most {
            return Err(Error::VolatileFull {
                held,
                most: *most,
                bytes: added,
            });
        }
        Ok(())
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::options::kind::StructureKind;

    #[test]
    fn the_log_gets_what_lasts_and_a_number_for_each_other_write() {
        let structures = [(7, StructureKind::Volatile), (8, StructureKind::Levels)];
        let placed = structures.map(|(id, structure)| (id, DictionaryPlace::first(structure)));
        let placed = BTreeMap::from(placed);
        let commit = |keyspaces: &[KeyspaceId]| {
            let mut commit = CommitRecord::default();
            for &keyspace in keyspaces {
                let prefix = format::prefix(keyspace);
                format::encode_one(&mut commit.record, &prefix, b"key", MessageKind::Put, 9, b"value");
                commit.count += 1;
            }
            commit
        };
        assert_eq!(without_volatile(&placed, &commit(&[1, 8])), LoggedPart::All);
        assert_eq!(without_volatile(&placed, &commit(&[7, 7])), LoggedPart::Nothing);
        let LoggedPart::Part(record) = without_volatile(&placed, &commit(&[7, 8, 7])) else {
            panic!("a part")
        };
        let writes: Vec<LogWrite<'_>> = format::LogWriteIter::new(&record)
            .map(|write| write.unwrap())
            .collect();
        assert_eq!(
            (&writes[0], &writes[2]),
            (&LogWrite::Volatile, &LogWrite::Volatile)
        );
        let kept = commit(&[8]);
        assert_eq!(writes[1], kept.writes().next().unwrap().unwrap());
        assert_eq!(
            record.len(),
            kept.record.len() + 4,
            "nothing of the others is in it"
        );
    }
}
