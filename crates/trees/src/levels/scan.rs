//! Scans of an LSM tree, merged with the memtables that have newer data. A scan resolves its keys'
//! values in batches.

use super::LevelsDictionary;
use super::state::LevelsVersion;
use crate::segment_scan::{RunShare, ScanMemoryUse, ScanOutcome, ScanParameters, ScanPosition, ScanSegment};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::batch::{LongValues, ScanBatch};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::BlockingFetch;
use alluvium_dictionary::lookup_state::KeyState;
use alluvium_dictionary::memtables::empty_ranges::DeadRun;
use alluvium_dictionary::memtables::{MemtableList, MemtableOwner, above};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceCursor;
use alluvium_dictionary::{memtable::Memtable, separate_values};
use alluvium_storage::Result;
use std::fmt;
use std::sync::Arc;

/// Maximum number of records in a batch, which are resolved before the caller asks for them.
const MAX_AHEAD: usize = 128;
/// After this many consecutive deleted keys, a scan looks for the end of the range delete that
/// covers them and skips to it.
const RANGE_SKIP_AFTER: u32 = 4;
/// After this many consecutive deleted or expired keys, a scan releases its version and its
/// memtables, and continues with the current ones.
const RELEASE_AFTER: u32 = 4096;
const _: () = assert!(
    RANGE_SKIP_AFTER < RELEASE_AFTER,
    "a scan skips before it begins again"
);

/// An iterator over the keys of a range that have a value at a given sequence number.
///
/// Between calls the iterator keeps neither a version nor a memtable. It keeps its position, the
/// records of the current batch, and cache frames. The frames are released if all scans together
/// exceed their memory limit.
pub struct LevelsIter {
    levels: LevelsDictionary,
    memtables: Arc<dyn MemtableOwner>,
    wanted: ScanParameters,
    segment: Option<Box<ScanSegment>>,
    /// Accounts for the scan's memory, and stores the segment while the scan is parked.
    hold: ScanMemoryUse,
    /// The position at which the scan continues when no segment is open.
    position: ScanPosition,
    batch: ScanBatch,
    /// The maximum number of records in the next batch.
    ahead: usize,
    known: KeyState,
    keyspace: KeyspaceCursor,
    /// The current sequence of consecutive keys without a value.
    dead_run: DeadRun,
}

impl fmt::Debug for LevelsIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LevelsIter")
            .field("wanted", &self.wanted)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Drop for LevelsIter {
    fn drop(&mut self) {
        let held = &self.levels.shared.held;
        drop(held.take(&mut self.hold));
        held.keep(&mut self.hold, 0);
    }
}

impl LevelsIter {
    pub(super) fn new(
        levels: &LevelsDictionary,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> LevelsIter {
        LevelsIter {
            keyspace: KeyspaceCursor::new(&levels.shared.home.schema),
            levels: levels.clone(),
            memtables,
            wanted: ScanParameters {
                range,
                direction,
                at,
                now_ms,
                expected: 0,
                long_values: LongValues::default(),
            },
            segment: None,
            hold: ScanMemoryUse::default(),
            position: ScanPosition::Start,
            batch: ScanBatch::default(),
            ahead: 1,
            known: KeyState::default(),
            dead_run: DeadRun::new(direction),
        }
    }

    /// Fills the next batch. It has at least one record unless the scan has reached its end.
    #[cold]
    fn refill(&mut self) -> Result<()> {
        self.batch.clear();
        self.begin_batch();
        while self.batch.len() == 0 && !matches!(self.position, ScanPosition::End) {
            let filled = self.fill();
            if let Err(error) = filled {
                self.dead_run.leave();
                if let Some(segment) = self.segment.take() {
                    self.position = segment.position();
                }
                // Records added to the batch before the error are valid and are returned first. The
                // error will occur again once the batch is empty.
                if self.batch.len() == 0 {
                    return Err(error);
                }
            }
        }
        debug_assert!(self.ahead <= MAX_AHEAD, "{} ahead", self.ahead);
        self.ahead = (2 * self.ahead).min(MAX_AHEAD);
        self.wanted.expected = self.ahead;
        self.end_batch();
        Ok(())
    }

    fn begin_batch(&mut self) {
        let held = &self.levels.shared.held;
        if self.segment.is_none() {
            self.segment = held.take(&mut self.hold);
        }
        match held.most_ahead() {
            Some(most) => self.batch.limit_memory(self.ahead.min(most)),
            None => self.batch.want(self.ahead),
        }
    }

    /// If the memory limit of all scans permits it, keeps the batch and the segment in memory until
    /// the next call. Otherwise parks the segment.
    fn end_batch(&mut self) {
        if self.batch.len() == 0 {
            self.batch = ScanBatch::default();
        }
        let held = &self.levels.shared.held;
        let batch = self.batch.memory_bytes();
        let segment = self.segment.as_deref().map_or(0, ScanSegment::memory_bytes);
        if held.keep(&mut self.hold, batch + segment) {
            return;
        }
        self.known = KeyState::default();
        held.keep(&mut self.hold, batch);
        if let Some(segment) = self.segment.take() {
            held.park(&mut self.hold, segment);
        }
    }

    /// Fills the batch from one version and the memtables with newer data, and releases both.
    fn fill(&mut self) -> Result<()> {
        let levels = self.levels.clone();
        let store = &levels.shared.home.store;
        // Read the list of memtables before the version. A memtable that leaves the list afterwards
        // has been flushed to a run of the version.
        let list = self.memtables.newest_first();
        // Everything that the version refers to stays readable while this guard is pinned.
        let guard = store.epochs().pin();
        let version = levels.shared.versions.peek();
        if let Some(segment) = &mut self.segment
            && !segment.attach(version.stamp.number, memtables(&list, &version, self.wanted.at))
        {
            self.segment = None;
        }
        let from = BlockingFetch {
            cache: store.cache(),
            guard: &guard,
            purpose: Purpose::Scan,
        };
        let mut filled = self.fill_from(&version, &list, &from);
        if let Err((key, error)) = separate_values::load_values(&mut self.batch, &from) {
            self.segment = None;
            self.position = ScanPosition::At(key);
            filled = Err(error);
        }
        if let Some(segment) = &mut self.segment {
            segment.detach();
        }
        filled
    }

    fn fill_from(
        &mut self,
        version: &LevelsVersion,
        list: &MemtableList,
        from: &BlockingFetch<'_>,
    ) -> Result<()> {
        if self.segment.is_none() {
            self.open(version, list)?;
        }
        let mut waded = 0;
        let walked = self.walk(from, &mut waded);
        self.levels.shared.skipped_tombstones.add(waded);
        walked
    }

    /// Iterates over the segment until the batch is full. Adds the number of deleted or expired
    /// keys found in runs to `waded`.
    fn walk(&mut self, from: &BlockingFetch<'_>, waded: &mut u64) -> Result<()> {
        let mut dead = 0;
        while let Some(segment) = &mut self.segment
            && let Some(key) = segment.next_key()
        {
            if self.batch.is_full() || dead >= RELEASE_AFTER {
                self.position = ScanPosition::At(key.to_vec());
                self.dead_run.note(Some(&*self.memtables), self.wanted.moment());
                return Ok(());
            }
            let (known, batch) = (&mut self.known, &mut self.batch);
            let taken = segment.take(&self.wanted, known, &mut self.keyspace, from, batch)?;
            if taken == ScanOutcome::Live {
                dead = 0;
                self.end_dead_run();
                continue;
            }
            dead += 1;
            *waded += u64::from(taken == ScanOutcome::DeadInRun);
            let wanted = &self.wanted;
            self.dead_run
                .pass(segment.key(), self.known.expires(), &wanted.range);
            if let Some(empty) = self.memtables.empty_ranges()
                && self.dead_run.may_leap()
                && let Some(range) = self.dead_run.leap(empty, wanted.moment())
            {
                segment.leap(&range, wanted.direction)?;
            }
            if dead.is_multiple_of(RANGE_SKIP_AFTER) {
                segment.skip(wanted)?;
            }
        }
        self.end_dead_run();
        self.segment = None;
        self.position = ScanPosition::End;
        Ok(())
    }

    fn end_dead_run(&mut self) {
        self.dead_run.end(Some(&*self.memtables), self.wanted.moment());
    }

    /// Opens a segment at the current position. If the position is in a range known to be empty,
    /// skips that range first.
    fn open(&mut self, version: &LevelsVersion, list: &MemtableList) -> Result<()> {
        if let Some(empty) = self.memtables.empty_ranges()
            && !empty.is_empty()
            && let Some(range) = self.position.empty_range(&self.wanted, empty)
        {
            self.dead_run.leapt(&range);
            self.position = match self.wanted.direction {
                MergeDirection::Forward => ScanPosition::At(range.end.into_vec()),
                MergeDirection::Backward => ScanPosition::Behind(range.start.into_vec()),
            };
        }
        let range = self.wanted.range.clone();
        let is_over = match &self.position {
            ScanPosition::At(key) => self.ends_at(key),
            ScanPosition::Behind(key) => {
                self.wanted.direction == MergeDirection::Backward && **key <= *range.low
            }
            ScanPosition::Start | ScanPosition::End => false,
        };
        if is_over {
            return Ok(());
        }
        let shares = shares(version, &range);
        let segment = ScanSegment::open(
            &self.levels.shared.home.store,
            (version.stamp.number, shares),
            range,
            memtables(list, version, self.wanted.at),
            &self.wanted,
            &self.position,
        )?;
        self.segment = Some(Box::new(segment));
        Ok(())
    }

    /// Returns whether the scan's range has no keys at or after `key`, in scan direction.
    fn ends_at(&self, key: &[u8]) -> bool {
        let range = &self.wanted.range;
        match self.wanted.direction {
            MergeDirection::Forward => range.ends_before(key),
            MergeDirection::Backward => *key < *range.low,
        }
    }
}

/// Returns the memtables that have data newer than a version.
fn memtables<'m>(
    list: &'m MemtableList,
    version: &LevelsVersion,
    at: SequenceNumber,
) -> impl Iterator<Item = &'m Arc<Memtable>> {
    above(Some(list), version.stamp.cut, at)
}

/// Returns the runs that may have keys in a range, from newest to oldest, each with its live range
/// and its approximate number of records.
fn shares(version: &LevelsVersion, range: &KeyRange) -> Vec<RunShare> {
    let runs = version
        .newest_first
        .iter()
        .filter(|member| member.overlaps(range));
    runs.map(|member| {
        let within = member.range.intersect(range);
        (member.run.clone(), within, member.run.summary().records as f64)
    })
    .collect()
}

impl contract::DictionaryScan for LevelsIter {
    fn seek(&mut self, key: &[u8]) {
        self.position = if self.ends_at(key) {
            ScanPosition::End
        } else {
            ScanPosition::At(key.to_vec())
        };
        self.segment = None;
        drop(self.levels.shared.held.take(&mut self.hold));
        self.batch.clear();
        self.ahead = 1;
        self.wanted.expected = 0;
        self.dead_run.leave();
    }

    fn leave_out_long_values(&mut self) {
        self.wanted.long_values = LongValues::LeftOut;
    }

    #[inline]
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.batch.is_over() {
            self.refill()?;
        }
        Ok(self.batch.take())
    }
}
