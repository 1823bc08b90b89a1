//! The sources of a scan: memtable cursors, which are released between calls, and run cursors.

use crate::run::RunRecordCursor;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::memtable::{CursorPosition, Memtable, TombstoneSnapshot as MemtableDeletes};
use alluvium_dictionary::merge::{self, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::record::StoredRecord;
use alluvium_storage::{Error, Result};
use std::sync::{Arc, Weak};

/// A source of a scan. Boxing the larger variant would save little memory, but cost an indirection
/// for each record.
#[allow(clippy::large_enum_variant)]
pub(crate) enum ScanInput {
    Memtable(Box<MemtableScanCursor>),
    Run(RunRecordCursor),
}

/// A cursor over a memtable's keys in a range. It keeps the memtable alive only during a call of
/// the scan. Its position stays valid between calls, because a memtable never moves its records.
pub(crate) struct MemtableScanCursor {
    name: Weak<Memtable>,
    memtable: Option<Arc<Memtable>>,
    deletes: Option<MemtableDeletes>,
    spot: CursorPosition,
    range: KeyRange,
    direction: MergeDirection,
    /// Whether the cursor is positioned at a key in the range.
    is_inside: bool,
}

impl MemtableScanCursor {
    /// Creates a cursor at the first key in the range at or after `from`, in the given direction.
    /// If `from` is `None`, the cursor starts at the first key in the range.
    pub(crate) fn new(
        memtable: &Arc<Memtable>,
        range: KeyRange,
        direction: MergeDirection,
        from: Option<&[u8]>,
    ) -> MemtableScanCursor {
        let mut above = MemtableScanCursor {
            name: Arc::downgrade(memtable),
            memtable: None,
            deletes: None,
            spot: CursorPosition::default(),
            range,
            direction,
            is_inside: false,
        };
        let is_same = above.attach(memtable);
        debug_assert!(is_same, "a position is one in its memtable");
        above.seek(from);
        above
    }

    /// Reacquires the memtable. Returns `false` if `memtable` is not the one for which the cursor
    /// was created.
    pub(crate) fn attach(&mut self, memtable: &Arc<Memtable>) -> bool {
        let same = std::ptr::eq(self.name.as_ptr(), Arc::as_ptr(memtable));
        if same {
            self.deletes = memtable.deletes();
            self.memtable = Some(Arc::clone(memtable));
        }
        same
    }

    /// Releases the memtable but keeps the position.
    pub(crate) fn detach(&mut self) {
        self.memtable = None;
        self.deletes = None;
    }

    pub(crate) fn deletes(&self) -> Option<&MemtableDeletes> {
        self.deletes.as_ref()
    }

    /// Returns the messages of the current key with sequence numbers up to `at`, from newest to
    /// oldest.
    pub(crate) fn records(&self, at: SequenceNumber) -> impl Iterator<Item = StoredRecord<'_>> {
        let memtable = self.memtable.as_deref();
        let versions = memtable.map(|memtable| self.spot.versions(memtable, at));
        versions.into_iter().flatten().map(StoredRecord::from)
    }

    /// Moves to the first key in the range at or after `from`, in the cursor's direction.
    fn seek(&mut self, from: Option<&[u8]>) {
        let Some(memtable) = self.memtable.as_deref() else {
            return;
        };
        let (spot, range) = (&mut self.spot, &self.range);
        match (self.direction, from) {
            (MergeDirection::Forward, from) => {
                spot.seek(memtable, from.map_or(&range.low, |from| from.max(&range.low)));
            }
            (MergeDirection::Backward, Some(from)) if !range.ends_before(from) => {
                spot.seek_back(memtable, from);
            }
            (MergeDirection::Backward, _) => match &range.high {
                None => spot.last(memtable),
                Some(high) => {
                    spot.seek_back(memtable, high);
                    if spot.key(memtable) == Some(high) {
                        spot.previous(memtable);
                    }
                }
            },
        }
        self.look();
    }

    fn advance(&mut self) {
        let Some(memtable) = self.memtable.as_deref() else {
            return;
        };
        match self.direction {
            MergeDirection::Forward => self.spot.next(memtable),
            MergeDirection::Backward => self.spot.previous(memtable),
        }
        self.look();
    }

    fn look(&mut self) {
        let memtable = self.memtable.as_deref();
        let key = memtable.and_then(|memtable| self.spot.key(memtable));
        self.is_inside = key.is_some_and(|key| self.range.contains(key));
    }
}

impl ScanInput {
    /// Returns the newest message of the current key with a sequence number up to `at`. For a
    /// memtable, this considers all messages of the key. For a run, it considers only the cursor's
    /// current record, and returns `None` if that record is newer than `at`.
    #[inline]
    pub(crate) fn newest(&self, at: SequenceNumber) -> Option<StoredRecord<'_>> {
        match self {
            ScanInput::Run(cursor) => Some(cursor.record()).filter(|record| record.sequence <= at),
            ScanInput::Memtable(above) => above.records(at).next(),
        }
    }

    /// Passes consecutive records before `bound` to `take` until it returns `false`, like
    /// [`RunRecordCursor::sweep`]. Returns the number of records passed, which is zero for a
    /// memtable.
    #[inline]
    pub(crate) fn sweep(
        &mut self,
        at: SequenceNumber,
        bound: Option<&[u8]>,
        take: impl FnMut([&[u8]; 2], &[u8]) -> bool,
    ) -> Result<usize> {
        match self {
            ScanInput::Run(cursor) => cursor.sweep(at, bound, take),
            ScanInput::Memtable(_) => Ok(0),
        }
    }

    /// Moves to the next key, past all remaining messages of the current key.
    #[inline]
    pub(crate) fn pass_key(&mut self) -> Result<()> {
        match self {
            ScanInput::Run(cursor) => cursor.pass_key(),
            ScanInput::Memtable(above) => {
                above.advance();
                Ok(())
            }
        }
    }

    /// Moves to the first key at or after `key`, in the scan's direction.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            ScanInput::Run(cursor) => cursor.seek(key),
            ScanInput::Memtable(above) => {
                above.seek(Some(key));
                Ok(())
            }
        }
    }
}

impl merge::SortedSource for ScanInput {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            ScanInput::Run(cursor) => cursor.key(),
            ScanInput::Memtable(above) => {
                let memtable = above.memtable.as_deref().filter(|_| above.is_inside)?;
                above.spot.key(memtable)
            }
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            ScanInput::Run(cursor) => cursor.advance(),
            ScanInput::Memtable(above) => {
                above.advance();
                Ok(())
            }
        }
    }
}

/// The range deletes of one source of a scan.
#[derive(Clone, Copy)]
pub(crate) enum SourceRangeDeletes<'s> {
    Memtable(&'s MemtableDeletes),
    /// The range deletes of a run, and the key range in which the run is live.
    Run(&'s RangeTombstoneIndex, &'s KeyRange),
}

impl SourceRangeDeletes<'_> {
    /// Returns the sequence number of the newest range delete up to `at` that covers a key, if
    /// there is one.
    pub(crate) fn covering(self, key: &[u8], at: SequenceNumber) -> Option<SequenceNumber> {
        match self {
            SourceRangeDeletes::Memtable(deletes) => deletes.covering(key, at),
            SourceRangeDeletes::Run(deletes, range) if range.contains(key) => deletes.covering(key, at),
            SourceRangeDeletes::Run(..) => None,
        }
    }

    /// Returns a range that contains `key` and in which a reader at sequence number `at` finds
    /// every record of an older source deleted. Returns `None` if no range delete covers the key.
    pub(crate) fn around(self, key: &[u8], at: SequenceNumber) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            SourceRangeDeletes::Memtable(deletes) => deletes.around(key, at),
            SourceRangeDeletes::Run(deletes, range) if range.contains(key) => {
                cut(deletes.around(key, at)?, range)
            }
            SourceRangeDeletes::Run(..) => None,
        }
    }

    /// Like [`SourceRangeDeletes::around`], but for the keys immediately below `end`.
    pub(crate) fn reaching(self, end: &[u8], at: SequenceNumber) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            SourceRangeDeletes::Memtable(deletes) => deletes.reaching(end, at),
            SourceRangeDeletes::Run(deletes, range) if reaches(range, end) => {
                cut(deletes.covering_below(end, at)?, range)
            }
            SourceRangeDeletes::Run(..) => None,
        }
    }
}

/// Returns the intersection of two ranges, which must overlap.
fn cut((mut start, mut end): (Vec<u8>, Vec<u8>), range: &KeyRange) -> Option<(Vec<u8>, Vec<u8>)> {
    if *start < *range.low {
        start = range.low.to_vec();
    }
    if let Some(high) = &range.high
        && **high < *end
    {
        end = high.to_vec();
    }
    Some((start, end))
}

/// Returns whether a range contains the keys immediately below `end`.
fn reaches(range: &KeyRange, end: &[u8]) -> bool {
    *range.low < *end && range.high.as_deref().is_none_or(|high| end <= high)
}
