//! The memtables above the dictionaries, and the key ranges in which scans have found no live keys.
//!
//! *Scope*: which memtables have not been incorporated yet; which memtables a dictionary already
//! contains.
//!
//! *Must not depend on*: when memtables are incorporated, and what owns them.

pub mod empty_ranges;

use crate::memtable::Memtable;
use alluvium_base::SequenceNumber;
use empty_ranges::EmptyRanges;
use std::fmt;
use std::sync::Arc;

/// A memtable and its position in the commit order.
#[derive(Clone, Debug)]
pub struct MemtableEntry {
    pub memtable: Arc<Memtable>,
    /// Exclusive lower bound of the commits in the memtable. All commits up to this one are in
    /// older memtables or in the dictionaries.
    pub base: SequenceNumber,
}

/// The memtables above the dictionaries, newest first. A list is never modified.
pub type MemtableList = Arc<Vec<MemtableEntry>>;

/// Owner of the memtables above the dictionaries.
///
/// A memtable is removed from the list only after it was incorporated. A reader loads the list
/// first and a version of a dictionary second. If a memtable was incorporated in between, the
/// reader recognises it by its base and skips it.
pub trait MemtableOwner: Send + Sync + fmt::Debug {
    fn newest_first(&self) -> MemtableList;

    /// Returns the table of ranges that scans have found empty, if the owner has one.
    fn empty_ranges(&self) -> Option<&EmptyRanges> {
        None
    }
}

/// Returns the memtables in `list` that a reader at `at` needs besides a dictionary that contains
/// every commit up to `cut`. The list must have been loaded before `cut`.
pub fn above(
    list: Option<&MemtableList>,
    cut: SequenceNumber,
    at: SequenceNumber,
) -> impl Iterator<Item = &Arc<Memtable>> {
    let entries = list.into_iter().flat_map(|list| list.iter());
    let counts = move |entry: &&MemtableEntry| entry.base >= cut && entry.base < at;
    entries.filter(counts).map(|entry| &entry.memtable)
}
