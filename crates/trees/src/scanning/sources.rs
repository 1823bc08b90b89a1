//! The sources of a scan: cursors of memtables, which are released between calls, and of runs.

use crate::run::Cursor;
use alluvium_base::Sequence;
use alluvium_dictionary::deletes::RangeDeletes;
use alluvium_dictionary::memtable::{Deletes as MemtableDeletes, Memtable, Spot};
use alluvium_dictionary::merge::{self, Direction};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::Record;
use alluvium_storage::{Error, Result};
use std::sync::{Arc, Weak};

/// A source of a scan. Boxing the larger variant would save little memory, and an indirection per
/// record would cost more.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Source {
    Memtable(Box<Above>),
    Run(Cursor),
}

/// A position among the keys of a memtable within a range. The memtable is held only during a call.
/// The position stays valid between calls, because a memtable never moves its records.
pub(crate) struct Above {
    name: Weak<Memtable>,
    memtable: Option<Arc<Memtable>>,
    deletes: Option<MemtableDeletes>,
    spot: Spot,
    range: KeyRange,
    direction: Direction,
    /// Whether the position is at a key of the range.
    is_inside: bool,
}

impl Above {
    /// Creates a position at the first key of the range at or after `from`, in the given direction.
    pub(crate) fn new(
        memtable: &Arc<Memtable>,
        range: KeyRange,
        direction: Direction,
        from: Option<&[u8]>,
    ) -> Above {
        let mut above = Above {
            name: Arc::downgrade(memtable),
            memtable: None,
            deletes: None,
            spot: Spot::default(),
            range,
            direction,
            is_inside: false,
        };
        let is_same = above.attach(memtable);
        debug_assert!(is_same, "a position is one in its memtable");
        above.seek(from);
        above
    }

    /// Holds the memtable again. Returns `false` if it is not the memtable of this position.
    pub(crate) fn attach(&mut self, memtable: &Arc<Memtable>) -> bool {
        let same = std::ptr::eq(self.name.as_ptr(), Arc::as_ptr(memtable));
        if same {
            self.deletes = memtable.deletes();
            self.memtable = Some(Arc::clone(memtable));
        }
        same
    }

    /// Releases the memtable, and keeps the position.
    pub(crate) fn detach(&mut self) {
        self.memtable = None;
        self.deletes = None;
    }

    pub(crate) fn deletes(&self) -> Option<&MemtableDeletes> {
        self.deletes.as_ref()
    }

    /// Returns the current key's messages at or before `at`, newest first.
    pub(crate) fn records(&self, at: Sequence) -> impl Iterator<Item = Record<'_>> {
        let memtable = self.memtable.as_deref();
        let versions = memtable.map(|memtable| self.spot.versions(memtable, at));
        versions.into_iter().flatten().map(Record::from)
    }

    /// Moves to the first key of the range at or after `from`.
    fn seek(&mut self, from: Option<&[u8]>) {
        let Some(memtable) = self.memtable.as_deref() else {
            return;
        };
        let (spot, range) = (&mut self.spot, &self.range);
        match (self.direction, from) {
            (Direction::Forward, from) => {
                spot.seek(memtable, from.map_or(&range.low, |from| from.max(&range.low)));
            }
            (Direction::Backward, Some(from)) if !range.ends_before(from) => spot.seek_back(memtable, from),
            (Direction::Backward, _) => match &range.high {
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
            Direction::Forward => self.spot.next(memtable),
            Direction::Backward => self.spot.previous(memtable),
        }
        self.look();
    }

    fn look(&mut self) {
        let memtable = self.memtable.as_deref();
        let key = memtable.and_then(|memtable| self.spot.key(memtable));
        self.is_inside = key.is_some_and(|key| self.range.contains(key));
    }
}

impl Source {
    /// Returns the current key's newest message at or before `at`, as far as the source is
    /// positioned at it: a memtable's position covers all messages of a key, a run's cursor only
    /// one.
    #[inline]
    pub(crate) fn newest(&self, at: Sequence) -> Option<Record<'_>> {
        match self {
            Source::Run(cursor) => Some(cursor.record()).filter(|record| record.sequence <= at),
            Source::Memtable(above) => above.records(at).next(),
        }
    }

    /// Passes plain records before `bound` to `take` while it returns `true`, like
    /// [`Cursor::sweep`]. Returns their number.
    #[inline]
    pub(crate) fn sweep(
        &mut self,
        at: Sequence,
        bound: Option<&[u8]>,
        take: impl FnMut([&[u8]; 2], &[u8]) -> bool,
    ) -> Result<usize> {
        match self {
            Source::Run(cursor) => cursor.sweep(at, bound, take),
            Source::Memtable(_) => Ok(0),
        }
    }

    /// Moves to the next key, skipping further messages of the current one.
    #[inline]
    pub(crate) fn pass_key(&mut self) -> Result<()> {
        match self {
            Source::Run(cursor) => cursor.pass_key(),
            Source::Memtable(above) => {
                above.advance();
                Ok(())
            }
        }
    }

    /// Moves to the first key at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            Source::Run(cursor) => cursor.seek(key),
            Source::Memtable(above) => {
                above.seek(Some(key));
                Ok(())
            }
        }
    }
}

impl merge::Source for Source {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            Source::Run(cursor) => cursor.key(),
            Source::Memtable(above) => {
                let memtable = above.memtable.as_deref().filter(|_| above.is_inside)?;
                above.spot.key(memtable)
            }
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            Source::Run(cursor) => cursor.advance(),
            Source::Memtable(above) => {
                above.advance();
                Ok(())
            }
        }
    }
}

/// The range deletes of a source.
#[derive(Clone, Copy)]
pub(crate) enum Deletes<'s> {
    Memtable(&'s MemtableDeletes),
    /// The range deletes of a run, and the range in which they count.
    Run(&'s RangeDeletes, &'s KeyRange),
}

impl Deletes<'_> {
    /// Returns the newest delete at or before `at` that covers a key.
    pub(crate) fn covering(self, key: &[u8], at: Sequence) -> Option<Sequence> {
        match self {
            Deletes::Memtable(deletes) => deletes.covering(key, at),
            Deletes::Run(deletes, range) if range.contains(key) => deletes.covering(key, at),
            Deletes::Run(..) => None,
        }
    }

    /// Returns a range around a key in which, for a reader at `at`, every record older than the
    /// source is deleted.
    pub(crate) fn around(self, key: &[u8], at: Sequence) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Deletes::Memtable(deletes) => deletes.around(key, at),
            Deletes::Run(deletes, range) if range.contains(key) => cut(deletes.around(key, at)?, range),
            Deletes::Run(..) => None,
        }
    }

    /// Like [`Deletes::around`], for the keys just below `end`.
    pub(crate) fn reaching(self, end: &[u8], at: Sequence) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Deletes::Memtable(deletes) => deletes.reaching(end, at),
            Deletes::Run(deletes, range) if reaches(range, end) => cut(deletes.reaching(end, at)?, range),
            Deletes::Run(..) => None,
        }
    }
}

/// Returns the intersection of two ranges that overlap.
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

/// Returns whether the keys just below `end` are in a range.
fn reaches(range: &KeyRange, end: &[u8]) -> bool {
    *range.low < *end && range.high.as_deref().is_none_or(|high| end <= high)
}
