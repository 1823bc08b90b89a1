//! Copies the pages of a checkpoint, and checks pages that are not open.

use super::{DroppedValues, FILE, PagedDictionary, PagedOptions, check};
use crate::paged::buffer::FreeLists;
use crate::paged::core::TreeCore;
use crate::paged::store::TreeLocation;
use alluvium_device::{Directory, OverlayDirectory};
use alluvium_dictionary::check_report::CheckFindings;
use alluvium_storage::store::SideFiles;
use alluvium_storage::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Keeps checkpoints of the pages available, so that any of them can be copied. As long as this
/// exists, the journal grows with each page that is overwritten.
pub struct CheckpointHold {
    paged: PagedDictionary,
}

impl fmt::Debug for CheckpointHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.paged.fmt(f)
    }
}

/// The pages of one checkpoint, ready to be copied.
#[derive(Debug)]
pub struct KeptPages {
    held: CheckpointHold,
    root: Vec<u8>,
}

impl PagedDictionary {
    /// Keeps the durable checkpoint and all later ones available. To copy the root of one of the
    /// store's generations, the caller must call this before it pins that generation.
    #[must_use]
    pub fn hold(&self) -> CheckpointHold {
        self.core().buffer.hold();
        CheckpointHold { paged: self.clone() }
    }
}

impl Drop for CheckpointHold {
    fn drop(&mut self) {
        self.paged.core().buffer.release();
    }
}

impl CheckpointHold {
    /// Returns the pages of the checkpoint with the given root. The root must have been durable
    /// when [`PagedDictionary::hold`] was called, or have become durable later.
    #[must_use]
    pub fn at(self, root: &[u8]) -> KeptPages {
        assert!(!root.is_empty(), "a root says what it is of");
        KeptPages {
            held: self,
            root: root.to_vec(),
        }
    }
}

impl SideFiles for KeptPages {
    fn bytes(&self) -> u64 {
        self.held.paged.core().buffer.copied_bytes()
    }

    fn copy_to(&self, directory: &dyn Directory, wrote: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let buffer = &self.held.paged.core().buffer;
        buffer.copy_hosted(&self.root, directory, wrote)
    }
}

/// Checks a root's pages in a directory, without changing the directory.
///
/// # Errors
/// I/O errors. Damage is part of the result, not an error.
pub fn check_files(directory: &Arc<dyn Directory>, root: &[u8]) -> Result<CheckFindings> {
    let above = OverlayDirectory::new(Arc::clone(directory))?;
    let place = TreeLocation {
        directory: &above,
        name: FILE,
    };
    let dropped: Arc<DroppedValues> = Arc::default();
    let options = PagedOptions::default().pool();
    let mut findings = CheckFindings::default();
    match TreeCore::open_hosted(place, root, options, dropped, FreeLists::Whole) {
        Ok((core, _)) => check::report(&core, &mut findings)?,
        Err(error @ Error::Device(_)) => return Err(error),
        Err(error) => findings.found.push(format!("paged: {error}")),
    }
    findings.bound();
    Ok(findings)
}
