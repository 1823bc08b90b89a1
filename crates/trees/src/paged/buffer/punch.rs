//! Releases the space of free pages to the file system.
//!
//! A free page keeps its first block, which marks it as free and contains the number of the next
//! page on the free list. The rest of the page is zeros, so punching a hole there does not change
//! what is read. A rollback may return the page to a state in which it was in use, and would then
//! need its space. Holes are therefore punched only in pages that were also free in the last
//! durable checkpoint. Before such a page is used again, its space is allocated, so a full disk is
//! noticed at that point.

use super::format::read_free;
use super::pool::PagePool;
use super::{PAGE_HEADER, PageBuffer};
use alluvium_storage::Result;
use std::collections::BTreeSet;

/// The block size of a file system in bytes: the smallest amount of space that can be released.
const BLOCK: usize = 4096;
/// Number of free pages that keep their space for the next writes. One in `KEPT_PART` of all pages
/// is added to it.
const KEPT: usize = 512;
const KEPT_PART: u64 = 16;
const _: () = assert!(KEPT > 0 && KEPT_PART > 0, "what is written next has pages");

impl PagePool {
    /// Returns whether pages are larger than the block that a free page keeps.
    pub(super) fn gives_space_back(&self) -> bool {
        self.options.page_bytes > BLOCK
    }

    /// Releases the space of pages that are free now and were also free in the previous checkpoint,
    /// if that checkpoint is durable. The pages that will be allocated first keep their space. If
    /// this fails, the next checkpoint tries again.
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

    /// Returns the number of free pages that keep their space.
    fn kept_free(&self) -> usize {
        KEPT + (self.segments.lock().high_water() / KEPT_PART) as usize
    }

    /// Returns about how many bytes two more checkpoints would release to the file system.
    #[must_use]
    pub fn returnable_bytes(&self) -> u64 {
        if !self.gives_space_back() {
            return 0;
        }
        let free = self.segments.lock().free_with_space();
        let more = free.saturating_sub(self.kept_free());
        (more * (self.options.page_bytes - BLOCK)) as u64
    }

    /// Releases a free page's space. Returns whether the caller may continue with the next page.
    fn punch(&self, page: u64) -> Result<bool> {
        let content = self.pin_shared(page)?;
        let rest = content.get(BLOCK - PAGE_HEADER..).unwrap_or_default();
        // Earlier versions of the software did not clear the pages that they freed. Such a page
        // keeps its space.
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
