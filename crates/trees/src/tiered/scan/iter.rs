//! Scans: what a range holds, in key order or against it, decided by the batch.

use super::scans::Scans;
use super::shares::shares;
use super::usual::LONG_SCAN;
use crate::scanning::{Hold, Position, Segment, Taken, Wanted};
use crate::tiered::trunk::{Node, Trunk, Version};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::apart;
use alluvium_dictionary::batch::{Batch, LongValues};
use alluvium_dictionary::fetch::Blocking;
use alluvium_dictionary::gather::Known;
use alluvium_dictionary::memtables::empty_ranges::DeadRun;
use alluvium_dictionary::memtables::{MemtableList, Memtables, above};
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::Keyspace;
use alluvium_storage::Result;
use std::fmt;
use std::sync::Arc;

/// Deleted keys in a row after which a scan looks for the end of the range delete that covers them.
const PATIENCE: u32 = 4;
/// Deleted keys in a row after which a scan asks for what it wades through to be compacted.
const WADING: u32 = 512;
/// The most records that are decided before the caller takes them.
const MAX_AHEAD: usize = 128;
/// Scans that say nothing are taken to be longer than the others were on the average, by as much
/// again and no more than this: a page too many costs a thirtieth of a read (the affine model:
/// Bender et al., Small Refinements to the DAM, 2021), but many do cost.
const LONGER: usize = 128;
/// Once a scan is as long as [`LONG_SCAN`], or nearly all are, no end is expected: this many more
/// records.
const NO_END: usize = 8 * LONG_SCAN;
/// Deleted keys after which a scan lets go of what it holds, and finds its place again.
const BREATH: u32 = 4096;
const _: () = assert!(
    PATIENCE < WADING && WADING < BREATH,
    "a scan skips before it asks"
);

/// A walk over the keys of a range that have a value, for a reader at one sequence number.
///
/// It holds a sequence number and a position, never a version nor a memtable: when those have
/// changed, it finds its place again, so that it keeps neither memory nor extents from being used
/// again. It decides some records at once, more and more as it goes on; what it has decided stays
/// right, for nothing changes at or below its sequence number.
pub struct Iter {
    scans: Arc<Scans>,
    memtables: Option<Arc<dyn Memtables>>,
    wanted: Wanted,
    segment: Option<Box<Segment>>,
    /// What all of this takes in memory, and where the segment is when it is not here.
    hold: Hold,
    /// Where to go on when the segment is no more.
    position: Position,
    /// Whether the next leaf is the first since the beginning or a seek.
    enters: bool,
    batch: Batch,
    /// How many records the next batch has.
    ahead: usize,
    /// How many records the batches before had since the beginning or a seek.
    taken: usize,
    /// Whether the caller has said how many records will be taken.
    is_told: bool,
    known: Known,
    /// That of the last key that had to be decided.
    keyspace: Keyspace,
    /// Keys without a value in a row, and those of them that are in runs.
    dead: u32,
    waded: u32,
    /// The same keys, as later walks may profit by them.
    dead_run: DeadRun,
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.note_length();
        let held = &self.scans.held;
        drop(held.take(&mut self.hold));
        held.keep(&mut self.hold, 0);
    }
}

/// A leaf, by a key.
enum Probe {
    /// The leaf in whose range the key is.
    Holds(Vec<u8>),
    /// The leaf in whose range the keys just below it are.
    Before(Vec<u8>),
    /// The last leaf.
    Last,
}

/// What a scan looks at while it fills a batch.
struct View<'v> {
    trunk: &'v Trunk,
    version: &'v Version,
    list: Option<&'v MemtableList>,
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("wanted", &self.wanted)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Iter {
    /// A walk over `range` of the tree, and of memtables above it if there are any, for a reader at
    /// `at` to whom puts that expire at or before `now_ms` are gone.
    pub(crate) fn new(
        scans: &Arc<Scans>,
        memtables: Option<Arc<dyn Memtables>>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Iter {
        Iter {
            keyspace: Keyspace::new(&scans.trunk.options.schema),
            scans: Arc::clone(scans),
            memtables,
            wanted: Wanted {
                range,
                direction,
                at,
                now_ms,
                expected: 0,
                long_values: LongValues::default(),
            },
            segment: None,
            hold: Hold::default(),
            position: Position::Start,
            enters: true,
            batch: Batch::default(),
            ahead: 1,
            taken: 0,
            is_told: false,
            known: Known::default(),
            dead: 0,
            waded: 0,
            dead_run: DeadRun::new(direction),
        }
    }

    /// Goes before the first key at or behind `key`, in the iterator's direction.
    pub fn seek(&mut self, key: &[u8]) {
        self.note_length();
        self.position = Position::At(key.to_vec());
        self.enters = true;
        self.segment = None;
        drop(self.scans.held.take(&mut self.hold));
        self.batch.clear();
        self.ahead = 1;
        (self.dead, self.waded) = (0, 0);
        self.dead_run.leave();
    }

    /// Announces that about `records` records will be taken: what they need is read at once,
    /// instead of more and more ahead as a scan goes on.
    pub fn expect(&mut self, records: usize) {
        self.wanted.expected = records;
        self.is_told = true;
    }

    /// A scan ends: others will be about as long.
    fn note_length(&mut self) {
        let taken = std::mem::take(&mut self.taken) + self.batch.taken();
        if taken > 0 {
            self.scans.usual.note(taken);
        }
    }

    /// Returns the next key that has a value, and the value.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt). Asked again, it
    /// tries again.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.batch.is_over() {
            self.refill()?;
        }
        Ok(self.batch.take())
    }

    /// Decides the next records, at least one if there is any.
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
        while self.batch.len() == 0 && !matches!(self.position, Position::End) {
            let filled = self.fill();
            if let Err(error) = filled {
                self.dead_run.leave();
                if let Some(segment) = self.segment.take() {
                    self.position = segment.position();
                }
                // What was decided before is right; the error comes again when there is nothing
                // else.
                if self.batch.len() == 0 {
                    return Err(error);
                }
            }
        }
        self.ahead = (2 * self.ahead).min(MAX_AHEAD);
        self.wanted.expected = self.wanted.expected.saturating_sub(self.batch.len());
        self.end_batch();
        Ok(())
    }

    /// Returns whether what it goes on from is still in memory.
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
            Some(most) => self.batch.want_little(self.ahead.min(most)),
            None => self.batch.want(self.ahead),
        }
    }

    /// Hands out long values as empty ones from now on.
    pub(in crate::tiered) fn leave_out_long_values(&mut self) {
        self.wanted.long_values = LongValues::LeftOut;
    }

    /// Keeps what is worth it until the next call, as far as all scans together may.
    fn end_batch(&mut self) {
        if self.batch.len() == 0 {
            self.batch = Batch::default();
        }
        let held = &self.scans.held;
        let batch = self.batch.memory_bytes();
        let segment = self.segment.as_deref().map_or(0, Segment::memory_bytes);
        if held.keep(&mut self.hold, batch + segment) {
            return;
        }
        self.known = Known::default();
        held.keep(&mut self.hold, batch);
        if let Some(segment) = self.segment.take() {
            held.park(&mut self.hold, segment);
        }
    }

    /// Fills the batch from one version and the memtables above it, which are let go afterwards.
    fn fill(&mut self) -> Result<()> {
        let scans = Arc::clone(&self.scans);
        let trunk = &*scans.trunk;
        // What leaves the list from here on is in the version.
        let list = self.memtables.as_ref().map(|memtables| memtables.newest_first());
        // What the version refers to stays while this guard is pinned.
        let guard = trunk.store.epochs().pin();
        let version = trunk.peek();
        let view = View {
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
        let from = Blocking {
            cache: trunk.store.cache(),
            guard: &guard,
            purpose: Purpose::Scan,
        };
        let mut filled = self.fill_from(&view, &from);
        if let Err((key, error)) = apart::bring(&mut self.batch, &from) {
            self.segment = None;
            self.position = Position::At(key);
            filled = Err(error);
        }
        if let Some(segment) = &mut self.segment {
            segment.detach();
        }
        filled
    }

    fn fill_from(&mut self, view: &View<'_>, from: &Blocking<'_>) -> Result<()> {
        let mut breath = 0;
        loop {
            if self.segment.is_none() && !self.open(view)? {
                self.end_dead_run();
                return Ok(());
            }
            while let Some(segment) = &mut self.segment
                && let Some(key) = segment.next_key()
            {
                if self.batch.is_full() || breath >= BREATH {
                    self.position = Position::At(key.to_vec());
                    self.dead_run
                        .note(self.memtables.as_deref(), self.wanted.moment());
                    return Ok(());
                }
                let (wanted, known, batch) = (&self.wanted, &mut self.known, &mut self.batch);
                let taken = segment.take(wanted, known, &mut self.keyspace, from, batch)?;
                debug_assert!(self.waded <= self.dead, "what was waded through is dead");
                if taken == Taken::Live {
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

    /// A key without a value was taken: a walk through many of them finds a way around.
    fn pass_dead(&mut self, taken: Taken, view: &View<'_>) -> Result<()> {
        let Some(segment) = &mut self.segment else {
            return Ok(());
        };
        let wanted = &self.wanted;
        self.dead += 1;
        if taken == Taken::Waded {
            self.waded += 1;
            if self.waded == WADING {
                view.trunk.usage.note_wading(segment.key());
            }
        }
        self.dead_run
            .pass(segment.key(), self.known.expires(), &wanted.range);
        let empty = self.memtables.as_deref().and_then(Memtables::empty_ranges);
        if let Some(empty) = empty.filter(|_| self.dead_run.may_leap())
            && let Some(range) = self.dead_run.leap(empty, wanted.moment())
        {
            segment.leap(&range, wanted.direction)?;
        }
        if self.dead.is_multiple_of(PATIENCE) {
            segment.skip(wanted)?;
        }
        Ok(())
    }

    fn end_dead_run(&mut self) {
        self.dead_run.end(self.memtables.as_deref(), self.wanted.moment());
    }

    /// Leaps over a range at the position that has no keys with a value.
    fn leap(&mut self) {
        let empty = self.memtables.as_deref().and_then(Memtables::empty_ranges);
        if let Some(empty) = empty.filter(|empty| !empty.is_empty())
            && let Some(range) = self.position.empty_range(&self.wanted, empty)
        {
            self.dead_run.leapt(&range);
            self.position = match self.wanted.direction {
                Direction::Forward => Position::At(range.end.into_vec()),
                Direction::Backward => Position::Behind(range.start.into_vec()),
            };
        }
    }

    /// Opens the leaf where the position is; none when the range ends before.
    fn open(&mut self, view: &View<'_>) -> Result<bool> {
        self.leap();
        let Some(probe) = self.probe() else {
            self.position = Position::End;
            return Ok(false);
        };
        let leaf = leaf_of(&view.version.root, &probe);
        if leaf.range.intersect(&self.wanted.range).is_empty() {
            self.position = Position::End;
            return Ok(false);
        }
        if std::mem::take(&mut self.enters) {
            view.trunk.usage.note_scan(leaf);
        }
        let range = leaf.range.intersect(&self.wanted.range);
        let shares = shares(view.version, leaf, &range);
        let segment = Segment::open(
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

    /// Returns where the leaf to be opened is; none when there is nothing left.
    fn probe(&self) -> Option<Probe> {
        let range = &self.wanted.range;
        let before_the_end = || match &range.high {
            Some(high) => Probe::Before(high.to_vec()),
            None => Probe::Last,
        };
        match (&self.position, self.wanted.direction) {
            (Position::End, _) => None,
            (Position::Start, Direction::Forward) => Some(Probe::Holds(range.low.to_vec())),
            (Position::Start, Direction::Backward) => Some(before_the_end()),
            (Position::At(key) | Position::Behind(key), Direction::Forward) => {
                let key = key.as_slice().max(&range.low);
                (!range.ends_before(key)).then(|| Probe::Holds(key.to_vec()))
            }
            (Position::At(key) | Position::Behind(key), Direction::Backward) if **key < *range.low => None,
            (Position::At(key) | Position::Behind(key), Direction::Backward) if range.ends_before(key) => {
                Some(before_the_end())
            }
            (Position::At(key), Direction::Backward) => Some(Probe::Holds(key.clone())),
            (Position::Behind(key), Direction::Backward) => Some(Probe::Before(key.clone())),
        }
    }

    /// Goes beyond the leaf that was walked through.
    fn leave(&mut self) {
        let Some(segment) = self.segment.take() else {
            return;
        };
        self.position = match self.wanted.direction {
            Direction::Forward => match segment.range.high {
                Some(high) if !self.wanted.range.ends_before(&high) => Position::At(high.into_vec()),
                _ => Position::End,
            },
            Direction::Backward if segment.range.low <= self.wanted.range.low => Position::End,
            Direction::Backward => Position::Behind(segment.range.low.into_vec()),
        };
    }
}

/// Returns the leaf that a scan enters.
fn leaf_of<'v>(root: &'v Node, probe: &Probe) -> &'v Node {
    let mut node = root;
    loop {
        let pivot = match probe {
            Probe::Last => node.pivots.len() - 1,
            Probe::Holds(key) => node.pivot_for(key),
            Probe::Before(key) => {
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
