//! A cache's page table, which can be replaced by one of another size during concurrent lookups.
//!
//! During a replacement there are two tables, and the older one is moved bucket by bucket to the
//! newer one. A frame is added to the newer table before it is removed from the older one, and
//! lookups search the older table first, so they find every frame. Insertions use only the newer
//! table. The replaced table is freed two epochs later.

use super::frame::FrameId;
use super::page_table::{PageTable, PageTableLookup, PageTableUpdate};
use crate::{EpochGuard, Epochs, Result};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The current table, and the older one during a replacement.
#[derive(Debug)]
pub(super) struct ResizablePageTable {
    in_use: CachePadded<TablePointers>,
    /// Replaced tables that wait for the epoch to advance, each with the epoch of its replacement.
    /// The lock is held during a replacement.
    replaced: Mutex<Vec<(u64, Box<PageTable>)>>,
    /// Total size of all tables in bytes, including replaced tables that are not freed yet.
    bytes: AtomicU64,
}

/// Pointers that every lookup reads but only a replacement writes.
#[derive(Debug)]
struct TablePointers {
    current: AtomicPtr<PageTable>,
    /// The table that is being replaced, or null if there is no replacement in progress.
    older: AtomicPtr<PageTable>,
}

impl ResizablePageTable {
    pub(super) fn new(frames: usize) -> Result<ResizablePageTable> {
        let table = Box::new(PageTable::new(frames)?);
        let bytes = AtomicU64::new(table.bytes());
        let in_use = TablePointers {
            current: AtomicPtr::new(Box::into_raw(table)),
            older: AtomicPtr::default(),
        };
        Ok(ResizablePageTable {
            in_use: CachePadded::new(in_use),
            replaced: Mutex::default(),
            bytes,
        })
    }

    /// Returns the total size of all tables in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    #[inline]
    fn current<'g>(&self, _guard: &'g EpochGuard) -> &'g PageTable {
        // SAFETY: a table is freed only two epochs after it was removed from `current` and `older`,
        // and the guard lives for `'g`.
        unsafe { &*self.in_use.current.load(Ordering::Acquire) }
    }

    #[inline]
    fn older<'g>(&self, _guard: &'g EpochGuard) -> Option<&'g PageTable> {
        // SAFETY: as in `current`. A null pointer results in `None`.
        unsafe { self.in_use.older.load(Ordering::Acquire).as_ref() }
    }

    /// Prefetches the first bucket that a lookup of this hash will read. This is only a hint.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64, guard: &EpochGuard) {
        self.current(guard).prefetch(hash);
    }

    /// Searches the frames whose tags match the hash, and returns the first for which `is_it`
    /// returns true.
    #[inline]
    pub(super) fn find(
        &self,
        hash: u64,
        guard: &EpochGuard,
        mut is_it: impl FnMut(FrameId) -> bool,
    ) -> Option<FrameId> {
        loop {
            // `current` is loaded before `older`, so a reader that sees the newer table in
            // `current` also sees the older one in `older`.
            let current = self.current(guard);
            if let Some(older) = self.older(guard)
                && let PageTableLookup::Frame(frame) = older.find(hash, &mut is_it)
            {
                return Some(frame);
            }
            match current.find(hash, &mut is_it) {
                PageTableLookup::Frame(frame) => return Some(frame),
                PageTableLookup::Nothing => return None,
                PageTableLookup::Moved => {}
            }
        }
    }

    /// Adds a frame. Returns `false` if there is no free word for it.
    pub(super) fn insert(&self, hash: u64, frame: FrameId, guard: &EpochGuard) -> bool {
        loop {
            match self.current(guard).insert(hash, frame) {
                PageTableUpdate::Made => return true,
                PageTableUpdate::Unchanged => return false,
                PageTableUpdate::Moved => {}
            }
        }
    }

    /// Removes a frame. Returns whether this call removed it.
    pub(super) fn remove(&self, hash: u64, frame: FrameId, guard: &EpochGuard) -> bool {
        loop {
            let current = self.current(guard);
            if let Some(older) = self.older(guard)
                && older.remove(hash, frame) == PageTableUpdate::Made
            {
                return true;
            }
            match current.remove(hash, frame) {
                PageTableUpdate::Made => return true,
                PageTableUpdate::Unchanged => return false,
                PageTableUpdate::Moved => {}
            }
        }
    }

    /// Replaces the table by one for `frames` frames. `hash_of` must return the hash of a frame's
    /// node. If the new table has no free word for a frame, `no_room` is called with the frame,
    /// which is then in neither table.
    ///
    /// # Errors
    /// If the operating system cannot provide the memory, in which case nothing has changed.
    pub(super) fn replace(
        &self,
        frames: usize,
        epochs: &Epochs,
        hash_of: impl Fn(FrameId) -> u64,
        mut no_room: impl FnMut(FrameId),
    ) -> Result<()> {
        let mut replaced = self.replaced.lock();
        let newer = Box::new(PageTable::new(frames)?);
        self.bytes.fetch_add(newer.bytes(), Ordering::Relaxed);
        let guard = epochs.pin();
        debug_assert!(self.older(&guard).is_none(), "one is replaced at a time");
        let older = self.in_use.current.load(Ordering::Acquire);
        self.in_use.older.store(older, Ordering::Release);
        self.in_use.current.store(Box::into_raw(newer), Ordering::Release);
        let (older, newer) = (self.older(&guard), self.current(&guard));
        let older = older.expect("it was just stored, and one thread replaces at a time");
        for bucket in 0..older.bucket_count() {
            older.move_bucket(bucket, |frame| {
                if newer.insert(hash_of(frame), frame) != PageTableUpdate::Made {
                    no_room(frame);
                }
            });
        }
        let older = self.in_use.older.swap(std::ptr::null_mut(), Ordering::AcqRel);
        assert!(!older.is_null(), "the older table is replaced once");
        // SAFETY: the pointer came from `Box::into_raw`, and it was just removed from the last
        // place that contained it.
        replaced.push((epochs.current(), unsafe { Box::from_raw(older) }));
        drop(replaced);
        drop(guard);
        self.drop_replaced(epochs);
        Ok(())
    }

    /// Frees the replaced tables that no reader can still access.
    pub(super) fn drop_replaced(&self, epochs: &Epochs) {
        if let Some(mut replaced) = self.replaced.try_lock() {
            replaced.retain(|(epoch, table)| {
                let keep = *epoch >= epochs.safe();
                if !keep {
                    debug_assert!(self.bytes() >= table.bytes(), "bytes of tables are counted");
                    self.bytes.fetch_sub(table.bytes(), Ordering::Relaxed);
                }
                keep
            });
        }
    }

    /// Calls `visit` with the current table, for `check`.
    pub(super) fn visit<R>(&self, guard: &EpochGuard, visit: impl FnOnce(&PageTable) -> R) -> R {
        visit(self.current(guard))
    }
}

impl Drop for ResizablePageTable {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw`. No reader can access the table, because
        // `self` is borrowed exclusively.
        drop(unsafe { Box::from_raw(*self.in_use.current.get_mut()) });
    }
}
