//! The current page table, and its replacement by one of another size during concurrent lookups.
//!
//! During a replacement there are two tables: the older one is moved bucket by bucket into the
//! newer. A frame is put into the newer table before its word is removed from the older, and
//! lookups search the older first, so they miss nothing. Insertions use the newer table only. A
//! replaced table is dropped two epochs later.

use super::frame::FrameId;
use super::page_table::{PageTable, PageTableLookup, PageTableUpdate};
use crate::{EpochGuard, Epochs, Result};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The tables: one, or two during a replacement.
#[derive(Debug)]
pub(super) struct ResizablePageTable {
    in_use: CachePadded<TablePointers>,
    /// Replaced tables that wait for their epoch. The lock is held during a replacement.
    replaced: Mutex<Vec<(u64, Box<PageTable>)>>,
    /// Memory of all tables in bytes, including replaced ones.
    bytes: AtomicU64,
}

/// Read by every lookup, written only by replacements.
#[derive(Debug)]
struct TablePointers {
    current: AtomicPtr<PageTable>,
    /// Null except during a replacement.
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

    /// Returns the memory of all tables in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    #[inline]
    fn current<'g>(&self, _guard: &'g EpochGuard) -> &'g PageTable {
        // SAFETY: a table is dropped two epochs after it left `current` and `older`, and the guard
        // lives for 'g.
        unsafe { &*self.in_use.current.load(Ordering::Acquire) }
    }

    #[inline]
    fn older<'g>(&self, _guard: &'g EpochGuard) -> Option<&'g PageTable> {
        // SAFETY: as in `current`; null is `None`.
        unsafe { self.in_use.older.load(Ordering::Acquire).as_ref() }
    }

    /// Prefetches the bucket that a lookup of this hash reads first. This is a hint.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64, guard: &EpochGuard) {
        self.current(guard).prefetch(hash);
    }

    /// Returns the frame with this hash that `is_it` accepts.
    #[inline]
    pub(super) fn find(
        &self,
        hash: u64,
        guard: &EpochGuard,
        mut is_it: impl FnMut(FrameId) -> bool,
    ) -> Option<FrameId> {
        loop {
            // `current` is loaded before `older`: a reader that sees the newer table as current
            // also sees the older one as older.
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

    /// Adds a word. Returns whether a word was free for it.
    pub(super) fn insert(&self, hash: u64, frame: FrameId, guard: &EpochGuard) -> bool {
        loop {
            match self.current(guard).insert(hash, frame) {
                PageTableUpdate::Made => return true,
                PageTableUpdate::Unchanged => return false,
                PageTableUpdate::Moved => {}
            }
        }
    }

    /// Removes a frame's word. Returns whether this call removed it.
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

    /// Replaces the table by one for `frames` frames. `hash_of` returns the hash of a frame's node.
    /// `no_room` is called with each frame that did not fit in the new table; such frames are then
    /// in neither.
    ///
    /// # Errors
    /// If the system refuses the memory. Nothing has changed then.
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
        // SAFETY: it came from `Box::into_raw`, and it has just left the last place that named it.
        replaced.push((epochs.current(), unsafe { Box::from_raw(older) }));
        drop(replaced);
        drop(guard);
        self.drop_replaced(epochs);
        Ok(())
    }

    /// Drops the replaced tables that no reader can reach any more.
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
        // SAFETY: it came from `Box::into_raw`, and no reader can look at it any more: `self` is
        // exclusive.
        drop(unsafe { Box::from_raw(*self.in_use.current.get_mut()) });
    }
}
