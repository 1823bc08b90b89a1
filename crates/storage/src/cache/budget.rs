//! Tracks the memory use of a cache, and computes how many chunks the budget allows.

use super::geometry::ArenaGeometry;
use super::page_table::PageTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// At least 1/`RESERVE_FRACTION` of the budget is reserved for private nodes, scratch memory and
/// the bookkeeping of reads in flight.
const RESERVE_FRACTION: u64 = 32;
const _: () = assert!(RESERVE_FRACTION > 1, "the reserve is a part of the budget");

/// The memory that a cache uses, by purpose. All values are in bytes.
#[derive(Debug)]
pub(super) struct CacheBudget {
    limit: AtomicU64,
    /// Size of the cache's own structures, regardless of its contents.
    fixed: u64,
    /// Nodes in heap memory, for which no frame was available when they were read.
    private: AtomicU64,
    /// Scratch memory and the bookkeeping of reads in flight.
    working: AtomicU64,
}

impl CacheBudget {
    pub(super) fn new(limit: u64, fixed: u64) -> Arc<CacheBudget> {
        Arc::new(CacheBudget {
            limit: AtomicU64::new(limit),
            fixed,
            private: AtomicU64::new(0),
            working: AtomicU64::new(0),
        })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(super) fn fixed(&self) -> u64 {
        self.fixed
    }

    pub(super) fn private(&self) -> u64 {
        self.private.load(Ordering::Relaxed)
    }

    pub(super) fn working(&self) -> u64 {
        self.working.load(Ordering::Relaxed)
    }

    fn reserve(limit: u64, geometry: &ArenaGeometry) -> u64 {
        let largest = geometry.cut(super::geometry::CLASSES - 1).frame_bytes as u64;
        (limit / RESERVE_FRACTION).max(2 * largest)
    }

    /// Returns the maximum number of chunks for a budget of `limit` bytes, and the number of frames
    /// for which to size the page table.
    pub(super) fn shape(limit: u64, fixed: u64, geometry: &ArenaGeometry) -> (u64, usize) {
        let frames = (limit / geometry.chunk_cost()) as usize * geometry.max_frames();
        let rest = limit
            .saturating_sub(fixed)
            .saturating_sub(Self::reserve(limit, geometry))
            .saturating_sub(PageTable::bytes_for(frames));
        ((rest / geometry.chunk_cost()).min(geometry.max_chunks()), frames)
    }

    /// Returns how many chunks the budget allows at present. Heap memory in excess of the reserve
    /// reduces this number.
    pub(super) fn chunks(&self, table_bytes: u64, geometry: &ArenaGeometry) -> u64 {
        let limit = self.limit();
        let heap = (self.private() + self.working()).max(Self::reserve(limit, geometry));
        let rest = limit
            .saturating_sub(self.fixed)
            .saturating_sub(heap)
            .saturating_sub(table_bytes);
        (rest / geometry.chunk_cost()).min(geometry.max_chunks())
    }
}

/// What the memory of a [`BudgetCharge`] is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargePurpose {
    Private,
    Working,
}

/// Bytes that are charged to a budget until this value is dropped.
#[derive(Debug)]
pub(super) struct BudgetCharge {
    budget: Arc<CacheBudget>,
    owner: ChargePurpose,
    bytes: u64,
}

impl BudgetCharge {
    pub(super) fn new(budget: &Arc<CacheBudget>, owner: ChargePurpose, bytes: u64) -> BudgetCharge {
        let charge = BudgetCharge {
            budget: Arc::clone(budget),
            owner,
            bytes,
        };
        let before = charge.counter().fetch_add(bytes, Ordering::Relaxed);
        debug_assert!(before.checked_add(bytes).is_some(), "charges are counted (C5)");
        charge
    }

    fn counter(&self) -> &AtomicU64 {
        match self.owner {
            ChargePurpose::Private => &self.budget.private,
            ChargePurpose::Working => &self.budget.working,
        }
    }
}

impl Drop for BudgetCharge {
    fn drop(&mut self) {
        let before = self.counter().load(Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "a charge is taken back once");
        self.counter().fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Part of a cache's budget, [reserved](super::NodeCache::try_reserve) for a reader until this
/// value is dropped.
#[derive(Debug)]
pub struct Reservation {
    _charge: BudgetCharge,
}

impl Reservation {
    pub(super) fn new(budget: &Arc<CacheBudget>, bytes: u64) -> Reservation {
        Reservation {
            _charge: BudgetCharge::new(budget, ChargePurpose::Working, bytes),
        }
    }
}
