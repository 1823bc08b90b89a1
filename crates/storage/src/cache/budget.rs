//! The byte budget: accounting of memory, and the number of chunks it allows.

use super::geometry::Geometry;
use super::table::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 1/`RESERVE_FRACTION` of the budget is reserved for private nodes, scratch memory and the records
/// of reads in flight.
const RESERVE_FRACTION: u64 = 32;
const _: () = assert!(RESERVE_FRACTION > 1, "the reserve is a part of the budget");

/// Memory accounting by owner. All counts are bytes.
#[derive(Debug)]
pub(super) struct Budget {
    limit: AtomicU64,
    /// Cost of the cache's own structures, independent of its contents.
    fixed: u64,
    /// Nodes in heap memory, read when no frame was available.
    private: AtomicU64,
    /// Scratch memory and the records of reads in flight.
    working: AtomicU64,
}

impl Budget {
    pub(super) fn new(limit: u64, fixed: u64) -> Arc<Budget> {
        Arc::new(Budget {
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

    fn reserve(limit: u64, geometry: &Geometry) -> u64 {
        let largest = geometry.cut(super::geometry::CLASSES - 1).frame_bytes as u64;
        (limit / RESERVE_FRACTION).max(2 * largest)
    }

    /// Returns the maximum number of chunks of a cache of `limit` bytes, and the number of frames
    /// that its page table is sized for.
    pub(super) fn shape(limit: u64, fixed: u64, geometry: &Geometry) -> (u64, usize) {
        let frames = (limit / geometry.chunk_cost()) as usize * geometry.max_frames();
        let rest = limit
            .saturating_sub(fixed)
            .saturating_sub(Self::reserve(limit, geometry))
            .saturating_sub(Table::bytes_for(frames));
        ((rest / geometry.chunk_cost()).min(geometry.max_chunks()), frames)
    }

    /// Returns the number of chunks currently allowed. Heap memory beyond the reserve reduces it.
    pub(super) fn chunks(&self, table_bytes: u64, geometry: &Geometry) -> u64 {
        let limit = self.limit();
        let heap = (self.private() + self.working()).max(Self::reserve(limit, geometry));
        let rest = limit
            .saturating_sub(self.fixed)
            .saturating_sub(heap)
            .saturating_sub(table_bytes);
        (rest / geometry.chunk_cost()).min(geometry.max_chunks())
    }
}

/// The purpose of a [`Charge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Private,
    Working,
}

/// Bytes charged to a budget until this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    owner: Owner,
    bytes: u64,
}

impl Charge {
    pub(super) fn new(budget: &Arc<Budget>, owner: Owner, bytes: u64) -> Charge {
        let charge = Charge {
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
            Owner::Private => &self.budget.private,
            Owner::Working => &self.budget.working,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let before = self.counter().load(Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "a charge is taken back once");
        self.counter().fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Memory of a [cache](super::Cache::lend) lent to a reader until this is dropped.
#[derive(Debug)]
pub struct Loan {
    _charge: Charge,
}

impl Loan {
    pub(super) fn new(budget: &Arc<Budget>, bytes: u64) -> Loan {
        Loan {
            _charge: Charge::new(budget, Owner::Working, bytes),
        }
    }
}
