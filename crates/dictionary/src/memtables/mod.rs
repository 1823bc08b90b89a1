//! The memtables above the dictionaries, and the key ranges that scans over them have found empty.
//!
//! *Scope*: which memtables are not incorporated yet, and which of them a dictionary already
//! contains.
//!
//! *Must not depend on*: when they are incorporated, and what owns them.

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
    /// Exclusive lower bound of its commits: everything up to it is in older memtables or in the
    /// dictionaries.
    pub base: SequenceNumber,
}

/// The memtables above the dictionaries, newest first. A list is immutable.
pub type MemtableList = Arc<Vec<MemtableEntry>>;

/// Owner of the memtables above the dictionaries.
///
/// A memtable leaves the list only after it was incorporated. A reader loads the list first and
/// then the state of a dictionary. It skips memtables that were incorporated in between, which it
/// recognises by their base.
pub trait MemtableOwner: Send + Sync + fmt::Debug {
    fn newest_first(&self) -> MemtableList;

    /// Returns the ranges that scans have found empty, if they are recorded.
    fn empty_ranges(&self) -> Option<&EmptyRanges> {
        None
    }
}

/// Returns the memtables of a list that a dictionary with every commit up to `cut` does not contain
/// and that may hold commits visible at `at`. The list must have been loaded before `cut`.
pub fn above(
    list: Option<&MemtableList>,
    cut: SequenceNumber,
    at: SequenceNumber,
) -> impl Iterator<Item = &Arc<Memtable>> {
    let entries = list.into_iter().flat_map(|list| list.iter());
    let counts = move |entry: &&MemtableEntry| entry.base >= cut && entry.base < at;
    entries.filter(counts).map(|entry| &entry.memtable)
}
