//! The memtables above a dictionary, and the ranges of keys that walks over them have found empty.
//!
//! *Knows*: which memtables are not written out yet, and which of them a dictionary has already.
//!
//! *Does not know*: when they are written out, and what keeps them.
//!
//! *Read in this order*: this file, then `empty_ranges/`.

pub mod empty_ranges;

use crate::memtable::Memtable;
use alluvium_base::Sequence;
use empty_ranges::EmptyRanges;
use std::fmt;
use std::sync::Arc;

/// A memtable, and what lies below it.
#[derive(Clone, Debug)]
pub struct MemtableEntry {
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// It holds commits above this one only: everything up to it is in older memtables or in the
    /// dictionaries.
    pub base: Sequence,
}

/// The memtables above the dictionaries, newest first. A list never changes.
pub type MemtableList = Arc<Vec<MemtableEntry>>;

/// Keeps the memtables above the dictionaries.
///
/// A memtable leaves the list only after its incorporation has ended. Readers load the list first
/// and look at the dictionary then; what has been incorporated between the two they leave out, by
/// its base.
pub trait Memtables: Send + Sync + fmt::Debug {
    /// Returns the current list.
    fn newest_first(&self) -> MemtableList;

    /// Returns the ranges that walks over the keys have found empty, if anybody keeps them.
    fn empty_ranges(&self) -> Option<&EmptyRanges> {
        None
    }
}

/// Returns the memtables of a list that a dictionary with every commit up to `cut` does not have,
/// and in which a reader at `at` could find anything. The list must have been loaded before the cut
/// was looked at.
pub fn above(
    list: Option<&MemtableList>,
    cut: Sequence,
    at: Sequence,
) -> impl Iterator<Item = &Arc<Memtable>> {
    let entries = list.into_iter().flat_map(|list| list.iter());
    let counts = move |entry: &&MemtableEntry| entry.base >= cut && entry.base < at;
    entries.filter(counts).map(|entry| &entry.memtable)
}
