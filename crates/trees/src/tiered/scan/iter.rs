//! Scans: iterate over a key range in either direction, and resolve the visible value of each key
//! in batches.

use super::scan_length::LONG_SCAN;
use super::scans::ScanContext;
use super::shares::shares;
use crate::segment_scan::{ScanMemoryUse, ScanOutcome, ScanParameters, ScanPosition, ScanSegment};
use crate::tiered::trunk::{TreeVersion, Trunk, TrunkNode};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::batch::{LongValues, ScanBatch};
use alluvium_dictionary::fetch::BlockingFetch;
use alluvium_dictionary::lookup_state::KeyState;
use alluvium_dictionary::memtables::empty_ranges::DeadRun;
use alluvium_dictionary::memtables::{MemtableList, MemtableOwner, above};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceCursor;
use alluvium_dictionary::separate_values;
use alluvium_storage::Result;
use std::fmt;
use std::sync::Arc;

/// Number of consecutive deleted keys after which a scan checks whether a range delete covers them,
/// so that it can skip to the end of the range delete.
/// Tuning: `4` since 2026-11-21.
const RANGE_SKIP_AFTER: u32 = 4;
/// Number of consecutive deleted keys after which a scan requests a compaction of the range.
/// Tuning: `512` since 2026-11-21.
const COMPACT_AFTER_SKIPS: u32 = 512;
/// Maximum number of records that a scan resolves before the caller asks for them.
/// Tuning: `128` since 2026-11-23.
const MAX_AHEAD: usize = 128;
/// Maximum margin, in records, added to the average length if the length of a scan is unknown. The
/// margin equals the average length, up to this maximum. Reading one page too many costs only a
/// thirtieth of a read (the affine model: Bender et al., Small Refinements to the DAM, 2021), but
/// reading many unneeded pages is expensive.
/// Tuning: `128` since 2026-11-23; the affine model: one page too many costs a thirtieth of a read.
const LONGER: usize = 128;
/// Number of further records that a scan is expected to read after it has reached [`LONG_SCAN`]
/// records, or if nearly all scans are that long.
/// Tuning: `8 * LONG_SCAN` since 2026-11-23.
const NO_END: usize = 8 * LONG_SCAN;
/// Number of deleted keys after which a scan releases its resources. It then seeks back to its
/// position.
/// Tuning: `4096` since 2026-11-22.
const RELEASE_AFTER: u32 = 4096;
/// Maximum number of bytes that a scan resolves before the caller asks for them, if the caller has
/// announced that it will read them.
/// Tuning: `2 << 20` since 2026-11-30; values of eight runs are then read 256 KiB at a time.
const MOST_EXPECTED_BYTES: usize = 2 << 20;
/// Approximate size in bytes of a record whose caller announces bytes. It determines how many
/// leaves are read ahead. Not a tuning parameter.
const EXPECTED_RECORD: usize = 4 << 10;
const _: () = assert!(
    RANGE_SKIP_AFTER < COMPACT_AFTER_SKIPS && COMPACT_AFTER_SKIPS < RELEASE_AFTER,
    "a scan skips before it asks"
);

/// An iterator over the keys in a range that have a value at a given sequence number.
///
/// Between calls, the iterator keeps a sequence number and a position, but never pins a version or
/// a memtable, so it never delays the reuse of memory or extents. If the version or the memtables
/// have changed, it seeks back to its position. It resolves records in batches of growing size.
/// Resolved records stay valid, because data at or below the iterator's sequence number never
/// changes.
pub struct TreeIter {
    scans: Arc<ScanContext>,
    memtables: Option<Arc<dyn MemtableOwner>>,
    wanted: ScanParameters,
    segment: Option<Box<ScanSegment>>,
    /// Accounts for the memory that the iterator retains between calls, and identifies its segment
    /// while that is parked.
    hold: ScanMemoryUse,
    /// Where the scan continues when it has no open segment.
    position: ScanPosition,
    /// Whether the next leaf is the first since the start or the last seek.
    enters: bool,
    batch: ScanBatch,
    /// Number of records to resolve in the next batch.
    ahead: usize,
    /// Number of records in earlier batches since the start or the last seek.
    taken: usize,
    /// Whether the caller has announced how many records it will read.
    is_told: bool,
    /// Number of bytes that the caller has announced and not been given yet.
    expected_bytes: usize,
    known: KeyState,
    /// The keyspace of the last key that was resolved.
    keyspace: KeyspaceCursor,
    /// Number of consecutive keys without a value, and how many of them are in runs.
    dead: u32,
    waded: u32,
    /// The current sequence of keys without a value, recorded so that later scans can skip it.
    dead_run: DeadRun,
}

impl Drop for TreeIter {
    fn drop(&mut self) {
        self.note_length();
        let held = &self.scans.held;
        drop(held.take(&mut self.hold));
        held.keep(&mut self.hold, 0);
    }
}

/// Identifies the leaf to open by one of its keys.
enum LeafProbe {
    /// The leaf whose range contains this key.
    Holds(Vec<u8>),
    /// The leaf whose range contains the keys just below this key.
    Before(Vec<u8>),
    Last,
}

/// The version and the memtables from which a batch is read.
struct BatchSources<'v> {
    trunk: &'v Trunk,
    version: &'v TreeVersion,
    list: Option<&'v MemtableList>,
}

impl fmt::Debug for TreeIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeIter")
            .field("wanted", &self.wanted)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl TreeIter {
    /// Creates an iterator over `range` as of sequence number `at`. It reads the tree and, if
    /// `memtables` is given, the memtables above the tree. Puts that expire at or before `now_ms`
    /// are invisible.
    pub(crate) fn new(
        scans: &Arc<ScanContext>,
        memtables: Option<Arc<dyn MemtableOwner>>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> TreeIter {
        TreeIter {
            keyspace: KeyspaceCursor::new(&scans.trunk.options.schema),
            scans: Arc::clone(scans),
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
            enters: true,
            batch: ScanBatch::default(),
            ahead: 1,
            taken: 0,
            is_told: false,
            expected_bytes: 0,
            known: KeyState::default(),
            dead: 0,
            waded: 0,
            dead_run: DeadRun::new(direction),
        }
    }

    /// Moves the iterator to `key`. The next record is the first one at or after `key` in the
    /// iterator's direction.
    pub fn seek(&mut self, key: &[u8]) {
        self.note_length();
        self.position = ScanPosition::At(key.to_vec());
        self.enters = true;
        self.segment = None;
        drop(self.scans.held.take(&mut self.hold));
        self.batch.clear();
        self.ahead = 1;
        (self.dead, self.waded) = (0, 0);
        self.dead_run.leave();
    }

    /// Announces that the caller will read about `records` records. Their data is then read at
    /// once, instead of with growing read-ahead.
    pub fn expect(&mut self, records: usize) {
        self.wanted.expected = records;
        self.is_told = true;
    }

    /// Announces that the caller will read about `bytes` bytes of keys and values. As much as
    /// possible of them is then read at once.
    pub(in crate::tiered) fn expect_bytes(&mut self, bytes: usize) {
        self.expected_bytes = bytes;
        self.expect(bytes.div_ceil(EXPECTED_RECORD));
    }

    /// When a scan ends, adds its length to the statistics that predict the length of later scans.
    fn note_length(&mut self) {
        let taken = std::mem::take(&mut self.taken) + self.batch.taken();
        if taken > 0 {
            self.scans.usual.note(taken);
        }
    }

    /// Returns the next key that has a value, and the value, or `None` at the end of the range.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt). After an error, the
    /// next call tries again.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.batch.is_over() {
            self.refill()?;
        }
        Ok(self.batch.take())
    }

    /// Resolves the next batch, which has at least one record unless the range is exhausted.
    #[cold]
    fn refill(&mut self) -> Result<()> {
        self.taken += self.batch.len();
        self.batch.clear();
        if self.is_told {
            self.ahead = self.ahead.max(self.wanted.expected).min(MAX_AHEAD);
        } else if self.taken == 0 {
            let usual = self.scans.usual.records();
            let are_long = usual > LONG_SCAN - LONG_SCAN / 8;
            self.wanted.expected = if are_long {
                NO_END
            } else {
                usual + usual.min(LONGER)
            };
            self.ahead = self.ahead.max(usual / 2).min(MAX_AHEAD);
        } else if self.taken >= LONG_SCAN {
            self.wanted.expected = NO_END;
        }
        debug_assert!((1..=MAX_AHEAD).contains(&self.ahead), "{} ahead", self.ahead);
        self.begin_batch();
        while self.batch.len() == 0 && !matches!(self.position, ScanPosition::End) {
            let filled = self.fill();
            if let Err(error) = filled {
                self.dead_run.leave();
                if let Some(segment) = self.segment.take() {
                    self.position = segment.position();
                }
                // Records resolved before the error are valid, so return them first. The next
                // refill runs into the error again.
                if self.batch.len() == 0 {
                    return Err(error);
                }
            }
        }
        self.ahead = (2 * self.ahead).min(MAX_AHEAD);
        self.wanted.expected = self.wanted.expected.saturating_sub(self.batch.len());
        self.expected_bytes = self.expected_bytes.saturating_sub(self.batch.bytes());
        self.end_batch();
        Ok(())
    }

    /// Returns whether the scan's segment is still in memory.
    #[cfg(test)]
    pub(crate) fn is_ready(&self) -> bool {
        self.segment.is_some() || self.scans.held.has(&self.hold)
    }

    fn begin_batch(&mut self) {
        let held = &self.scans.held;
        if self.segment.is_none() {
            self.segment = held.take(&mut self.hold);
        }
        match held.most_ahead() {
            Some(most) => self.batch.limit_memory(self.ahead.min(most)),
            None if self.expected_bytes > 0 => {
                self.batch
                    .want_bytes(self.expected_bytes.min(MOST_EXPECTED_BYTES));
            }
            None => self.batch.want(self.ahead),
        }
    }

    /// From now on, returns long values as empty values.
    pub(in crate::tiered) fn leave_out_long_values(&mut self) {
        self.wanted.long_values = LongValues::LeftOut;
    }

    /// Retains data that is useful for the next call, within the limit shared by all scans.
    fn end_batch(&mut self) {
        if self.batch.len() == 0 {
            self.batch = ScanBatch::default();
        }
        let held = &self.scans.held;
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

    /// Fills the batch from one version and the memtables above it. Neither stays pinned
    /// afterwards.
    fn fill(&mut self) -> Result<()> {
        let scans = Arc::clone(&self.scans);
        let trunk = &*scans.trunk;
        // A memtable that leaves the list from now on has been flushed into the version that is
        // read below.
        let list = self.memtables.as_ref().map(|memtables| memtables.newest_first());
        // The guard keeps the version's data from being freed.
        let guard = trunk.store.epochs().pin();
        let version = trunk.peek();
        let view = BatchSources {
            trunk,
            version: &version,
            list: list.as_ref(),
        };
        if let Some(segment) = &mut self.segment
            && !segment.attach(
                version.number(),
                above(view.list, version.stamp.cut, self.wanted.at),
            )
        {
            self.segment = None;
        }
        let from = BlockingFetch {
            cache: trunk.store.cache(),
            guard: &guard,
            purpose: Purpose::Scan,
        };
        let mut filled = self.fill_from(&view, &from);
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

    fn fill_from(&mut self, view: &BatchSources<'_>, from: &BlockingFetch<'_>) -> Result<()> {
        let mut breath = 0;
        loop {
            if self.segment.is_none() && !self.open(view)? {
                self.end_dead_run();
                return Ok(());
            }
            while let Some(segment) = &mut self.segment
                && let Some(key) = segment.next_key()
            {
                if self.batch.is_full() || breath >= RELEASE_AFTER {
                    self.position = ScanPosition::At(key.to_vec());
                    self.dead_run
                        .note(self.memtables.as_deref(), self.wanted.moment());
                    return Ok(());
                }
                let (wanted, known, batch) = (&self.wanted, &mut self.known, &mut self.batch);
                let taken = segment.take(wanted, known, &mut self.keyspace, from, batch)?;
                debug_assert!(self.waded <= self.dead, "what was waded through is dead");
                if taken == ScanOutcome::Live {
                    (self.dead, self.waded) = (0, 0);
                    self.end_dead_run();
                    continue;
                }
                breath += 1;
                self.pass_dead(taken, view)?;
            }
            self.leave();
        }
    }

    /// Handles a key that has no value. After many such keys in a row, the scan skips ahead.
    fn pass_dead(&mut self, taken: ScanOutcome, view: &BatchSources<'_>) -> Result<()> {
        let Some(segment) = &mut self.segment else {
            return Ok(());
        };
        let wanted = &self.wanted;
        self.dead += 1;
        if taken == ScanOutcome::DeadInRun {
            self.waded += 1;
            if self.waded == COMPACT_AFTER_SKIPS {
                view.trunk.usage.note_wading(segment.key());
            }
        }
        self.dead_run
            .pass(segment.key(), self.known.expires(), &wanted.range);
        let empty = self.memtables.as_deref().and_then(MemtableOwner::empty_ranges);
        if let Some(empty) = empty.filter(|_| self.dead_run.may_leap())
            && let Some(range) = self.dead_run.leap(empty, wanted.moment())
        {
            segment.leap(&range, wanted.direction)?;
        }
        if self.dead.is_multiple_of(RANGE_SKIP_AFTER) {
            segment.skip(wanted)?;
        }
        Ok(())
    }

    fn end_dead_run(&mut self) {
        self.dead_run.end(self.memtables.as_deref(), self.wanted.moment());
    }

    /// If the position is in a range known to contain no live keys, moves it to the end of that
    /// range.
    fn leap(&mut self) {
        let empty = self.memtables.as_deref().and_then(MemtableOwner::empty_ranges);
        if let Some(empty) = empty.filter(|empty| !empty.is_empty())
            && let Some(range) = self.position.empty_range(&self.wanted, empty)
        {
            self.dead_run.leapt(&range);
            self.position = match self.wanted.direction {
                MergeDirection::Forward => ScanPosition::At(range.end.into_vec()),
                MergeDirection::Backward => ScanPosition::Behind(range.start.into_vec()),
            };
        }
    }

    /// Opens the leaf at the current position. Returns `false` if no leaf is left within the scan's
    /// range.
    fn open(&mut self, view: &BatchSources<'_>) -> Result<bool> {
        self.leap();
        let Some(probe) = self.probe() else {
            self.position = ScanPosition::End;
            return Ok(false);
        };
        let leaf = leaf_of(&view.version.root, &probe);
        if leaf.range.intersect(&self.wanted.range).is_empty() {
            self.position = ScanPosition::End;
            return Ok(false);
        }
        if std::mem::take(&mut self.enters) {
            view.trunk.usage.note_scan(leaf);
        }
        let range = leaf.range.intersect(&self.wanted.range);
        let shares = shares(view.version, leaf, &range);
        let segment = ScanSegment::open(
            &view.trunk.store,
            (view.version.number(), shares),
            range,
            above(view.list, view.version.stamp.cut, self.wanted.at),
            &self.wanted,
            &self.position,
        )?;
        self.segment = Some(Box::new(segment));
        Ok(true)
    }

    /// Identifies the leaf to open next. Returns `None` at the end of the range.
    fn probe(&self) -> Option<LeafProbe> {
        let range = &self.wanted.range;
        let before_the_end = || match &range.high {
            Some(high) => LeafProbe::Before(high.to_vec()),
            None => LeafProbe::Last,
        };
        match (&self.position, self.wanted.direction) {
            (ScanPosition::End, _) => None,
            (ScanPosition::Start, MergeDirection::Forward) => Some(LeafProbe::Holds(range.low.to_vec())),
            (ScanPosition::Start, MergeDirection::Backward) => Some(before_the_end()),
            (ScanPosition::At(key) | ScanPosition::Behind(key), MergeDirection::Forward) => {
                let key = key.as_slice().max(&range.low);
                (!range.ends_before(key)).then(|| LeafProbe::Holds(key.to_vec()))
            }
            (ScanPosition::At(key) | ScanPosition::Behind(key), MergeDirection::Backward)
                if **key < *range.low =>
            {
                None
            }
            (ScanPosition::At(key) | ScanPosition::Behind(key), MergeDirection::Backward)
                if range.ends_before(key) =>
            {
                Some(before_the_end())
            }
            (ScanPosition::At(key), MergeDirection::Backward) => Some(LeafProbe::Holds(key.clone())),
            (ScanPosition::Behind(key), MergeDirection::Backward) => Some(LeafProbe::Before(key.clone())),
        }
    }

    /// Moves the position past the finished leaf.
    fn leave(&mut self) {
        let Some(segment) = self.segment.take() else {
            return;
        };
        self.position = match self.wanted.direction {
            MergeDirection::Forward => match segment.range.high {
                Some(high) if !self.wanted.range.ends_before(&high) => ScanPosition::At(high.into_vec()),
                _ => ScanPosition::End,
            },
            MergeDirection::Backward if segment.range.low <= self.wanted.range.low => ScanPosition::End,
            MergeDirection::Backward => ScanPosition::Behind(segment.range.low.into_vec()),
        };
    }
}

/// Returns the trunk leaf that a probe identifies.
fn leaf_of<'v>(root: &'v TrunkNode, probe: &LeafProbe) -> &'v TrunkNode {
    let mut node = root;
    loop {
        let pivot = match probe {
            LeafProbe::Last => node.pivots.len() - 1,
            LeafProbe::Holds(key) => node.pivot_for(key),
            LeafProbe::Before(key) => {
                let below = node.pivots.partition_point(|pivot| *pivot.low < **key);
                below.saturating_sub(1)
            }
        };
        match node.pivots[pivot].child.as_deref() {
            Some(child) => node = child,
            None => return node,
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
