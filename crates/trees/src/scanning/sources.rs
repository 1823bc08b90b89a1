//! What a scan merges: cursors of memtables, which it lets go between its calls, and of runs.

use crate::run::Cursor;
use alluvium_base::Sequence;
use alluvium_dictionary::deletes::RangeDeletes;
use alluvium_dictionary::memtable::{Deletes as MemtableDeletes, Memtable, Spot};
use alluvium_dictionary::merge::{self, Direction};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::Record;
use alluvium_storage::{Error, Result};
use std::sync::{Arc, Weak};

/// A source of a scan. There are few, and looking through a pointer for every record would cost
/// more than their size.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Source {
    Memtable(Box<Above>),
    Run(Cursor),
}

/// A position among the keys of a memtable within a range. The memtable itself is there only while
/// the scan is at work; between calls the position is kept, for a memtable never moves its records.
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
    /// At the first key of the range, at `from` or behind it, in the direction.
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

    /// Holds the memtable again, if it is the one that this is a position in.
    pub(crate) fn attach(&mut self, memtable: &Arc<Memtable>) -> bool {
        let same = std::ptr::eq(self.name.as_ptr(), Arc::as_ptr(memtable));
        if same {
            self.deletes = memtable.deletes();
            self.memtable = Some(Arc::clone(memtable));
        }
        same
    }

    /// Lets the memtable go, and keeps the position.
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

    /// Goes to the first key of the range at `from` or behind it.
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
    /// Returns the current key's newest message at or before `at` as far as this source stands at
    /// it: a memtable's position is at all messages of a key, a run's cursor at one.
    #[inline]
    pub(crate) fn newest(&self, at: Sequence) -> Option<Record<'_>> {
        match self {
            Source::Run(cursor) => Some(cursor.record()).filter(|record| record.sequence <= at),
            Source::Memtable(above) => above.records(at).next(),
        }
    }

    /// Hands out plain records before `bound` as long as they are taken, as [`Cursor::sweep`] does:
    /// how many.
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

    /// Goes on to the next key, whatever else there is about this one.
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

    /// Goes to the first key at or behind this one.
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
    /// A run's, as far as they count.
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

    /// Returns a range around a key of which a reader at `at` finds everything deleted that is
    /// older than the source.
    pub(crate) fn around(self, key: &[u8], at: Sequence) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Deletes::Memtable(deletes) => deletes.around(key, at),
            Deletes::Run(deletes, range) if range.contains(key) => cut(deletes.around(key, at)?, range),
            Deletes::Run(..) => None,
        }
    }

    /// The same around the keys just below `end`.
    pub(crate) fn reaching(self, end: &[u8], at: Sequence) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Deletes::Memtable(deletes) => deletes.reaching(end, at),
            Deletes::Run(deletes, range) if reaches(range, end) => cut(deletes.reaching(end, at)?, range),
            Deletes::Run(..) => None,
        }
    }
}

/// Returns what two ranges share that overlap.
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
