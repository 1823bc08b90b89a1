//! Copies a checkpoint of hosted pages while the pages are being overwritten.
//!
//! ```text
//!   hold      nothing of the journal is forgotten
//!   pages     as they are, some of them written over since
//!   images    of those, from the journal: it had them before they were written over (PB6)
//!   superblock, and two journals with nothing in them; sync
//! ```

use super::checkpoint::place_of;
use super::format::PageFileSuperblock;
use super::hosted::{journals, own};
use super::pool::{FIRST_PAGE, PagePool};
use super::segments::FileSegments;
use crate::paged::error::not_these_pages;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use alluvium_storage::Result;

/// Number of bytes that are copied per step. During a step no page is written, and a thread that
/// evicts a dirty page waits.
const STEP: u64 = 4 << 20;
const _: () = assert!(STEP.is_multiple_of(64 << 10), "pages are copied whole");

impl PagePool {
    /// From now on, retains the images of every checkpoint to which the pages can currently be
    /// rolled back, until [`PagePool::release`] is called. The journal grows with each page that is
    /// overwritten in the meantime.
    pub fn hold(&self) {
        self.journal.hold();
    }

    /// Undoes one call of [`PagePool::hold`].
    pub fn release(&self) {
        self.journal.release();
    }

    /// Returns the approximate size of a copy in bytes.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.segments.lock().high_water() * self.options.page_bytes as u64
    }

    /// Copies a root's pages to a file of the same name in another directory. The caller must have
    /// called [`PagePool::hold`] before the root was returned, or while it was the durable root.
    /// `wrote` receives the number of bytes copied in each step, and may abort the copy by
    /// returning an error.
    ///
    /// # Errors
    /// An error if the root belongs to another page file or if files with these names already
    /// exist; I/O errors in either directory; errors of `wrote`.
    pub fn copy_hosted(
        &self,
        root: &[u8],
        directory: &dyn Directory,
        wrote: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        assert!(self.journal.is_held(), "what the root needs is kept (PB8)");
        let root = self.named(root)?;
        let name = self.device.name();
        let create = |name: &str| directory.create(name, FileOptions::DIRECT);
        let target = create(name)?;
        let page = self.options.page_bytes as u64;
        let end = FIRST_PAGE + root.high_water * page;
        let mut at = FIRST_PAGE;
        target.grow(FIRST_PAGE)?;
        while at < end {
            let next = end.min(at + STEP);
            target.grow(next)?;
            // Copy this part of the file while no thread writes pages.
            let still = self.writing.write();
            let copied = target.copy_from(&*self.device, at..next, Purpose::Check);
            drop(still);
            copied?;
            wrote(next - at)?;
            at = next;
        }
        let (epoch, pages) = (root.epoch, root.high_water);
        let overwritten = self.journal.overwritten_since(epoch, pages);
        let rolled_back = self
            .journal
            .roll_back(self.identity, epoch, pages, |page, image| {
                target.write_at(self.offset(page), AlignedBuffer::padded(image), Purpose::Check)?;
                Ok(())
            })?;
        self.journal.require_all(&rolled_back, overwritten)?;
        let superblock = AlignedBuffer::padded(&own(&root, root.epoch).encode());
        target.write_at(place_of(root.epoch), superblock, Purpose::Check)?;
        target.sync(Purpose::Check)?;
        for journal in journals(name) {
            create(&journal)?.sync(Purpose::Check)?;
        }
        Ok(())
    }

    /// Decodes a root, and checks that it belongs to this file.
    fn named(&self, root: &[u8]) -> Result<PageFileSuperblock> {
        let refused = |why: String| not_these_pages(self.device.name(), why);
        let root = PageFileSuperblock::decode_short(root)
            .map_err(|refusal| refused(format!("the root that refers to it is invalid: {refusal:?}")))?;
        let is_own = root.identity == self.identity && root.page_bytes as usize == self.options.page_bytes;
        if FileSegments::of(&root, u64::MAX).is_none() || !is_own {
            return Err(refused("the root belongs to other pages".to_owned()));
        }
        Ok(root)
    }
}
