//! Ranges of keys that walks have found empty. Walks that come later pass them by in one step.
//!
//! *Knows*: which ranges have no key with a value, since which commit, and what ends that.
//!
//! *Does not know*: where the deleted keys are, in memtables or below, and when they go.
//!
//! *Read in this order*: `table.rs` (the ranges by their starts), this file (how a range gets into
//! the table while others write), `dead_run.rs` (what a walk notes on its way).
//!
//! A queue deletes at its front what it adds at its back. Every deleted key stays until a
//! compaction drops it, so a walk from the front would pass all of them, each time. The first walk
//! that does so notes where it found nothing, and those that follow begin behind. It is the same
//! for keys that have expired.
//!
//! A range is empty for every reader at or above the commit at which it was found so, until a put
//! or a merge writes to one of its keys. Writers look for that before their commit is visible. They
//! look at one word as long as there are no ranges.
//!
//! A reader and a writer may miss each other: the reader has passed a place where the writer puts a
//! key afterwards, and the writer finds no range yet. So a reader claims a range first, looks
//! whether anything newer is in it, and only then has it count. A writer puts its records into the
//! memtable first, then looks for ranges and claims. One of them sees the other.
//!
//! Invariants:
//!
//! - **N1** A reader at or above a range's commit and time finds no key with a value in it.
//! - **N2** A claim counts for no reader. A write that falls into a claim cuts it.
//! - **N3** All ranges and claims together take no more than a fixed number of bytes.

mod dead_run;
mod table;

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use dead_run::DeadRun;
#[cfg(debug_assertions)]
pub use dead_run::PASSED;
pub use table::EmptyRange;

use crate::memtables::Memtables;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence};
use alluvium_base::Sequence;
use parking_lot::RwLock;
use std::ops::Range;
use table::{Claim, Table};

/// Ranges without a key that has a value, as walks have found them.
///
/// ```
/// use alluvium_dictionary::memtables::empty_ranges::EmptyRanges;
/// use alluvium_dictionary::memtables::{MemtableList, Memtables};
///
/// #[derive(Debug)]
/// struct NoMemtables;
/// impl Memtables for NoMemtables {
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
    /// How many ranges and claims there are, so that a writer asks one word.
    count: AtomicUsize,
    table: RwLock<Table>,
    /// The last commit of the newest memtable that has left the list of memtables.
    written_out: AtomicU64,
}

/// Where a reader stands: in the commit order, and the time in milliseconds.
pub type Moment = (Sequence, u64);

impl EmptyRanges {
    /// Creates a table that takes up to `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> EmptyRanges {
        EmptyRanges {
            count: AtomicUsize::new(0),
            table: RwLock::new(Table::new(bytes)),
            written_out: AtomicU64::new(0),
        }
    }

    /// Notes that a memtable with commits up to `cut` is about to leave the list of memtables, and
    /// drops the ranges that no reader has used for some calls.
    pub fn memtable_leaves(&self, cut: Sequence) {
        self.written_out.fetch_max(cut, Ordering::Release);
        self.drop_unused();
    }

    /// Returns whether there is nothing in it.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns the range that holds a key, if there is one for a reader at `moment`.
    #[must_use]
    pub fn around(&self, key: &[u8], moment: Moment) -> Option<EmptyRange> {
        if self.is_empty() {
            return None;
        }
        self.table.read().around(key, moment)
    }

    /// Returns the range that holds the keys just below `end`, if there is one for a reader at
    /// `moment`.
    #[must_use]
    pub fn below(&self, end: &[u8], moment: Moment) -> Option<EmptyRange> {
        if self.is_empty() {
            return None;
        }
        self.table.read().below(end, moment)
    }

    /// Notes ranges in which a reader at `moment` found no key with a value. Each of them is a
    /// first key and the first one behind. `memtables` is what lies above the dictionary: where it
    /// has something newer, a range ends before that. The reader sees every commit up to its place.
    pub fn note(&self, ranges: &[(Vec<u8>, Vec<u8>)], moment: Moment, memtables: &dyn Memtables) {
        let Some(claims) = self.claim(ranges, moment) else {
            return;
        };
        self.settle(claims, moment, memtables);
    }

    /// Claims ranges: from now on writes cut them. Returns the numbers of the claims.
    fn claim(&self, ranges: &[(Vec<u8>, Vec<u8>)], (at, _): Moment) -> Option<Range<u64>> {
        let mut table = self.table.write();
        let claims = table.claim(ranges, at);
        self.count.store(table.len(), Ordering::Release);
        drop(table);
        // A writer that does not see the claims has its records in a memtable: they are seen.
        fence(Ordering::SeqCst);
        claims
    }

    /// Has claims count as far as nothing newer is in them.
    fn settle(&self, claims: Range<u64>, moment: Moment, memtables: &dyn Memtables) {
        let list = memtables.newest_first();
        // Commits that are newer and not in these memtables are below, where this does not look.
        // The oldest of the list alone does not tell: it may stay below others which have left.
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
            let news = |claim: Claim| (claim.number, first_news(&claim.start, &claim.end));
            found.extend(claimed.into_iter().map(news));
        }
        let mut table = self.table.write();
        for (number, news) in found {
            table.settle(number, news, moment);
        }
        table.give_up(&claims);
        self.count.store(table.len(), Ordering::Release);
    }

    /// Cuts ranges at keys that a commit has put or merged values to. Their records are in a
    /// memtable, and the commit is not visible yet.
    #[inline]
    pub fn written<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) {
        // The records before the look: a reader that claims a range now sees them.
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

    /// Forgets everything, and refuses what readers below `last` note: commits up to `last` write
    /// past the memtables.
    pub fn forget(&self, last: Sequence) {
        let mut table = self.table.write();
        table.forget(last);
        self.count.store(table.len(), Ordering::Release);
    }

    /// Drops the ranges that no reader has used for some calls.
    fn drop_unused(&self) {
        if self.is_empty() {
            return;
        }
        let mut table = self.table.write();
        table.drop_unused();
        self.count.store(table.len(), Ordering::Release);
    }

    /// Returns how many ranges and claims there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns about how many bytes of memory they take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => self.table.read().bytes(),
        }
    }
}
