//! What lies above the tree: memtables that are not written out yet, and which of them a version has already.

use super::tree::Version;
use crate::memtable::Memtable;
use alluvium_base::Sequence;
use std::fmt;
use std::sync::Arc;

/// A memtable, and what lies below it.
#[derive(Clone, Debug)]
pub struct MemtableEntry {
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// It holds commits above this one only: everything up to it is in older memtables or in the tree.
    pub base: Sequence,
}

/// The memtables above a tree, newest first. A list never changes.
pub type MemtableList = Arc<Vec<MemtableEntry>>;

/// Whoever keeps the memtables above a tree.
///
/// A memtable leaves the list only after its incorporation has ended. Readers load the list first and look at the version then; what
/// has been incorporated between the two they leave out, by its base.
pub trait Memtables: Send + Sync + fmt::Debug {
    /// The current list.
    fn newest_first(&self) -> MemtableList;
}

/// The memtables of a list that was loaded before the version was looked at, as far as the version does not have them and a reader
/// at `at` could find anything there.
pub(super) fn above<'l>(
    list: Option<&'l MemtableList>,
    version: &Version,
    at: Sequence,
) -> impl Iterator<Item = &'l Arc<Memtable>> {
    let (entries, cut) = (list.into_iter().flat_map(|list| list.iter()), version.cut);
    let counts = move |entry: &&MemtableEntry| entry.base >= cut && entry.base < at;
    entries.filter(counts).map(|entry| &entry.memtable)
}
