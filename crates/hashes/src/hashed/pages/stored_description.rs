//! Stores serialised descriptions on the device, each in its own extents.

use alluvium_base::Purpose;
use alluvium_dictionary::blob;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::value_log::{PointerSlot, ValuePlacement, ValuePointer, ValueWriter};
use alluvium_storage::extents::Extent;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{DiskLocation, Error, Result};
use std::sync::Arc;

/// A serialised description on the device.
#[derive(Clone, Debug)]
pub struct StoredDescription {
    pub pointer: ValuePointer,
    /// Extents that the description occupies, with their live bytes.
    pub extents: Arc<[(Extent, u64)]>,
}

impl StoredDescription {
    /// Writes a description to newly allocated extents, which the caller must install or free.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn write(store: &Store, bytes: &[u8], options: WriterOptions) -> Result<StoredDescription> {
        let mut writer = ValueWriter::new(store.node_writer(options)?, store.page_size());
        let mut at = None;
        let first = PointerSlot { leaf: 0, at: 0 };
        if let ValuePlacement::Long(long) = writer.add(bytes, first, &mut |_| ())? {
            at = Some(long);
        }
        writer.close(|_, short| at = Some(short))?;
        let extents = writer.finish()?.extents;
        assert!(!extents.is_empty(), "a description has at least a page");
        Ok(StoredDescription {
            pointer: at.expect("one value was written"),
            extents: extents.into(),
        })
    }

    /// Reads a description from the device, bypassing the cache. Returns its bytes and location.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the description is damaged; I/O errors.
    pub fn read(
        files: DataFiles<'_>,
        pointer: &ValuePointer,
        purpose: Purpose,
    ) -> Result<(Vec<u8>, StoredDescription)> {
        let (bytes, mut nodes) = blob::read(files, pointer, purpose)?;
        nodes.sort_unstable_by_key(|node| (node.tier, node.offset));
        let described = StoredDescription {
            pointer: *pointer,
            extents: blob::extents_of(nodes.iter()).into(),
        };
        Ok((bytes, described))
    }

    /// Replaces the extents with those at the same locations in the store's extent map. The former
    /// were computed from nodes and may be smaller than what was allocated.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the extent map has no extent at one of the locations.
    pub fn mapped(mut self, holding: impl Fn(u8, u64) -> Option<Extent>) -> Result<StoredDescription> {
        let mut extents: Vec<(Extent, u64)> = Vec::new();
        for &(extent, live) in &*self.extents {
            for unit in extent.start..extent.end() {
                let offset = Extent {
                    start: unit,
                    ..extent
                }
                .offset();
                let Some(found) = holding(extent.tier, offset) else {
                    let found = "a node where no extent is in use";
                    return Err(Error::corrupt(self.place(), "an extent", found));
                };
                if extents.last().is_none_or(|(last, _)| *last != found) {
                    extents.push((found, 0));
                }
            }
            if let Some((_, bytes)) = extents.last_mut() {
                *bytes += live;
            }
        }
        self.extents = extents.into();
        Ok(self)
    }

    /// Returns the location of the description, for error messages.
    #[must_use]
    pub fn place(&self) -> DiskLocation {
        self.pointer.node.place()
    }

    /// Returns the size of the extent list in memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.extents) as u64
    }
}
