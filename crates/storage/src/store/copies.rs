//! The step that writes copies of nodes to the first tier (`cache/copies.rs`), and how they make
//! way for all else.

use super::Store;
use crate::cache::{BATCH_BYTES, CopyStats};
use crate::extents::{Class, UNIT};
use crate::{Error, Result};
use alluvium_base::Purpose;
use alluvium_device::Buffer;

/// Of the first tier's free space, copies take no more than this part.
const COPIES_FRACTION: u64 = 2;

/// An extent of copies.
const BATCH_UNITS: u32 = (BATCH_BYTES / UNIT) as u32;
const _: () = assert!(BATCH_UNITS as u64 * UNIT == BATCH_BYTES);

impl Store {
    /// Sets how many bytes of the first tier copies of nodes of slower ones may take, at most half
    /// of what is free there; 0 means that nothing is copied.
    pub fn set_copies(&self, bytes: u64) {
        self.cache.copies().set_budget(bytes);
    }

    /// A slice of copying what is read again and again from slower tiers, if there is an extent of
    /// it; of making space, if there is too little. Returns whether anything was done.
    ///
    /// # Errors
    /// As the device says. A full disk is none: all copies make way.
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
        let extent = match self.extents.allocate(0, BATCH_UNITS, Class::Normal) {
            Ok(extent) => extent,
            Err(Error::Full { .. }) => {
                self.give_up_copies();
                return Ok(true);
            }
            Err(error) => return self.health.judge(Err(error)),
        };
        let written = self.tiers.get(0).and_then(|file| {
            let buffer = Buffer::padded(&collected.bytes);
            assert!(buffer.len() as u64 <= extent.bytes(), "a batch fits an extent");
            Ok(file.write_at(extent.offset(), buffer, Purpose::Other)?)
        });
        match self.health.judge(written) {
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

    /// Gives all space of copies free at once: something else needs it.
    pub fn give_up_copies(&self) {
        let given = self.cache.copies().shrink(0);
        given.into_iter().for_each(|extent| self.extents.abandon(extent));
    }

    /// Returns what has become of copies.
    #[must_use]
    pub fn copy_stats(&self) -> CopyStats {
        self.cache.copies().stats()
    }
}
