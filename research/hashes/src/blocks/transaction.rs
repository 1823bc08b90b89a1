//! A transactional view of a space: a step takes effect as a whole or not at all.

use super::error::Result;
use super::space::{BlockExtent, BlockSpace};
use std::cell::RefCell;

/// A space in which allocations and releases take effect together or not at all (B2).
///
/// ```
/// use research_hashes::blocks::{SpaceTransaction, MemoryBlockSpace, BlockSpace};
/// let space = MemoryBlockSpace::new(64, 1 << 20);
/// let draft = SpaceTransaction::new(&space);
/// draft.allocate(100).unwrap();
/// drop(draft); // as an error would
/// assert_eq!(space.used_bytes(), 0);
/// ```
pub struct SpaceTransaction<'s> {
    space: &'s dyn BlockSpace,
    taken: RefCell<Vec<BlockExtent>>,
    given: RefCell<Vec<BlockExtent>>,
}

impl<'s> SpaceTransaction<'s> {
    #[must_use]
    pub fn new(space: &'s dyn BlockSpace) -> SpaceTransaction<'s> {
        SpaceTransaction {
            space,
            taken: RefCell::default(),
            given: RefCell::default(),
        }
    }

    /// Applies the step's releases after it has succeeded.
    pub fn apply_releases(self) {
        self.taken.borrow_mut().clear();
        for extent in self.given.take() {
            self.space.release(extent);
        }
    }
}

impl Drop for SpaceTransaction<'_> {
    fn drop(&mut self) {
        for extent in self.taken.take() {
            self.space.release(extent);
        }
    }
}

impl BlockSpace for SpaceTransaction<'_> {
    fn allocate(&self, bytes: u64) -> Result<BlockExtent> {
        let extent = self.space.allocate(bytes)?;
        self.taken.borrow_mut().push(extent);
        Ok(extent)
    }

    fn trim(&self, extent: BlockExtent, bytes: u64) -> Result<BlockExtent> {
        let trimmed = self.space.trim(extent, bytes)?;
        let mut taken = self.taken.borrow_mut();
        if let Some(known) = taken.iter_mut().rev().find(|known| **known == extent) {
            *known = trimmed;
        }
        Ok(trimmed)
    }

    fn release(&self, extent: BlockExtent) {
        let mut taken = self.taken.borrow_mut();
        // An extent that the step itself allocated is released at once, so that a long step needs
        // no extra space.
        match taken.iter().rposition(|known| *known == extent) {
            Some(at) => {
                taken.swap_remove(at);
                self.space.release(extent);
            }
            None => self.given.borrow_mut().push(extent),
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.space.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        self.space.write(at, from)
    }

    fn commit(&self, root: &[u8]) -> Result<()> {
        self.space.commit(root)
    }

    fn root(&self) -> Option<Vec<u8>> {
        self.space.root()
    }
}
