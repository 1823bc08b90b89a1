//! Volatile keyspaces: their writes are not logged, and their size is limited.
//!
//! A commit to volatile and other keyspaces is atomic while the store is open. The log contains the
//! writes to the other keyspaces, and only sequence numbers for the volatile ones: after an
//! opening, the former are recovered, and volatile keyspaces are empty.

use super::Dictionaries;
use crate::engine::Commit;
use crate::error::{Error, Result};
use crate::options::kind::Structure;
use crate::schema::format::{self, KeyspaceId, Write};
use alluvium_base::Kind;
use alluvium_dictionary::contract::Dictionary;
use alluvium_trees::map::Map;
use std::collections::BTreeMap;

/// The map that contains all volatile keyspaces.
#[derive(Debug)]
pub(super) struct Volatile {
    pub(super) map: Map,
    /// Maximum size of the map in bytes.
    pub(super) most: u64,
}

/// The part of a commit that is logged.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) enum Kept {
    /// The whole record.
    All,
    /// This record, with a sequence number for each omitted write.
    Part(Vec<u8>),
    /// Nothing; the sequence numbers are voided.
    Nothing,
}

/// Returns whether a key belongs to a volatile keyspace.
fn is_volatile(placed: &BTreeMap<KeyspaceId, Structure>, key: &[u8]) -> bool {
    let keyspace = format::split(key).map(|(_, id)| id);
    let structure = keyspace.and_then(|id| placed.get(&id));
    structure.is_some_and(|structure| !structure.lasts())
}

/// Returns the part of a commit that is logged: without its writes to volatile keyspaces.
fn without_volatile(placed: &BTreeMap<KeyspaceId, Structure>, commit: &Commit<'_>) -> Kept {
    let mut record = Vec::new();
    let (mut kept, mut left_out) = (0_u32, 0_u32);
    for write in commit.writes().flatten() {
        let (Write::One { key, .. } | Write::Range { start: key, .. } | Write::Ingest { first: key, .. }) =
            write
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
            Write::One {
                key,
                kind,
                expires_ms,
                operand,
            } => format::encode_one(&mut record, &[], key, kind, expires_ms, operand),
            Write::Range { start, end } => format::encode_range(&mut record, start, end),
            Write::Ingest { first, last } => format::encode_ingest(&mut record, first, last),
            Write::Volatile => {}
        }
    }
    assert_eq!(kept + left_out, commit.count, "a number for each write");
    match (kept, left_out) {
        (_, 0) => Kept::All,
        (0, _) => Kept::Nothing,
        _ => Kept::Part(record),
    }
}

impl Dictionaries {
    /// Returns the part of a commit that is logged.
    pub(in crate::engine) fn kept(&self, commit: &Commit<'_>) -> Kept {
        if self.volatile.get().is_none() {
            return Kept::All;
        }
        without_volatile(&self.placed.read(), commit)
    }

    /// Returns whether a commit writes only to volatile keyspaces, so that syncing it is useless.
    pub(in crate::engine) fn is_all_volatile(&self, commit: &Commit<'_>) -> bool {
        if self.volatile.get().is_none() {
            return false;
        }
        let placed = self.placed.read();
        commit.writes().flatten().all(|write| match write {
            Write::One { key, .. } | Write::Range { start: key, .. } => is_volatile(&placed, key),
            Write::Ingest { .. } | Write::Volatile => false,
        })
    }

    /// Fails if a commit adds to volatile keyspaces that are full. Writes that are not yet flushed
    /// to the map do not count: memtables have their own limit.
    ///
    /// # Errors
    /// [`Error::VolatileFull`].
    pub(in crate::engine) fn admit_volatile(&self, commit: &Commit<'_>) -> Result<()> {
        let Some(Volatile { map, most }) = self.volatile.get() else {
            return Ok(());
        };
        let placed = self.placed.read();
        let added: u64 = commit
            .writes()
            .flatten()
            .map(|write| match write {
                Write::One {
                    key, kind, operand, ..
                } if kind != Kind::Delete && is_volatile(&placed, key) => (key.len() + operand.len()) as u64,
                _ => 0,
            })
            .sum();
        let held = map.load().memory_bytes;
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

    #[test]
    fn the_log_gets_what_lasts_and_a_number_for_each_other_write() {
        let placed = BTreeMap::from([(7, Structure::Volatile), (8, Structure::Levels)]);
        let commit = |keyspaces: &[KeyspaceId]| {
            let mut commit = Commit::default();
            for &keyspace in keyspaces {
                let prefix = format::prefix(keyspace);
                format::encode_one(&mut commit.record, &prefix, b"key", Kind::Put, 9, b"value");
                commit.count += 1;
            }
            commit
        };
        assert_eq!(without_volatile(&placed, &commit(&[1, 8])), Kept::All);
        assert_eq!(without_volatile(&placed, &commit(&[7, 7])), Kept::Nothing);
        let Kept::Part(record) = without_volatile(&placed, &commit(&[7, 8, 7])) else {
            panic!("a part")
        };
        let writes: Vec<Write<'_>> = format::Writes::new(&record).map(|write| write.unwrap()).collect();
        assert_eq!((&writes[0], &writes[2]), (&Write::Volatile, &Write::Volatile));
        let kept = commit(&[8]);
        assert_eq!(writes[1], kept.writes().next().unwrap().unwrap());
        assert_eq!(
            record.len(),
            kept.record.len() + 4,
            "nothing of the others is in it"
        );
    }
}
