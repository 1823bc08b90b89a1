//! Promotion of hot nodes: a background step that copies nodes from slower tiers to the first tier
//! (`cache/promoted.rs`), and frees the space of copies when it is needed elsewhere.

use super::Store;
use crate::cache::{BATCH_BYTES, CopyStats};
use crate::extents::{AllocationClass, UNIT};
use crate::{Error, Result};
use alluvium_base::Purpose;
use alluvium_device::AlignedBuffer;

/// Of the first tier's space that is free or used by copies, the copies may use at most
/// 1/`COPIES_FRACTION`.
const COPIES_FRACTION: u64 = 2;

/// Size in allocation units of an extent for copies.
const BATCH_UNITS: u32 = (BATCH_BYTES / UNIT) as u32;
const _: () = assert!(BATCH_UNITS as u64 * UNIT == BATCH_BYTES);

impl Store {
    /// Sets how many bytes the first tier may use for copies of nodes on slower tiers. In any case,
    /// the copies use at most half of the first tier's free space. 0 disables copying.
    pub fn set_copies(&self, bytes: u64) {
        self.cache.copies().set_budget(bytes);
    }

    /// Performs one promotion step. Frees copies if they exceed the space available to them, and
    /// writes the hot nodes that the cache has collected once they fill an extent. Returns whether
    /// there was anything to do.
    ///
    /// # Errors
    /// I/O errors. A full disk is not an error, but frees all copies.
    pub fn copy_slice(&self) -> Result<bool> {
        let copies = self.cache.copies();
        let held = copies.stats().bytes;
        if copies.budget() == 0 && held == 0 {
            return Ok(false);
        }
        self.health.check()?;
        let (spaces, _) = self.tier_space();
        let free = spaces.first().map_or(0, |space| space.free_bytes);
        let most = copies.budget().min(free.saturating_add(held) / COPIES_FRACTION);
        let mut given = copies.shrink(most);
        let collected = match most {
            0..BATCH_BYTES => None,
            _ => copies.take_collected(BATCH_BYTES / 2),
        };
        if collected.is_some() {
            given.extend(copies.shrink(most - BATCH_BYTES));
        }
        let has_given = !given.is_empty();
        given.into_iter().for_each(|extent| self.extents.abandon(extent));
        let Some(collected) = collected else {
            return Ok(has_given);
        };
        let extent = match self.extents.allocate(0, BATCH_UNITS, AllocationClass::Normal) {
            Ok(extent) => extent,
            Err(Error::Full { .. }) => {
                self.give_up_copies();
                return Ok(true);
            }
            Err(error) => return self.health.poison_on_error(Err(error)),
        };
        let written = self.tiers.get(0).and_then(|file| {
            let buffer = AlignedBuffer::padded(&collected.bytes);
            assert!(buffer.len() as u64 <= extent.bytes(), "a batch fits an extent");
            Ok(file.write_at(extent.offset(), buffer, Purpose::Other)?)
        });
        match self.health.poison_on_error(written) {
            Ok(_) => {
                copies.publish(extent, collected);
                Ok(true)
            }
            Err(error) => {
                self.extents.abandon(extent);
                Err(error)
            }
        }
    }

    /// Frees the space of all copies because other data needs it.
    pub fn give_up_copies(&self) {
        let given = self.cache.copies().shrink(0);
        given.into_iter().for_each(|extent| self.extents.abandon(extent));
    }

    /// Returns statistics of the copies of hot nodes.
    #[must_use]
    pub fn copy_stats(&self) -> CopyStats {
        self.cache.copies().stats()
    }
}
