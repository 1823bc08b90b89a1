//! Scans the pages, merged with the memtables above them. Pairs are read in batches, because the
//! state at one sequence number does not change between batches.

use super::PagedDictionary;
use super::format::PagedEntry;
use crate::map::in_memtable;
use crate::paged::read::{PagedTreeScan, ScanBounds};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::contract;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::KeyState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::empty_ranges::DeadRun;
use alluvium_dictionary::memtables::{MemtableOwner, above};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Maximum number of pairs in a batch.
const TOGETHER: usize = 64;
/// Size in bytes at which a batch ends.
const BYTES: usize = 64 << 10;

type PagedPair = (Vec<u8>, Vec<u8>);

/// An iterator over the keys in a range that have a value at a given sequence number.
pub struct PagedIter {
    paged: PagedDictionary,
    memtables: Arc<dyn MemtableOwner>,
    /// The part of the range that has not been visited yet.
    range: KeyRange,
    whole: KeyRange,
    direction: MergeDirection,
    at: SequenceNumber,
    now_ms: u64,
    known: KeyState,
    found: VecDeque<PagedPair>,
    current: PagedPair,
    is_done: bool,
    /// The current sequence of keys without a value.
    dead_run: DeadRun,
    long_values: LongValues,
}

impl fmt::Debug for PagedIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedIter")
            .field("range", &self.range)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

impl PagedIter {
    pub(super) fn new(
        paged: &PagedDictionary,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> PagedIter {
        PagedIter {
            paged: paged.clone(),
            memtables,
            whole: range.clone(),
            range,
            direction,
            at,
            now_ms,
            known: KeyState::default(),
            found: VecDeque::new(),
            current: PagedPair::default(),
            is_done: false,
            dead_run: DeadRun::new(direction),
            long_values: LongValues::default(),
        }
    }

    /// Removes a key from the rest of the range, and all keys before it in the direction of the
    /// scan.
    fn pass(&mut self, key: &[u8]) {
        assert!(self.range.contains(key), "a walk does not go back");
        match self.direction {
            MergeDirection::Forward => self.range.low = [key, &[0]].concat().into(),
            MergeDirection::Backward => self.range.high = Some(key.into()),
        }
    }

    /// If the position is in a range known to contain no live keys, skips that range.
    fn leap(&mut self) {
        let Some(empty) = self.memtables.empty_ranges() else {
            return;
        };
        let moment = (self.at, self.now_ms);
        let found = match (self.direction, &self.range.high) {
            (MergeDirection::Forward, _) => empty.around(&self.range.low, moment),
            (MergeDirection::Backward, Some(high)) => empty.below(high, moment),
            (MergeDirection::Backward, None) => None,
        };
        if let Some(found) = found {
            self.dead_run.leapt(&found);
            match self.direction {
                MergeDirection::Forward => self.range.low = found.end,
                MergeDirection::Backward => self.range.high = Some(found.start),
            }
        }
    }

    /// Reads the next batch of pairs.
    fn fill(&mut self) -> Result<()> {
        self.leap();
        let filled = self.fill_from_here();
        if filled.is_err() {
            self.dead_run.leave();
        }
        filled
    }

    fn fill_from_here(&mut self) -> Result<()> {
        debug_assert!(
            self.found.is_empty() && !self.is_done,
            "there may be more to find"
        );
        // Read the list of memtables before the pages: a memtable that leaves the list afterwards
        // has been written into the pages.
        let list = self.memtables.newest_first();
        let paged = self.paged.clone();
        let _inside = paged.shared.gate.read();
        let cut = paged.at();
        let memtables: Vec<&Arc<Memtable>> = above(Some(&list), cut, self.at).collect();
        let mut scan = PagedTreeScan::new(
            paged.core(),
            ScanBounds {
                from: Some(self.range.low.to_vec()),
                below: self.range.high.as_ref().map(|high| high.to_vec()),
            },
        );
        let mut own = paged.poison_on_error(step(&mut scan, self.direction))?;
        let mut bytes = 0;
        for _ in 0..4 * TOGETHER {
            if self.found.len() >= TOGETHER || bytes >= BYTES {
                return Ok(());
            }
            let next = self.next_key(own.as_ref(), &memtables);
            let moment = (self.at, self.now_ms);
            let Some(key) = next else {
                self.dead_run.end(Some(&*self.memtables), moment);
                self.is_done = true;
                return Ok(());
            };
            let value = match own.take_if(|(own, _)| *own == key) {
                Some((_, value)) => {
                    own = paged.poison_on_error(step(&mut scan, self.direction))?;
                    Some(value)
                }
                None => None,
            };
            if let Some(value) = self.value_of(&key, value.as_deref(), &memtables, cut)? {
                bytes += key.len() + value.len();
                self.dead_run.end(Some(&*self.memtables), moment);
                let value = self.long_values.shown(&value).to_vec();
                self.found.push_back((key.clone(), value));
                self.pass(&key);
                continue;
            }
            self.dead_run.pass(&key, self.known.expires(), &self.whole);
            self.pass(&key);
            let looks = self.dead_run.may_leap();
            let empty = self.memtables.empty_ranges().filter(|_| looks);
            if empty.is_some_and(|empty| empty.around(&key, moment).is_some()) {
                // A range without live keys follows, so let the scan continue after it.
                return Ok(());
            }
        }
        self.dead_run.note(Some(&*self.memtables), (self.at, self.now_ms));
        Ok(())
    }

    /// Returns the next key of the range that is in the pages or in a memtable, or `None` if there
    /// is none.
    fn next_key(&self, own: Option<&PagedPair>, memtables: &[&Arc<Memtable>]) -> Option<Vec<u8>> {
        if self.range.is_empty() {
            return None;
        }
        let low = Bound::Included(&*self.range.low);
        let high = match &self.range.high {
            Some(high) => Bound::Excluded(&**high),
            None => Bound::Unbounded,
        };
        let others = memtables
            .iter()
            .filter_map(|memtable| in_memtable(memtable, [low, high], self.direction));
        let all = own.map(|(key, _)| key.clone()).into_iter().chain(others);
        match self.direction {
            MergeDirection::Forward => all.min(),
            MergeDirection::Backward => all.max(),
        }
    }

    fn value_of(
        &mut self,
        key: &[u8],
        own: Option<&[u8]>,
        memtables: &[&Arc<Memtable>],
        cut: SequenceNumber,
    ) -> Result<Option<Vec<u8>>> {
        let rules = self.paged.shared.home.schema.rules(key);
        let operator = rules.operator.as_deref();
        self.known.reset(self.at, self.now_ms);
        let hashed = LookupKey::new(key);
        for memtable in memtables {
            self.known.memtable(memtable, hashed, operator);
        }
        if let Some(own) = own.filter(|_| !self.known.is_decided()) {
            let entries = self.paged.poison_on_error(self.paged.entries(own))?;
            let has_expired = |entry: &PagedEntry| entry.expires_ms != 0 && entry.expires_ms <= self.now_ms;
            if entries.iter().any(has_expired) {
                self.paged.shared.expiring.note_passed(1);
            }
            for entry in entries.iter().filter(|entry| entry.sequence <= cut) {
                if self.known.message(&entry.message(), operator).is_break() {
                    break;
                }
            }
        }
        let settled = self.known.settle(operator);
        let value = settled.map_err(|bad| bad.under_operands_of(key))?;
        Ok(value.map(<[u8]>::to_vec))
    }
}

fn step(
    scan: &mut PagedTreeScan<'_, crate::paged::buffer::PagePool>,
    direction: MergeDirection,
) -> Result<Option<PagedPair>> {
    match direction {
        MergeDirection::Forward => scan.next_pair(),
        MergeDirection::Backward => scan.next_back(),
    }
}

impl contract::DictionaryScan for PagedIter {
    fn seek(&mut self, key: &[u8]) {
        self.found.clear();
        self.dead_run.leave();
        self.is_done = false;
        self.range = self.whole.clone();
        match self.direction {
            MergeDirection::Forward if *key > *self.range.low => self.range.low = key.into(),
            MergeDirection::Backward if !self.range.ends_before(key) => {
                self.range.high = Some([key, &[0]].concat().into());
            }
            _ => {}
        }
    }

    fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
    }

    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.found.is_empty() {
            if self.is_done {
                return Ok(None);
            }
            self.fill()?;
        }
        if let Some(pair) = self.found.pop_front() {
            assert!(self.whole.contains(&pair.0), "a scan stays in its range");
            self.current = pair;
        }
        Ok(Some((&self.current.0, self.long_values.shown(&self.current.1))))
    }
}
