//! Space of free pages goes back to the file system.
//!
//! A free page keeps its first block, which says that it is free and which one follows. Behind that
//! are zeros: a hole there changes nothing of what is read. A page may be gone back to as it was in
//! use, and needs its space then; so only pages that are free in the last durable checkpoint, too,
//! get holes. Before such a page is used again it gets space, where a full disk is met.

use super::format::read_free;
use super::pool::Pool;
use super::{PAGE_HEADER, PageBuffer};
use alluvium_storage::Result;
use std::collections::BTreeSet;

/// The block of a file system: less is not given back.
const BLOCK: usize = 4096;
/// Free pages that keep their space, for what is written next: these, and a part of all pages.
const KEPT: usize = 512;
const KEPT_PART: u64 = 16;
const _: () = assert!(KEPT > 0 && KEPT_PART > 0, "what is written next has pages");

impl Pool {
    /// Returns whether a page has more than the block that it keeps.
    pub(super) fn gives_space_back(&self) -> bool {
        self.options.page_bytes > BLOCK
    }

    /// Gives space of pages back that are free, and were free in the checkpoint before, which
    /// `is_durable`, but for those that are taken first. What fails is tried again after the next
    /// checkpoint.
    pub(in crate::paged) fn give_space_back(&self, is_durable: bool) {
        if !self.gives_space_back() {
            return;
        }
        let free: Vec<u64> = self.segments.lock().free_in_order().collect();
        let before = std::mem::replace(
            &mut *self.free_before.lock(),
            free.iter().copied().collect::<BTreeSet<u64>>(),
        );
        if !is_durable {
            return;
        }
        let unlikely = free.into_iter().skip(self.kept_free());
        for page in unlikely.filter(|page| before.contains(page)) {
            if self.segments.lock().is_hole(page) {
                continue;
            }
            if !self.punch(page).unwrap_or(false) {
                return;
            }
        }
    }

    /// Returns how many free pages keep their space.
    fn kept_free(&self) -> usize {
        KEPT + (self.segments.lock().high_water() / KEPT_PART) as usize
    }

    /// Returns about how many bytes of free pages two more checkpoints would give back to the file
    /// system.
    #[must_use]
    pub fn returnable_bytes(&self) -> u64 {
        if !self.gives_space_back() {
            return 0;
        }
        let free = self.segments.lock().free_with_space();
        let more = free.saturating_sub(self.kept_free());
        (more * (self.options.page_bytes - BLOCK)) as u64
    }

    /// Gives the space of a free page back. Returns whether it could.
    fn punch(&self, page: u64) -> Result<bool> {
        let content = self.pin_shared(page)?;
        let rest = content.get(BLOCK - PAGE_HEADER..).unwrap_or_default();
        // Pages that earlier versions freed have what was in them, and keep it.
        if read_free(&content).is_none() || rest.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
        let end = self.offset(page + 1);
        let mut segments = self.segments.lock();
        segments.note_holes([page]);
        self.device.punch_hole(self.offset(page) + BLOCK as u64..end)?;
        Ok(true)
    }
}
