//! Limits the memory that all scans together keep between calls.
//!
//! A scan keeps records that its caller has not read yet, and its segment. A segment has one cursor
//! per relevant run, and each cursor keeps a leaf and the index nodes above it. While all scans
//! together are below their limit, each one keeps its own segment. Above the limit, a scan parks
//! its segment here at the end of a call. If the parked segments need too much memory, the one
//! parked first is dropped. A scan that is called often finds its segment again, while one that has
//! been idle for long must seek back to its position. Above the limit, scans also use smaller
//! batches.

use super::ScanSegment;
use alluvium_dictionary::batch::FEW;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory that all scans keep. One half of the limit applies to the scans themselves, and the
/// other half to parked segments.
pub(crate) struct ScanMemory {
    /// Number of bytes that all scans keep, not including parked segments.
    own: AtomicU64,
    limit: AtomicU64,
    parked: Mutex<ParkedSegments>,
}

/// The parked segments with their sizes in bytes, by ticket number. Ticket numbers ascend in the
/// order of parking.
#[derive(Default)]
struct ParkedSegments {
    segments: BTreeMap<u64, (Box<ScanSegment>, u64)>,
    bytes: u64,
    tickets: u64,
}

/// The memory that a single scan keeps.
#[derive(Debug, Default)]
pub(crate) struct ScanMemoryUse {
    bytes: u64,
    ticket: Option<u64>,
}

impl Default for ScanMemory {
    fn default() -> ScanMemory {
        ScanMemory {
            own: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            parked: Mutex::default(),
        }
    }
}

impl ScanMemory {
    fn half(&self) -> u64 {
        self.limit.load(Ordering::Relaxed) / 2
    }

    /// Returns the maximum number of records in a batch while the scans' own memory exceeds half of
    /// the limit, or `None` while it does not. The larger the excess, the smaller the maximum, down
    /// to one.
    pub(crate) fn most_ahead(&self) -> Option<usize> {
        let (own, half) = (self.own.load(Ordering::Relaxed), self.half());
        (own > half).then(|| (FEW as u64 * half / own).max(1) as usize)
    }

    /// Sets the number of bytes that a scan keeps, not including a parked segment, to `bytes`.
    /// Returns whether the scans' own memory is within half of the limit.
    pub(crate) fn keep(&self, hold: &mut ScanMemoryUse, bytes: u64) -> bool {
        let before = std::mem::replace(&mut hold.bytes, bytes);
        let change = bytes.wrapping_sub(before);
        let own = match change {
            0 => self.own.load(Ordering::Relaxed),
            _ => self.own.fetch_add(change, Ordering::Relaxed).wrapping_add(change),
        };
        own <= self.half()
    }

    /// Parks the segment of a scan until the scan takes it back, or until it is dropped because the
    /// parked segments need too much memory.
    #[cold]
    pub(crate) fn park(&self, hold: &mut ScanMemoryUse, segment: Box<ScanSegment>) {
        let (bytes, most) = (segment.memory_bytes(), self.half());
        let mut parked = self.parked.lock();
        parked.tickets += 1;
        let ticket = parked.tickets;
        debug_assert!(hold.ticket.is_none(), "a scan parks one segment");
        parked.segments.insert(ticket, (segment, bytes));
        parked.bytes += bytes;
        let mut given_up = Vec::new();
        while parked.bytes > most
            && parked.segments.len() > 1
            && let Some((_, (segment, bytes))) = parked.segments.pop_first()
        {
            assert!(parked.bytes >= bytes, "what is parked is counted");
            parked.bytes -= bytes;
            given_up.push(segment);
        }
        drop(parked);
        hold.ticket = Some(ticket);
    }

    #[cfg(test)]
    pub(crate) fn has(&self, hold: &ScanMemoryUse) -> bool {
        let parked = self.parked.lock();
        hold.ticket
            .is_some_and(|ticket| parked.segments.contains_key(&ticket))
    }

    /// Returns the parked segment of a scan, or `None` if it has none or it has been dropped.
    pub(crate) fn take(&self, hold: &mut ScanMemoryUse) -> Option<Box<ScanSegment>> {
        let ticket = take(&mut hold.ticket)?;
        let mut parked = self.parked.lock();
        let (segment, bytes) = parked.segments.remove(&ticket)?;
        assert!(parked.bytes >= bytes, "what is parked is counted");
        parked.bytes -= bytes;
        Some(segment)
    }

    /// Sets the maximum number of bytes that all scans together may keep between calls.
    pub(crate) fn limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes that all scans keep, including parked segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.own.load(Ordering::Relaxed) + self.parked.lock().bytes
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use crate::tiered::{StepProgress, TieredTree, TreeIter, TreeOptions};
    use alluvium_base::Message;
    use alluvium_base::message::MAX_SEQUENCE;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_dictionary::memtable::Memtable;
    use alluvium_dictionary::merge::MergeDirection;
    use alluvium_dictionary::range::KeyRange;
    use alluvium_storage::extents::AllocationClass;
    use alluvium_storage::store::{Store, StoreOptions};
    use std::sync::Arc;

    const RUNS: u64 = 5;
    const RECORDS: u64 = 2000;

    /// Returns a tree with several runs, whose keys are interleaved.
    fn tree() -> TieredTree {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Arc::new(Store::create(directory, &StoreOptions::default(), b"").unwrap());
        let tree = TieredTree::create(store, TreeOptions::default());
        for run in 0..RUNS {
            let memtable = Memtable::new(1 << 20);
            for number in (run..RECORDS).step_by(RUNS as usize) {
                let value = [run as u8; 100];
                let message = Message::put(run * RECORDS + number + 1, &value);
                memtable.insert(&number.to_be_bytes(), message).unwrap();
            }
            let cut = (run + 1) * RECORDS;
            let mut writing = tree
                .incorporate(Arc::new(memtable), cut, AllocationClass::Normal)
                .unwrap();
            while writing.poll(1000).unwrap() == StepProgress::More {}
        }
        tree
    }

    fn walk(tree: &TieredTree, direction: MergeDirection) -> TreeIter {
        tree.iter(KeyRange::everything(), direction, MAX_SEQUENCE, 0)
    }

    #[test]
    fn scans_find_everything_however_little_they_may_hold() {
        let tree = tree();
        for limit in [u64::MAX, 200_000, 0] {
            tree.limit_scans(limit);
            for direction in [MergeDirection::Forward, MergeDirection::Backward] {
                let mut walks: Vec<TreeIter> = (0..20).map(|_| walk(&tree, direction)).collect();
                for step in 0..RECORDS {
                    let number = match direction {
                        MergeDirection::Forward => step,
                        MergeDirection::Backward => RECORDS - 1 - step,
                    };
                    for walk in &mut walks {
                        let (key, value) = walk.next().unwrap().expect("there are more");
                        assert_eq!(
                            (key, value),
                            (&number.to_be_bytes()[..], &[(number % RUNS) as u8; 100][..])
                        );
                    }
                }
                for walk in &mut walks {
                    assert!(walk.next().unwrap().is_none());
                }
                assert_eq!(tree.scans_hold(), 0, "at its end a scan holds nothing");
            }
        }
    }

    #[test]
    fn what_scans_hold_stays_within_their_limit() {
        let tree = tree();
        let hold = |walks: &mut Vec<TreeIter>| {
            for number in 0..500u64 {
                let mut walk = walk(&tree, MergeDirection::Forward);
                walk.seek(&(number * 3).to_be_bytes());
                assert!(walk.next().unwrap().is_some());
                walks.push(walk);
            }
            tree.scans_hold()
        };
        let mut walks = Vec::new();
        let free = hold(&mut walks);
        assert!(free > 500 * 15_000, "{free} bytes: a leaf of each run");
        drop(walks);
        assert_eq!(tree.scans_hold(), 0);
        const LIMIT: u64 = 1_000_000;
        tree.limit_scans(LIMIT);
        let mut walks = Vec::new();
        let held = hold(&mut walks);
        assert!(held < LIMIT + 500 * 1500, "{held} bytes");
        // The active scan finds its segment again, however much memory the other scans keep.
        let last = walks.last_mut().unwrap();
        for _ in 0..100 {
            last.next().unwrap();
            assert!(last.is_ready(), "it would have to find its place anew");
        }
        drop(walks);
        assert_eq!(tree.scans_hold(), 0);
    }
}
