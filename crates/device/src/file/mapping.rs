//! The backing of a [`FileMapping`] of a real file.

use super::guard::MappingGuard;
use super::open_file::OpenFile;
use super::placement;
use super::sys::MappedPages;
use crate::{CacheMode, DeviceOperation, Error, FileMapping, MappingBacking, Result};
use alluvium_base::Purpose;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A mapped range of a file. The kernel maps whole pages, so slightly more than the range may be
/// mapped.
struct MappedRange {
    file: Arc<OpenFile>,
    /// Declared before the pages, so that it stops watching before they are unmapped.
    guard: MappingGuard,
    pages: MappedPages,
    /// Offset of the range in the file, in bytes.
    start: u64,
    /// Offset of the range within `pages`, in bytes.
    lead: usize,
    /// Length of the range in bytes.
    len: usize,
}

/// Maps a range of a buffered file.
pub(super) fn map(file: &Arc<OpenFile>, range: &Range<u64>) -> Result<FileMapping> {
    file.require_writable(DeviceOperation::Map)?;
    file.state.require_unpoisoned(DeviceOperation::Map, &file.name)?;
    if file.options.caching == CacheMode::Direct {
        return Err(unsupported(
            file,
            "a direct file has no page cache to share".to_owned(),
        ));
    }
    let failed = |errno| file.failed(DeviceOperation::Map, range.start, 0, errno);
    if let Some(why) = placement::objection(&file.descriptor).map_err(failed)? {
        return Err(unsupported(file, format!("{why}; write to the file instead")));
    }
    let len = range.end.saturating_sub(range.start);
    assert!(len > 0, "mapping nothing of {}", file.name);
    file.inside(DeviceOperation::Map, range.start, len)?;
    file.allocate_inside(range)
        .map_err(|errno| file.failed(DeviceOperation::Map, range.start, len, errno))?;
    let page = page_size() as u64;
    let from = range.start - range.start % page;
    let pages = MappedPages::map(
        file.descriptor.as_fd(),
        from,
        (range.end - from).next_multiple_of(page) as usize,
    )
    .map_err(failed)?;
    let lead = (range.start - from) as usize;
    // SAFETY: `lead` is less than a page, and the mapping is longer than that.
    let start = unsafe { pages.start().add(lead) };
    let backing = Arc::new(MappedRange {
        file: Arc::clone(file),
        guard: MappingGuard::of(&pages),
        pages,
        start: range.start,
        lead,
        len: len as usize,
    });
    let mark = backing.guard.mark();
    // SAFETY: `start..start + len` is inside `pages`, which the backing owns.
    Ok(unsafe { FileMapping::new(start, len as usize, backing) }.marked_by(mark))
}

fn unsupported(file: &OpenFile, why: String) -> Error {
    Error::Unsupported {
        operation: DeviceOperation::Map,
        file: file.name.clone(),
        why,
    }
}

fn page_size() -> usize {
    rustix::param::page_size()
}

impl MappedRange {
    /// Returns the range of whole pages that contains `range` of the mapping.
    ///
    /// # Panics
    /// If the range is outside the mapping.
    fn whole_pages(&self, range: &Range<u64>) -> Range<usize> {
        assert!(
            range.start <= range.end && range.end <= self.len as u64,
            "{range:?} of a mapping of {} bytes of {}",
            self.len,
            self.file.name
        );
        let page = page_size();
        let from = self.lead + range.start as usize;
        let to = self.lead + range.end as usize;
        from - from % page..to.next_multiple_of(page)
    }

    /// Retries populating pages after the kernel could not make one of them writable, usually for
    /// lack of space. If the space cannot be allocated, the error is `DiskFull`. If it can, the
    /// file system or the device has failed.
    fn populate_again(&self, range: &Range<u64>, pages: Range<usize>) -> Result<()> {
        let stat = rustix::fs::fstatvfs(&self.file.descriptor);
        if stat.is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY)) {
            return Err(self.unpopulated(range, Errno::ROFS));
        }
        let start = self.start + range.start;
        self.file
            .allocate_inside(&(start..self.start + range.end))
            .map_err(|errno| self.unpopulated(range, errno))?;
        self.pages.populate(pages).map_err(|errno| {
            let errno = if errno == Errno::FAULT { Errno::IO } else { errno };
            self.unpopulated(range, errno)
        })
    }

    fn unpopulated(&self, range: &Range<u64>, errno: Errno) -> Error {
        let start = self.start + range.start;
        self.file
            .failed(DeviceOperation::Map, start, range.end - range.start, errno)
    }
}

impl MappingBacking for MappedRange {
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()> {
        let pages = self.whole_pages(&range);
        self.file
            .state
            .require_unpoisoned(DeviceOperation::Sync, &self.file.name)?;
        if range.is_empty() {
            return Ok(());
        }
        self.file.counters.sync(purpose);
        self.file.counters.write(purpose, pages.len() as u64);
        self.file
            .state
            .syncs
            .part(|| {
                // The data of a failed store is lost.
                if self.guard.is_broken() {
                    return Err(Errno::IO);
                }
                self.pages.sync(pages)
            })
            .map_err(|failure| {
                failure.into_error(DeviceOperation::Sync, &self.file.name, range.end - range.start)
            })
    }

    fn release_pages(&self, range: Range<u64>) {
        // This is only a hint: if it fails, the pages stay in memory.
        let _ = self.pages.release_pages(self.whole_pages(&range));
    }

    fn populate(&self, range: Range<u64>) -> Result<()> {
        let pages = self.whole_pages(&range);
        if range.is_empty() {
            return Ok(());
        }
        match self.pages.populate(pages.clone()) {
            // Kernels before 5.14 do not support this advice.
            Err(Errno::INVAL) => {
                self.pages.touch(pages, page_size());
                if self.guard.is_broken() {
                    return Err(self.unpopulated(&range, Errno::IO));
                }
                Ok(())
            }
            Err(Errno::FAULT) => self.populate_again(&range, pages),
            outcome => outcome.map_err(|errno| self.unpopulated(&range, errno)),
        }
    }
}
