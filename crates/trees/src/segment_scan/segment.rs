//! A segment: the merge of the memtables and runs that have keys in one range of a scan.

use super::sources::{MemtableScanCursor, ScanInput, SourceRangeDeletes};
use crate::run::{self, CursorAccess};
use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::batch::{LongValues, ScanBatch};
use alluvium_dictionary::fetch::{BlockingFetch, unwrap_ready};
use alluvium_dictionary::lookup_state::KeyState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::empty_ranges::{EmptyRange, EmptyRanges, ReadPoint};
use alluvium_dictionary::merge::{MergeDirection, MergeOperator, MergingIter, SortedSource as _};
use alluvium_dictionary::pinned_value::ValueDestination;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::RecordValue;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::rules::KeyspaceCursor;
use alluvium_dictionary::value_log;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;
use std::task::Poll;

/// After this many consecutive records from one source, all further records of that source up to
/// the next key of any other source are consumed in one go. Finding that next key costs as much as
/// consuming a few records one by one.
/// Tuning: `4` since 2026-11-23.
const STREAK: u32 = 4;

/// Where a scan continues.
#[derive(Clone, Debug)]
pub(crate) enum ScanPosition {
    /// Before all keys, in the direction of the scan.
    Start,
    /// At this key, or at the next one in the scan's direction.
    At(Vec<u8>),
    /// After this key, in the direction of the scan.
    Behind(Vec<u8>),
    End,
}

/// The parameters of a scan: what it reads, and as of which point.
#[derive(Clone, Debug)]
pub(crate) struct ScanParameters {
    pub(crate) range: KeyRange,
    pub(crate) direction: MergeDirection,
    pub(crate) at: SequenceNumber,
    pub(crate) now_ms: u64,
    /// Number of further records that the scan is expected to read.
    pub(crate) expected: usize,
    pub(crate) long_values: LongValues,
}

impl ScanParameters {
    /// Returns the sequence number and the time that the scan reads as of.
    pub(crate) fn moment(&self) -> ReadPoint {
        (self.at, self.now_ms)
    }
}

impl ScanPosition {
    /// Returns the range in `empty` that contains the position, if there is one. Such a range has
    /// no live keys.
    pub(crate) fn empty_range(&self, wanted: &ScanParameters, empty: &EmptyRanges) -> Option<EmptyRange> {
        let (range, moment) = (&wanted.range, wanted.moment());
        let from_above = || empty.below(range.high.as_deref()?, moment);
        match (self, wanted.direction) {
            (ScanPosition::End, _) => None,
            (ScanPosition::Start, MergeDirection::Forward) => empty.around(&range.low, moment),
            (ScanPosition::At(key), MergeDirection::Forward) => {
                empty.around(key.as_slice().max(&range.low), moment)
            }
            (ScanPosition::Behind(key), MergeDirection::Forward) => {
                empty.around(&[key, &[0][..]].concat(), moment)
            }
            (ScanPosition::Start, MergeDirection::Backward) => from_above(),
            (ScanPosition::At(key) | ScanPosition::Behind(key), MergeDirection::Backward)
                if range.ends_before(key) =>
            {
                from_above()
            }
            (ScanPosition::At(key), MergeDirection::Backward) => empty.around(key, moment),
            (ScanPosition::Behind(key), MergeDirection::Backward) => empty.below(key, moment),
        }
    }
}

/// A scan's open sources for a key range. They belong to one version of the dictionary's list of
/// runs.
pub(crate) struct ScanSegment {
    version: u64,
    /// The key range of the segment, which is within the range of the scan.
    pub(crate) range: KeyRange,
    merged: MergingIter<ScanInput>,
    /// Number of memtables, which come before the runs in the list of sources.
    memtables: usize,
    /// The runs with range deletes: the index of the source, the run, and the key range in which
    /// the run is live.
    deletes: Vec<(usize, run::IndexedRun, KeyRange)>,
    /// Whether any source has range deletes.
    has_deletes: bool,
    /// The last key examined, except for keys that only the batch has. `is_done` tells whether the
    /// key has been processed completely.
    key: Vec<u8>,
    is_done: bool,
    /// The source index of the last record, and the number of consecutive records from that source.
    streak: (usize, u32),
}

/// What a scan found out about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanOutcome {
    /// The key has a value.
    Live,
    /// The newest message of the key is in a memtable, and the key has no value.
    DeadInMemtable,
    /// The newest message of the key is in a run, and the key has no value.
    DeadInRun,
}

/// A run to scan, the key range in which it is live, and its approximate number of records there.
pub(crate) type RunShare = (run::IndexedRun, KeyRange, f64);

impl ScanSegment {
    /// Opens the sources for `range` at a position. `shares` lists the runs of the dictionary's
    /// version `version`, from newest to oldest. `memtables` have newer data than the runs, and are
    /// also ordered from newest to oldest.
    pub(crate) fn open<'m>(
        store: &Store,
        (version, shares): (u64, Vec<RunShare>),
        range: KeyRange,
        memtables: impl Iterator<Item = &'m Arc<Memtable>>,
        wanted: &ScanParameters,
        position: &ScanPosition,
    ) -> Result<ScanSegment> {
        let from = match position {
            ScanPosition::At(key) | ScanPosition::Behind(key) if range.contains(key) => Some(&key[..]),
            _ => None,
        };
        let above = |memtable| MemtableScanCursor::new(memtable, range.clone(), wanted.direction, from);
        let mut sources: Vec<ScanInput> = memtables
            .map(|memtable| ScanInput::Memtable(Box::new(above(memtable))))
            .collect();
        let memtables = sources.len();
        let all: f64 = shares.iter().map(|(.., records)| records).sum();
        let mut deletes = Vec::new();
        let mut cursors = Vec::with_capacity(shares.len());
        for (run, mut within, records) in shares {
            narrow(&mut within, &sources, &deletes, wanted, position);
            if !within.overlaps(run.low(), run.high()) {
                continue;
            }
            if !run.range_deletes().is_empty() {
                deletes.push((memtables + cursors.len(), run.clone(), within.clone()));
            }
            let cursor = run.cursor(store, within, wanted.direction, CursorAccess::Cached);
            let mut cursor = cursor.for_reader(wanted.at);
            cursor.expect(leaves(wanted.expected, &run, records / all.max(1.0)));
            cursors.push(cursor);
        }
        run::open_many(&mut cursors, from)?;
        sources.extend(cursors.into_iter().map(ScanInput::Run));
        let mut segment = ScanSegment {
            version,
            range,
            has_deletes: false,
            merged: MergingIter::new(sources, wanted.direction),
            memtables,
            deletes,
            key: Vec::new(),
            is_done: false,
            streak: (0, 0),
        };
        segment.look_for_deletes();
        if let ScanPosition::Behind(key) = position {
            while segment.merged.key() == Some(key) {
                segment.merged.advance_by(ScanInput::pass_key)?;
            }
        }
        Ok(segment)
    }

    /// Reacquires the memtables at the beginning of a call. Returns `false` if the segment must be
    /// opened again, because the version or the list of memtables has changed.
    pub(crate) fn attach<'m>(
        &mut self,
        version: u64,
        memtables: impl Iterator<Item = &'m Arc<Memtable>>,
    ) -> bool {
        debug_assert!(self.version <= version, "versions rise");
        if self.version != version {
            return false;
        }
        // No source changes its position, so the state of the merge remains valid.
        let mut above = self.merged.sources_mut()[..self.memtables].iter_mut();
        for memtable in memtables {
            match above.next() {
                Some(ScanInput::Memtable(above)) => {
                    if !above.attach(memtable) {
                        return false;
                    }
                }
                _ => return false,
            }
        }
        let same = above.next().is_none();
        self.look_for_deletes();
        same
    }

    fn look_for_deletes(&mut self) {
        let has_deletes = self.all_deletes().next().is_some();
        self.has_deletes = has_deletes;
    }

    /// Releases the memtables at the end of a call of the scan (W2).
    pub(crate) fn detach(&mut self) {
        for source in &mut self.merged.sources_mut()[..self.memtables] {
            if let ScanInput::Memtable(above) = source {
                above.detach();
            }
        }
    }

    /// Returns the approximate memory of the segment in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let bytes = |source: &ScanInput| match source {
            ScanInput::Memtable(_) => size_of::<ScanInput>() + size_of::<MemtableScanCursor>(),
            ScanInput::Run(cursor) => size_of::<ScanInput>() + cursor.memory_bytes(),
        };
        let all: usize = self.merged.sources().iter().map(bytes).sum();
        (size_of::<ScanSegment>() + all) as u64
    }

    /// Returns the next key, whether or not it has a value, or `None` if no key is left.
    pub(crate) fn next_key(&self) -> Option<&[u8]> {
        self.merged.key()
    }

    /// Returns the position at which the scan can continue after an error.
    pub(crate) fn position(&self) -> ScanPosition {
        if self.is_done {
            ScanPosition::Behind(self.key.clone())
        } else {
            ScanPosition::At(self.key.clone())
        }
    }

    /// Returns the last key examined. Valid only if that key had no value.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the range deletes of all sources, each with the index of its source.
    fn all_deletes(&self) -> impl Iterator<Item = (usize, SourceRangeDeletes<'_>)> {
        deletes_of(&self.merged.sources()[..self.memtables], &self.deletes)
    }

    /// Consumes the next key and all its messages, and adds the key to the batch if it has a value.
    /// If the next records all come from one source, their keys are added too, until the batch is
    /// full.
    pub(crate) fn take(
        &mut self,
        wanted: &ScanParameters,
        known: &mut KeyState,
        keyspace: &mut KeyspaceCursor,
        from: &BlockingFetch<'_>,
        batch: &mut ScanBatch,
    ) -> Result<ScanOutcome> {
        let Some(winner) = self.merged.winner() else {
            return Ok(ScanOutcome::DeadInMemtable);
        };
        if self.continues_streak(winner) && !self.has_deletes {
            let swept = self.merged.gallop(|source, bound| {
                source.sweep(wanted.at, bound, |key, value| {
                    batch.push_parts(key, wanted.long_values.shown(value));
                    !batch.is_full()
                })
            });
            match swept {
                Ok(0) => {}
                Ok(_) => return Ok(ScanOutcome::Live),
                Err(error) => return Err(self.behind_batch(batch, error)),
            }
        }
        debug_assert!(winner < self.merged.sources().len(), "source {winner}");
        let source = self.merged.source(winner);
        let key = source.key().unwrap_or_default();
        // The newest message is nearly always a put without expiry, which makes older messages
        // irrelevant.
        if !self.has_deletes
            && let Some(record) = source.newest(wanted.at)
            && record.kind == MessageKind::Put
            && record.expires_ms == 0
            && push(batch, key, record.value, wanted.long_values)
        {
            return match self.pass_key() {
                Ok(()) => Ok(ScanOutcome::Live),
                Err(error) => Err(self.behind_batch(batch, error)),
            };
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.is_done = false;
        let taken = if winner < self.memtables {
            ScanOutcome::DeadInMemtable
        } else {
            ScanOutcome::DeadInRun
        };
        keyspace.enter(&self.key);
        let operator = keyspace.rules().operator.as_deref();
        self.decide(wanted, known, operator, from)?;
        self.is_done = true;
        match known.settle(operator) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(taken),
            Err(bad) => {
                // Return the records in the batch first. The same error then occurs again, and
                // after it has been returned, the scan continues after this key.
                self.is_done = batch.len() == 0;
                return Err(bad.under_operands_of(&self.key));
            }
        }
        match wanted.long_values {
            LongValues::Read => batch.push_owned(&self.key, known.value_mut()),
            LongValues::LeftOut => batch.push(&self.key, wanted.long_values.shown(known.value_mut())),
        }
        Ok(ScanOutcome::Live)
    }

    /// Records that the next record comes from source `winner`. Returns whether the last few
    /// records came from the same source, or whether there is only one source.
    #[inline]
    fn continues_streak(&mut self, winner: usize) -> bool {
        let (last, length) = &mut self.streak;
        *length = if *last == winner {
            (*length + 1).min(STREAK)
        } else {
            0
        };
        *last = winner;
        debug_assert!(*length <= STREAK, "a streak of {length}");
        *length == STREAK || self.merged.sources().len() == 1
    }

    /// Handles an error that occurred while the merge advanced. Sets the position so that the scan
    /// continues after the records in the batch, and returns the error.
    #[cold]
    fn behind_batch(&mut self, batch: &ScanBatch, error: Error) -> Error {
        self.is_done = batch.len() > 0;
        let key = batch.last_key().or(self.merged.key());
        self.key.clear();
        self.key.extend_from_slice(key.unwrap_or_default());
        error
    }

    /// Determines the value of the current key from its messages in all sources, and moves to the
    /// next key.
    fn decide(
        &mut self,
        wanted: &ScanParameters,
        known: &mut KeyState,
        operator: Option<&dyn MergeOperator>,
        from: &BlockingFetch<'_>,
    ) -> Result<()> {
        known.reset(wanted.at, wanted.now_ms);
        if self.has_deletes {
            for (_, deletes) in self.all_deletes() {
                known.range_deleted(deletes.covering(&self.key, wanted.at));
            }
        }
        while let Some(winner) = self.merged.winner() {
            let mut feed = |record: &StoredRecord<'_>| {
                let is_left_out = wanted.long_values == LongValues::LeftOut
                    && record.kind == MessageKind::Put
                    && !known.has_operands();
                let load = |pointer: &_, room: ValueDestination<'_>| match is_left_out {
                    true => Poll::Ready(Ok(())),
                    false => value_log::fetch_value(from, pointer, room),
                };
                unwrap_ready(known.record(record, operator, load))
            };
            match self.merged.source(winner) {
                ScanInput::Run(cursor) => {
                    // Once the value is known, further records are ignored. Until then the loop
                    // continues. Either way, the result of `feed` is not needed.
                    let _ = feed(&cursor.record())?;
                }
                ScanInput::Memtable(above) => {
                    for record in above.records(wanted.at) {
                        if feed(&record)?.is_break() {
                            break;
                        }
                    }
                }
            }
            if known.is_decided() {
                self.merged.advance_by(ScanInput::pass_key)?;
            } else {
                self.merged.advance()?;
            }
            if !self.merged.repeats() {
                break;
            }
        }
        Ok(())
    }

    /// Moves to the next key, past all remaining messages of the current key.
    #[inline]
    fn pass_key(&mut self) -> Result<()> {
        loop {
            self.merged.advance_by(ScanInput::pass_key)?;
            if !self.merged.repeats() {
                return Ok(());
            }
        }
    }

    /// Moves all sources past a range without live keys, in the scan's direction.
    pub(crate) fn leap(&mut self, empty: &EmptyRange, direction: MergeDirection) -> Result<()> {
        let is_inside = |key: &[u8]| *empty.start <= *key && *key < *empty.end;
        for source in self.merged.sources_mut() {
            if source.key().is_some_and(is_inside) {
                go_behind(source, &empty.start, &empty.end, direction)?;
            }
        }
        self.merged.rebuild();
        debug_assert!(
            self.merged.key().is_none_or(|key| !is_inside(key)),
            "no source is left behind"
        );
        Ok(())
    }

    /// If a range delete covers the next key, moves all sources with older data past the end of
    /// that range delete.
    pub(crate) fn skip(&mut self, wanted: &ScanParameters) -> Result<()> {
        if !self.has_deletes {
            return Ok(());
        }
        let Some(key) = self.merged.key().map(<[u8]>::to_vec) else {
            return Ok(());
        };
        let around = |(source, deletes): (usize, SourceRangeDeletes<'_>)| {
            let (start, end) = deletes.around(&key, wanted.at)?;
            Some((source, start, end))
        };
        let covered: Vec<(usize, Vec<u8>, Vec<u8>)> = self.all_deletes().filter_map(around).collect();
        let mut moved = false;
        for (source, start, end) in covered {
            // All records in older sources are older than the range delete (G1).
            for older in self.merged.sources_mut().iter_mut().skip(source + 1) {
                let inside = older.key().is_some_and(|at| *start <= *at && *at < *end);
                if !inside {
                    continue;
                }
                moved = true;
                go_behind(older, &start, &end, wanted.direction)?;
            }
        }
        if moved {
            self.merged.rebuild();
        }
        Ok(())
    }
}

/// Moves a source past the range `start..end` in the scan's direction.
fn go_behind(source: &mut ScanInput, start: &[u8], end: &[u8], direction: MergeDirection) -> Result<()> {
    match direction {
        MergeDirection::Forward => source.seek(end),
        MergeDirection::Backward => {
            source.seek(start)?;
            while source.key() == Some(start) {
                source.pass_key()?;
            }
            Ok(())
        }
    }
}

/// Adds a record to the batch. Returns `false` without adding it if the value is too long to be
/// loaded later with the others.
#[inline]
fn push(batch: &mut ScanBatch, key: &[u8], value: RecordValue<'_>, long_values: LongValues) -> bool {
    match value {
        RecordValue::Inline(value) => batch.push(key, long_values.shown(value)),
        RecordValue::Separate(_) if long_values == LongValues::LeftOut => batch.push(key, &[]),
        RecordValue::Separate(pointer) => return batch.push_apart(key, pointer),
    }
    true
}

/// Returns the approximate number of leaves of a run that a scan will read. `share` is the fraction
/// of the `expected` records that come from the run.
fn leaves(expected: usize, run: &run::IndexedRun, share: f64) -> usize {
    let summary = run.summary();
    let records = expected as f64 * share;
    let leaves = records * summary.leaves as f64 / summary.records.max(1) as f64;
    // A scan usually starts in the middle of its first leaf.
    if expected == 0 {
        1
    } else {
        (leaves + 1.0).round() as usize
    }
}

/// Returns the range deletes of all sources, each with the index of its source. `sources` lists the
/// memtables first, and `runs` lists the runs with range deletes.
fn deletes_of<'s>(
    sources: &'s [ScanInput],
    runs: &'s [(usize, run::IndexedRun, KeyRange)],
) -> impl Iterator<Item = (usize, SourceRangeDeletes<'s>)> {
    let above = sources.iter().enumerate();
    let above = above.filter_map(|(number, source)| match source {
        ScanInput::Memtable(above) => Some((number, SourceRangeDeletes::Memtable(above.deletes()?))),
        ScanInput::Run(_) => None,
    });
    above.chain(
        runs.iter()
            .map(|(source, run, within)| (*source, SourceRangeDeletes::Run(run.range_deletes(), within))),
    )
}

/// Narrows the range `within` of an older source, to skip keys before the position and keys that
/// range deletes of newer sources cover.
fn narrow(
    within: &mut KeyRange,
    sources: &[ScanInput],
    newer: &[(usize, run::IndexedRun, KeyRange)],
    wanted: &ScanParameters,
    position: &ScanPosition,
) {
    match wanted.direction {
        MergeDirection::Forward => {
            if let ScanPosition::At(key) | ScanPosition::Behind(key) = position
                && *within.low < **key
            {
                within.low = key.as_slice().into();
            }
            let end_of = |low: &[u8]| {
                let mut around =
                    deletes_of(sources, newer).filter_map(|(_, deletes)| deletes.around(low, wanted.at));
                around.next().map(|(_, end)| end)
            };
            while let Some(end) = end_of(&within.low) {
                within.low = end.into();
            }
        }
        MergeDirection::Backward => {
            // The next relevant key is the last one before the end of the range. A range delete
            // that reaches up to that end covers it.
            let start_of = |high: &[u8]| {
                let mut reaching =
                    deletes_of(sources, newer).filter_map(|(_, deletes)| deletes.reaching(high, wanted.at));
                reaching.next().map(|(start, _)| start)
            };
            while let Some(start) = within.high.as_deref().and_then(start_of) {
                within.high = Some(start.into());
            }
        }
    }
}
