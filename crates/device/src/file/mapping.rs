//! What stands behind a [`Mapping`] of a real file.

use super::open_file::OpenFile;
use super::sys::Pages;
use crate::{Caching, Error, Mapping, MappingBacking, Operation, Result};
use alluvium_base::Purpose;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

/// File systems that write a changed page to a new place: storing into a mapping there allocates at write-back, so a
/// full disk would surface as a failed sync (or a signal), and space reserved before is not what is written to.
const COPY_ON_WRITE: [(u64, &str); 3] = [
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
];

/// The file system's name, when it is one that copies on write.
fn copies_on_write(magic: u64) -> Option<&'static str> {
    COPY_ON_WRITE
        .iter()
        .find(|(known, _)| *known == magic)
        .map(|(_, name)| *name)
}

/// A mapped range. The kernel maps whole pages, so a little more may be mapped than was asked for.
struct MappedRange {
    file: Arc<OpenFile>,
    pages: Pages,
    /// Where the range begins within `pages`, in bytes.
    lead: usize,
    /// The range's length in bytes.
    len: usize,
}

/// Maps a range of a buffered file.
pub(super) fn map(file: &Arc<OpenFile>, range: &Range<u64>) -> Result<Mapping> {
    file.changeable(Operation::Map)?;
    file.state.accepts(Operation::Map, &file.name)?;
    if file.options.caching == Caching::Direct {
        return Err(unsupported(
            file,
            "a direct file has no page cache to share".to_owned(),
        ));
    }
    let failed = |errno| file.failed(Operation::Map, range.start, 0, errno);
    let magic = rustix::fs::fstatfs(&file.descriptor).map_err(failed)?.f_type;
    if let Some(name) = copies_on_write(u64::from(magic as u32)) {
        return Err(unsupported(
            file,
            format!(
                "{name} copies on write, so the space of a mapping cannot be reserved; write to the file instead"
            ),
        ));
    }
    let len = range.end.saturating_sub(range.start);
    assert!(len > 0, "mapping nothing of {}", file.name);
    file.inside(Operation::Map, range.start, len)?;
    let page = page_size() as u64;
    let from = range.start - range.start % page;
    let pages = Pages::map(
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
        pages,
        lead,
        len: len as usize,
    });
    // SAFETY: `start..start + len` lies in `pages`, which the backing owns.
    Ok(unsafe { Mapping::new(start, len as usize, backing) })
}

fn unsupported(file: &OpenFile, why: String) -> Error {
    Error::Unsupported {
        operation: Operation::Map,
        file: file.name.clone(),
        why,
    }
}

fn page_size() -> usize {
    rustix::param::page_size()
}

impl MappedRange {
    /// The whole pages that hold `range` of the mapping.
    ///
    /// # Panics
    /// When the range is outside the mapping.
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
}

impl MappingBacking for MappedRange {
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()> {
        let pages = self.whole_pages(&range);
        self.file.state.accepts(Operation::Sync, &self.file.name)?;
        if range.is_empty() {
            return Ok(());
        }
        self.file.counters.sync(purpose);
        self.file
            .state
            .syncs
            .part(|| self.pages.sync(pages))
            .map_err(|failure| failure.into_error(Operation::Sync, &self.file.name, range.end - range.start))
    }

    fn let_go(&self, range: Range<u64>) {
        // Only a hint: what stays in memory is where it was.
        let _ = self.pages.let_go(self.whole_pages(&range));
    }

    fn populate(&self, range: Range<u64>) -> Result<()> {
        let pages = self.whole_pages(&range);
        if range.is_empty() {
            return Ok(());
        }
        match self.pages.populate(pages.clone()) {
            // A kernel before 5.14 does not know the advice.
            Err(Errno::INVAL) => {
                self.pages.touch(pages, page_size());
                Ok(())
            }
            outcome => outcome.map_err(|errno| {
                self.file
                    .failed(Operation::Map, range.start, range.end - range.start, errno)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_copy_on_write_are_known_by_their_magic() {
        assert_eq!(copies_on_write(0x9123_683e), Some("btrfs"));
        assert_eq!(copies_on_write(0x2fc1_2fc1), Some("zfs"));
        assert_eq!(copies_on_write(0xca45_1a4e), Some("bcachefs"));
        assert_eq!(copies_on_write(0xef53), None, "ext4 writes in place");
        assert_eq!(copies_on_write(0x5846_5342), None, "xfs writes in place");
    }
}
