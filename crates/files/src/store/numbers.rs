//! Inode numbers.
//!
//! Numbers are reserved in ranges, by commits of their own, so that operations do not depend on a
//! counter. A number is never used twice: what a crash or a rollback leaves unused stays unused. If
//! a crash loses a reservation, everything that was created with its numbers is lost as well, and
//! the next opening has another generation.

use crate::error::Result;
use crate::operations::damaged;
use crate::records::{FileKeyspaces, RecordSpace, format};
use crate::types::Inode;
use alluvium::{Db, Durability, TransactionOptions};
use parking_lot::Mutex;

/// Number of inode numbers that a commit reserves.
/// Tuning: `1024` since 2026-11-29.
const RESERVED_AT_ONCE: u64 = 1024;

/// The first number after the root's. Not a tuning parameter.
const FIRST: u64 = Inode::ROOT.0 + 1;

/// Hands out inode numbers.
#[derive(Debug, Default)]
pub(super) struct InodeNumbers {
    range: Mutex<NumberRange>,
}

#[derive(Debug, Default)]
struct NumberRange {
    next: u64,
    end: u64,
}

impl InodeNumbers {
    pub(super) fn next(&self, db: &Db, spaces: &FileKeyspaces) -> Result<Inode> {
        let mut range = self.range.lock();
        if range.next == range.end {
            let next = reserve(db, spaces)?;
            *range = NumberRange {
                next,
                end: next + RESERVED_AT_ONCE,
            };
        }
        range.next += 1;
        Ok(Inode(range.next - 1))
    }
}

/// Reserves a range of numbers and returns the first.
fn reserve(db: &Db, spaces: &FileKeyspaces) -> Result<u64> {
    let mut damage = Ok(());
    let keyspace = spaces.of(RecordSpace::System);
    let next = db.transaction(|transaction| {
        let stored = transaction.get_for_update(keyspace, format::NEXT_KEY)?;
        let next = match stored.as_deref().map(format::decode_number) {
            None => FIRST,
            Some(Ok(next)) => next,
            Some(Err(found)) => {
                damage = Err(damaged(RecordSpace::System, format::NEXT_KEY, found));
                return Ok(0);
            }
        };
        let after = format::number(next + RESERVED_AT_ONCE);
        transaction.put(keyspace, format::NEXT_KEY, after)?;
        Ok(next)
    })?;
    damage.map(|()| next)
}

/// Counts an opening, durably, and returns its number, which is the generation of the inodes that
/// it creates.
pub(super) fn count_opening(db: &Db, spaces: &FileKeyspaces) -> Result<u64> {
    let keyspace = spaces.of(RecordSpace::System);
    let stored = keyspace.get(format::GENERATION_KEY)?;
    let before = stored.as_deref().map(format::decode_number).transpose();
    let before = before.map_err(|found| damaged(RecordSpace::System, format::GENERATION_KEY, found))?;
    let generation = before.unwrap_or(0) + 1;
    // On a full disk, a file system can be opened to delete from it.
    let options = TransactionOptions::new().frees_space();
    let transaction = db.begin_with(&options);
    transaction.put(keyspace, format::GENERATION_KEY, format::number(generation))?;
    transaction.commit_with(Durability::Disk)?;
    Ok(generation)
}
