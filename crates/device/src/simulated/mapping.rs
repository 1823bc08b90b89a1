//! Mapped ranges, which are memory that a caller can change without a call.
//!
//! A store through a mapping is not an operation, so the world detects stores by comparison: a page
//! that differs from the file's content was modified. The world compares before an image, at a sync
//! and when the mapping is dropped. At some operations, it also compares a page chosen by the seed,
//! just as a kernel may write back dirty pages at any time. Each modified page is a separate
//! change, which a crash keeps or loses independently of all others.

use super::content::{FileChange, FileContent, PAGE, PagePatch, SimPage, WHOLE, pages_of};
use super::file::differing;
use super::{SimDirectory, names::FileId};
use crate::{DeviceOperation, Error, MappingBacking, Result};
use alluvium_base::Purpose;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory for whole pages of a file, which never moves.
pub(super) struct RegionMemory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are reached only through raw copies. By the contract of `FileMapping::write`, a
// caller that stores through a mapping guarantees that nothing else touches that range of the file
// meanwhile.
unsafe impl Send for RegionMemory {}
// SAFETY: as above.
unsafe impl Sync for RegionMemory {}

impl RegionMemory {
    fn zeroed(len: usize) -> RegionMemory {
        let layout = Layout::from_size_align(len, PAGE as usize).expect("a mapping fits the machine");
        // SAFETY: `len` is a positive number of pages.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        RegionMemory {
            start: start.unwrap_or_else(|| handle_alloc_error(layout)),
            layout,
        }
    }

    /// Returns the page at byte offset `at`.
    fn page(&self, at: usize) -> &[u8] {
        assert!(at + PAGE as usize <= self.layout.size());
        // SAFETY: the page is inside the allocation, as asserted above, and by the contract of the
        // mapping, nothing is stored into it meanwhile.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), PAGE as usize) }
    }

    fn copy_in(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.layout.size());
        // SAFETY: the range is inside the allocation, as asserted above, and `bytes` is other
        // memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) }
    }

    fn copy_out(&self, at: usize, out: &mut [u8]) {
        assert!(at + out.len() <= self.layout.size());
        // SAFETY: as in `copy_in`.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(at), out.as_mut_ptr(), out.len()) }
    }
}

impl Drop for RegionMemory {
    fn drop(&mut self) {
        // SAFETY: `zeroed` allocated the memory with this layout, and it is freed only once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A mapped range of whole pages, shared by the mappings inside it.
#[derive(Clone)]
pub(super) struct MappedRegion {
    /// Offset of the range in the file.
    pub(super) start: u64,
    pub(super) memory: Arc<RegionMemory>,
    users: u32,
}

impl MappedRegion {
    pub(super) fn new(range: &Range<u64>, content: &FileContent) -> MappedRegion {
        let start = range.start / PAGE * PAGE;
        let end = range.end.next_multiple_of(PAGE);
        let memory = RegionMemory::zeroed((end - start) as usize);
        for (page, _) in pages_of(start..end) {
            if let Some(data) = content.page(page) {
                memory.copy_in((page * PAGE - start) as usize, data.bytes());
            }
        }
        MappedRegion {
            start,
            memory: Arc::new(memory),
            users: 0,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.memory.layout.size() as u64
    }

    pub(super) fn pages(&self) -> u64 {
        self.memory.layout.size() as u64 / PAGE
    }

    /// Adds a mapping that uses the region. Returns the address of the file's byte `offset`.
    pub(super) fn join(&mut self, offset: u64) -> NonNull<u8> {
        self.users += 1;
        let at = (offset - self.start) as usize;
        assert!(at < self.memory.layout.size());
        // SAFETY: the result is inside the allocation, as asserted above.
        unsafe { self.memory.start.add(at) }
    }

    /// Returns the sectors of a page that differ from `content`, if any. Bytes beyond the end of
    /// the file are ignored.
    pub(super) fn changed(&self, page: u64, content: &FileContent) -> Option<PagePatch> {
        if page * PAGE >= content.len() {
            return None;
        }
        let zeros = [0; PAGE as usize];
        let old = content.page(page);
        let before = old.map_or(&zeros, |data| data.bytes());
        let now = self.memory.page((page * PAGE - self.start) as usize);
        if now == before {
            return None;
        }
        let mask = differing(now, before);
        let mut data = old.map_or_else(|| Arc::new(SimPage::zeroed()), Arc::clone);
        let page_now = Arc::make_mut(&mut data);
        let end = (content.len() - page * PAGE).min(PAGE) as usize;
        page_now.write(0, &now[..end]);
        Some(PagePatch { page, mask, data })
    }

    /// Applies a change of the file to the memory.
    pub(super) fn follow(&self, change: &FileChange, len: u64) {
        match change {
            FileChange::Write(patches) => {
                for patch in patches {
                    self.take(patch);
                }
            }
            FileChange::Punch(range) => self.zero(range),
            FileChange::Truncate(to) => self.zero(&(*to..len)),
            FileChange::Grow(_) | FileChange::Allocate(_) => {}
        }
    }

    fn take(&self, patch: &PagePatch) {
        let start = patch.page * PAGE;
        if start < self.start || start >= self.end() {
            return;
        }
        let at = (start - self.start) as usize;
        for sector in (0..8).filter(|sector| patch.mask & 1 << sector != 0) {
            let bytes = &patch.data.bytes()[sector * 512..(sector + 1) * 512];
            self.memory.copy_in(at + sector * 512, bytes);
        }
    }

    fn zero(&self, range: &Range<u64>) {
        let both = range.start.max(self.start)..range.end.min(self.end());
        if both.start < both.end {
            let zeros = vec![0; (both.end - both.start) as usize];
            self.memory.copy_in((both.start - self.start) as usize, &zeros);
        }
    }

    /// Overlays the memory's bytes on those of a read.
    pub(super) fn copy_out(&self, offset: u64, out: &mut [u8]) {
        let both = offset.max(self.start)..(offset + out.len() as u64).min(self.end());
        if both.start < both.end {
            let to = (both.start - offset) as usize..(both.end - offset) as usize;
            self.memory
                .copy_out((both.start - self.start) as usize, &mut out[to]);
        }
    }
}

/// The backing of a [`FileMapping`](crate::FileMapping) of a simulated file.
pub(super) struct SimMapping {
    directory: SimDirectory,
    file: FileId,
    name: Arc<str>,
    /// The mapped range of the file.
    range: Range<u64>,
    memory: Arc<RegionMemory>,
    failed_syncs: u64,
}

impl SimMapping {
    pub(super) fn new(
        directory: SimDirectory,
        file: FileId,
        name: Arc<str>,
        range: Range<u64>,
        memory: Arc<RegionMemory>,
        failed_syncs: u64,
    ) -> SimMapping {
        SimMapping {
            directory,
            file,
            name,
            range,
            memory,
            failed_syncs,
        }
    }
}

impl MappingBacking for SimMapping {
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()> {
        assert!(
            range.start <= range.end && range.end <= self.range.end - self.range.start,
            "a sync of {range:?} of a mapping of {} bytes of {}",
            self.range.end - self.range.start,
            self.name
        );
        let range = self.range.start + range.start..self.range.start + range.end;
        self.directory
            .sync_mapped(self.file, &self.name, self.failed_syncs, &range, purpose)
    }

    fn populate(&self, _range: Range<u64>) -> Result<()> {
        if self.directory.shared.world.lock().crashed {
            let file = self.name.to_string();
            let operation = DeviceOperation::Map;
            return Err(Error::Crashed { operation, file });
        }
        Ok(())
    }
}

impl Drop for SimMapping {
    fn drop(&mut self) {
        let mut world = self.directory.shared.world.lock();
        world.notice(self.file, &(0..u64::MAX));
        let Some(file) = world.files.get_mut(&self.file) else {
            return;
        };
        file.handles -= 1;
        for region in &mut file.regions {
            region.users -= u32::from(Arc::ptr_eq(&region.memory, &self.memory));
        }
        file.regions.retain(|region| region.users > 0);
        let unmapped = file.regions.is_empty();
        if unmapped {
            world.mapped.retain(|&file| file != self.file);
        }
        world.collect(self.file);
    }
}

const _: () = assert!(WHOLE as usize == (1 << (PAGE as usize / 512)) - 1);
