//! A cache of key ranges in which scans have found no live keys, so that later scans can skip each
//! of them in one step.
//!
//! *Scope*: which key ranges contain no live key, from which commit on, and which writes invalidate
//! them.
//!
//! *Must not depend on*: whether the tombstones are in memtables or below, and when compactions
//! drop them.
//!
//! A queue inserts at its back and deletes at its front. The tombstones remain until a compaction
//! drops them, and every scan from the front would have to pass all of them. The first such scan
//! records the range as empty, and later scans start after it. Expired keys are treated the same
//! way.
//!
//! A recorded range is empty for every reader at or above the commit at which it was found empty,
//! until a put or a merge writes one of its keys. Every writer therefore checks for such ranges
//! before its commit becomes visible. As long as there are no ranges, the check reads a single
//! word.
//!
//! This could race: a reader passes the position of a key before a writer inserts the key, and the
//! writer checks for ranges before the reader records one. A reader therefore first registers a
//! claim for its range, then looks for newer messages in the range, and only then makes the range
//! valid. A writer inserts its records into the memtable first and then checks ranges and claims.
//! At least one of the two therefore notices the other.
//!
//! Invariants:
//!
//! - **N1** A reader at or above the commit and the time of a range finds no live key in the range.
//! - **N2** A claim is not valid for any reader. A write to a key inside a claim truncates the
//!   claim.
//! - **N3** The total memory of all ranges and claims is bounded.

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

/// The key ranges in which scans have found no live keys.
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
    /// Number of ranges and claims. As long as it is 0, writers access nothing else.
    count: AtomicUsize,
    table: RwLock<EmptyRangeTable>,
    /// Last commit of the newest memtable that has been removed from the list of memtables.
    written_out: AtomicU64,
}

/// The position of a reader: its sequence number and its time in milliseconds.
pub type ReadPoint = (SequenceNumber, u64);

impl EmptyRanges {
    /// Creates an empty table that uses at most `bytes` bytes of memory.
    #[must_use]
    pub fn new(bytes: usize) -> EmptyRanges {
        EmptyRanges {
            count: AtomicUsize::new(0),
            table: RwLock::new(EmptyRangeTable::new(bytes)),
            written_out: AtomicU64::new(0),
        }
    }

    /// Tells the table that a memtable with commits up to `cut` is about to be removed from the
    /// list of memtables. Also drops ranges that have gone unused for several such calls.
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

    /// Returns the recorded range that contains `key`, or `None` if there is none that is valid for
    /// a reader at `moment`.
    #[must_use]
    pub fn around(&self, key: &[u8], moment: ReadPoint) -> Option<EmptyRange> {
        if self.is_empty() {
            return None;
        }
        self.table.read().around(key, moment)
    }

    /// Returns the recorded range that contains the keys just below `end`, or `None` if there is
    /// none that is valid for a reader at `moment`.
    #[must_use]
    pub fn below(&self, end: &[u8], moment: ReadPoint) -> Option<EmptyRange> {
        if self.is_empty() {
            return None;
        }
        self.table.read().below(end, moment)
    }

    /// Records ranges in which a reader at `moment` has found no live key, each with an inclusive
    /// start and an exclusive end. `memtables` are the memtables above the dictionary. A range is
    /// truncated before the first of its keys that has a newer message in one of them. The reader
    /// must have seen every commit up to its sequence number.
    pub fn note(&self, ranges: &[(Vec<u8>, Vec<u8>)], moment: ReadPoint, memtables: &dyn MemtableOwner) {
        let Some(claims) = self.claim(ranges, moment) else {
            return;
        };
        self.settle(claims, moment, memtables);
    }

    /// Registers claims for `ranges`, which writes truncate from now on. Returns the numbers of the
    /// claims, or `None` if they were not accepted.
    fn claim(&self, ranges: &[(Vec<u8>, Vec<u8>)], (at, _): ReadPoint) -> Option<Range<u64>> {
        let mut table = self.table.write();
        let claims = table.claim(ranges, at);
        self.count.store(table.len(), Ordering::Release);
        drop(table);
        // If a writer does not see the claims, its records are already in a memtable, where
        // `settle` finds them.
        fence(Ordering::SeqCst);
        claims
    }

    /// Makes each claim valid up to the first of its keys that has a newer message in `memtables`.
    fn settle(&self, claims: Range<u64>, moment: ReadPoint, memtables: &dyn MemtableOwner) {
        let list = memtables.newest_first();
        // A claim can become valid only if `memtables` contains every commit newer than the reader:
        // flushed commits are in the dictionaries, which this function does not search. Checking
        // the base of the oldest memtable is not enough, because that memtable may stay in the list
        // after newer ones have been flushed and removed.
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

    /// Invalidates the ranges around `keys`, which a commit has put or merged. The commit's records
    /// must already be in a memtable, and the commit must not be visible yet.
    #[inline]
    pub fn written<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) {
        // Orders the insertion of the records before this check, so that a reader that claims a
        // range from now on sees the records.
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

    /// Drops all ranges and claims, and rejects ranges from readers below `last` from now on. Must
    /// be called when commits up to `last` bypass the memtables.
    pub fn forget(&self, last: SequenceNumber) {
        let mut table = self.table.write();
        table.forget(last);
        self.count.store(table.len(), Ordering::Release);
    }

    /// Drops the ranges that have gone unused for several calls.
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

    /// Returns the approximate memory use of the table, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => self.table.read().bytes(),
        }
    }
}
