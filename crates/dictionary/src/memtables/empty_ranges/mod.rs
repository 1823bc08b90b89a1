//! Key ranges that scans have found empty, which later scans skip in one step.
//!
//! *Scope*: which ranges contain no key with a value, since which commit, and which writes end
//! that.
//!
//! *Must not depend on*: where the tombstones are, in memtables or below, and when compactions drop
//! them.
//!
//! A queue deletes at its front and adds at its back. The deleted keys stay until a compaction
//! drops them, so every scan from the front would pass all of them. The first scan that does so
//! records the range without values, and later scans start after it. The same applies to expired
//! keys.
//!
//! A range is empty for every reader at or above the commit at which it was found empty, until a
//! put or a merge writes to one of its keys. Writers check for that before their commit becomes
//! visible. While there are no ranges, this check reads a single word.
//!
//! There is a race: a reader may have passed the position of a key before a writer inserts it, and
//! the writer may check before the range is recorded. A reader therefore claims a range first, then
//! checks it for newer messages, and only then makes it valid. A writer inserts its records into
//! the memtable first, then checks ranges and claims. At least one of them notices the other.
//!
//! Invariants:
//!
//! - **N1** A reader at or above a range's commit and time finds no key with a value in it.
//! - **N2** A claim is not valid for any reader. A write to a key inside a claim cuts the claim.
//! - **N3** All ranges and claims together occupy a bounded number of bytes.

mod dead_run;
mod table;

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use dead_run::DeadRun;
#[cfg(debug_assertions)]
pub use dead_run::PASSED;
pub use table::EmptyRange;

use crate::memtables::MemtableOwner;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence};
use alluvium_base::SequenceNumber;
use parking_lot::RwLock;
use std::ops::Range;
use table::{EmptyRangeClaim, EmptyRangeTable};

/// Ranges in which scans have found no key with a value.
///
/// ```
/// use alluvium_dictionary::memtables::empty_ranges::EmptyRanges;
/// use alluvium_dictionary::memtables::{MemtableList, MemtableOwner};
///
/// #[derive(Debug)]
/// struct NoMemtables;
/// impl MemtableOwner for NoMemtables {
///     fn newest_first(&self) -> MemtableList {
///         MemtableList::default()
///     }
/// }
/// let empty = EmptyRanges::new(1 << 16);
/// empty.note(&[(b"a".to_vec(), b"k".to_vec())], (7, 0), &NoMemtables);
/// assert_eq!(&*empty.around(b"c", (7, 0)).unwrap().end, b"k");
/// assert!(empty.around(b"c", (6, 0)).is_none(), "an older reader may see what was deleted");
/// empty.written([&b"e"[..]]);
/// assert_eq!(&*empty.around(b"c", (7, 0)).unwrap().end, b"e");
/// ```
#[derive(Debug)]
pub struct EmptyRanges {
    /// Number of ranges and claims, so that writers need to read only one word.
    count: AtomicUsize,
    table: RwLock<EmptyRangeTable>,
    /// Last commit of the newest memtable that has left the list of memtables.
    written_out: AtomicU64,
}

/// Position of a reader: sequence number, and time in milliseconds.
pub type ReadPoint = (SequenceNumber, u64);

impl EmptyRanges {
    /// Creates a table that occupies up to `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> EmptyRanges {
        EmptyRanges {
            count: AtomicUsize::new(0),
            table: RwLock::new(EmptyRangeTable::new(bytes)),
            written_out: AtomicU64::new(0),
        }
    }

    /// Records that a memtable with commits up to `cut` is about to leave the list of memtables.
    /// Also drops ranges that have not been used for several calls.
    pub fn memtable_leaves(&self, cut: SequenceNumber) {
        self.written_out.fetch_max(cut, Ordering::Release);
        self.drop_unused();
    }

    /// Returns whether there are no ranges and no claims.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns the range that contains a key, if one is valid for a reader at `moment`.
    #[must_use]
    pub fn around(&self, key: &[u8], moment: ReadPoint) -> Option<EmptyRange> {
        if self.is_empty() {
            return None;
        }
        self.table.read().around(key, moment)
    }

    /// Returns the range that contains the keys just below `end`, if one is valid for a reader at
    /// `moment`.
    #[must_use]
    pub fn below(&self, end: &[u8], moment: ReadPoint) -> Option<EmptyRange> {
        if self.is_empty() {
            return None;
        }
        self.table.read().below(end, moment)
    }

    /// Records ranges in which a reader at `moment` found no key with a value, each as a first key
    /// and an exclusive end. A range is cut off before the first key that has a newer message in
    /// `memtables`, the memtables above the dictionary. The reader must see every commit up to its
    /// sequence number.
    pub fn note(&self, ranges: &[(Vec<u8>, Vec<u8>)], moment: ReadPoint, memtables: &dyn MemtableOwner) {
        let Some(claims) = self.claim(ranges, moment) else {
            return;
        };
        self.settle(claims, moment, memtables);
    }

    /// Claims ranges, which writes cut from now on. Returns the numbers of the claims.
    fn claim(&self, ranges: &[(Vec<u8>, Vec<u8>)], (at, _): ReadPoint) -> Option<Range<u64>> {
        let mut table = self.table.write();
        let claims = table.claim(ranges, at);
        self.count.store(table.len(), Ordering::Release);
        drop(table);
        // A writer that does not see the claims has its records in a memtable already, where
        // `settle` finds them.
        fence(Ordering::SeqCst);
        claims
    }

    /// Makes claims valid up to their first key with a newer message.
    fn settle(&self, claims: Range<u64>, moment: ReadPoint, memtables: &dyn MemtableOwner) {
        let list = memtables.newest_first();
        // Newer commits that are not in these memtables are in the dictionaries, which are not
        // checked here. The oldest memtable alone is no evidence, because it may stay in the list
        // longer than newer ones.
        let is_known = list.last().is_none_or(|oldest| oldest.base <= moment.0)
            && self.written_out.load(Ordering::Acquire) <= moment.0;
        let claimed = self.table.read().claimed(&claims);
        let first_news = |start: &[u8], end: &[u8]| {
            let all = list.iter();
            let first = all.filter_map(|entry| entry.memtable.first_news(start, end, moment.0));
            first.min()
        };
        let mut found = Vec::new();
        if is_known {
            let news = |claim: EmptyRangeClaim| (claim.number, first_news(&claim.start, &claim.end));
            found.extend(claimed.into_iter().map(news));
        }
        let mut table = self.table.write();
        for (number, news) in found {
            table.settle(number, news, moment);
        }
        table.give_up(&claims);
        self.count.store(table.len(), Ordering::Release);
    }

    /// Cuts ranges at keys that a commit has put or merged. Its records are in a memtable, and it
    /// is not visible yet.
    #[inline]
    pub fn written<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) {
        // Orders the insertion of the records before this check: a reader that claims a range from
        // now on sees them.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            self.cut(keys.into_iter());
        }
    }

    #[cold]
    fn cut<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let table = self.table.read();
        let hit: Vec<&[u8]> = keys.filter(|key| table.holds(key)).collect();
        drop(table);
        if hit.is_empty() {
            return;
        }
        let mut table = self.table.write();
        hit.iter().for_each(|key| table.cut(key));
        self.count.store(table.len(), Ordering::Release);
    }

    /// Drops all ranges and claims, and rejects ranges recorded by readers below `last`: commits up
    /// to `last` bypass the memtables.
    pub fn forget(&self, last: SequenceNumber) {
        let mut table = self.table.write();
        table.forget(last);
        self.count.store(table.len(), Ordering::Release);
    }

    /// Drops ranges that have not been used for several calls.
    fn drop_unused(&self) {
        if self.is_empty() {
            return;
        }
        let mut table = self.table.write();
        table.drop_unused();
        self.count.store(table.len(), Ordering::Release);
    }

    /// Returns the number of ranges and claims.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the approximate memory used, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => self.table.read().bytes(),
        }
    }
}
