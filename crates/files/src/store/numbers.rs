//! Inode numbers.
//!
//! Numbers are reserved in ranges, by commits of their own, so that operations do not depend on a
//! counter. Each directory has a range of its own, from which all inodes that are created in it get
//! their numbers. A reader of the directory therefore finds its inodes, and the contents in them,
//! together. The ranges are forgotten when the file system is closed.
//! A number is never used twice: what a crash or a rollback leaves unused stays unused. If
//! a crash loses a reservation, everything that was created with its numbers is lost as well, and
//! the next opening has another generation.

use crate::error::Result;
use crate::operations::damaged;
use crate::records::{FileKeyspaces, RecordSpace, format};
use crate::types::Inode;
use alluvium::{Db, Durability, TransactionOptions};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;

/// Number of inode numbers that a commit reserves.
/// Tuning: `65_536` since 2026-11-30: the ranges of 1,024 directories. Closing the file system
/// wastes at most this many of the 2^56 numbers.
const RESERVED_AT_ONCE: u64 = 65_536;

/// Number of consecutive inode numbers for what is created in one directory.
/// Tuning: `64` since 2026-11-30: a leaf of the tree holds about half as many inodes.
const OF_DIRECTORY: u64 = 64;

/// Most directories whose ranges are remembered.
/// Tuning: `4096` since 2026-11-30: 200 KiB of memory.
const MOST_DIRECTORIES: usize = 4096;

/// The first number after the root's. Not a tuning parameter.
const FIRST: u64 = Inode::ROOT.0 + 1;

/// Hands out inode numbers.
#[derive(Debug, Default)]
pub(super) struct InodeNumbers {
    ranges: Mutex<NumberRanges>,
}

#[derive(Debug, Default)]
struct NumberRanges {
    /// The reserved numbers that belong to no directory yet.
    free: Range<u64>,
    /// The unused numbers of each directory in which something was created recently.
    of_directories: HashMap<Inode, Range<u64>>,
}

impl InodeNumbers {
    /// Returns the number of an inode that is created in a directory.
    pub(super) fn next(&self, db: &Db, spaces: &FileKeyspaces, directory: Inode) -> Result<Inode> {
        let mut ranges = self.ranges.lock();
        let NumberRanges { free, of_directories } = &mut *ranges;
        if let Some(number) = of_directories.get_mut(&directory).and_then(Iterator::next) {
            return Ok(Inode(number));
        }
        if free.is_empty() {
            let first = reserve(db, spaces)?;
            *free = first..first + RESERVED_AT_ONCE;
        }
        let first = free.start;
        free.start += OF_DIRECTORY;
        debug_assert!(free.start <= free.end, "reservations consist of whole ranges");
        if of_directories.len() >= MOST_DIRECTORIES {
            // Directories that are used again get other ranges.
            of_directories.clear();
        }
        of_directories.insert(directory, first + 1..first + OF_DIRECTORY);
        Ok(Inode(first))
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
