//! Plants bugs between a store and its devices, to test the test harness. A harness that missed
//! such a bug would miss the same bug inside the store too.
//!
//! *Scope*: the interface of a directory and its files, and the ways in which a bug can violate it.
//!
//! *Must not depend on*: the contents of files, which it identifies by name.

mod device;

use alluvium_device::forward::ForwardDirectory;
use alluvium_device::{Device, Directory, FileOptions, Result};
use device::SabotagedFile;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A planted bug. It affects all files whose names contain the given text, which may be empty to
/// select all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// Syncs of the selected files and their mappings do nothing.
    SkipSync(&'static str),
    /// Syncs of the directory do nothing.
    SkipDirectorySync,
    /// A sync of the selected files is executed only when the next one is requested.
    DelaySync(&'static str),
    /// Swaps a sync and a write: a sync of `file` is executed only after the next write to
    /// `before`.
    SyncAfterWrite {
        /// Selects the files whose syncs are delayed.
        file: &'static str,
        /// Selects the files that should be written only after the sync.
        before: &'static str,
    },
    /// Only this many writes to each selected file are executed.
    OnlyFirstWrites(&'static str, u32),
    /// Every second write to the selected files is dropped, so the second copy of data that is
    /// stored twice is never written.
    DropSecondCopy(&'static str),
    /// Overwriting data in the selected files has no effect, so the old bytes remain. This leaves a
    /// stale slot.
    LoseRewrites(&'static str),
    /// Bits of `mask` are cleared from the offset of writes to `file`, so the same slot is
    /// overwritten each time.
    WrongSlot {
        file: &'static str,
        /// The bits of the offset in which the slots differ.
        mask: u64,
    },
    /// Truncating the selected files reports success but does nothing.
    SkipTruncate(&'static str),
    /// Failed syncs of the selected files report success.
    AcknowledgeFailedSync(&'static str),
    /// Writes and syncs of the selected files are delayed until a hole is punched in some file or
    /// some file is truncated or removed. Data is thus freed before its replacement is written.
    FreeBeforeWrite(&'static str),
    /// Holes punched in the selected files are longer than requested by this number of bytes.
    PunchWide(&'static str, u64),
    /// Removing a file has no effect.
    SkipRemove,
    /// The last block of a write of several logical blocks to the selected files is lost.
    TearWrites(&'static str),
}

impl PlantedBug {
    fn hits(part: &str, file: &str) -> bool {
        file.contains(part)
    }
}

/// A directory with a planted bug.
///
/// ```
/// use alluvium_device::{Directory, FileOptions, simulated::SimDirectory};
/// use alluvium_sim::saboteur::{PlantedBug, SabotagedDirectory};
/// use std::sync::Arc;
/// let honest: Arc<dyn Directory> = Arc::new(SimDirectory::new(1));
/// let directory = SabotagedDirectory::wrap(honest, PlantedBug::SkipRemove);
/// directory.create("a", FileOptions::DIRECT)?;
/// directory.remove("a")?;
/// assert!(directory.open("a", FileOptions::DIRECT).is_ok(), "it is still there");
/// # Ok::<(), alluvium_device::Error>(())
/// ```
#[derive(Debug)]
pub struct SabotagedDirectory {
    inner: Arc<dyn Directory>,
    shared: Arc<SabotageContext>,
}

/// State shared by all files of a directory with a planted bug.
#[derive(Debug)]
struct SabotageContext {
    bug: PlantedBug,
    state: Mutex<SabotageState>,
}

#[derive(Debug, Default)]
struct SabotageState {
    /// Number of writes to each file so far.
    writes: BTreeMap<String, u32>,
    /// File offsets written since the store was opened.
    written: BTreeSet<(String, u64)>,
    held: Vec<DelayedRequest>,
}

#[derive(Debug)]
struct DelayedRequest {
    file: Arc<dyn Device>,
    /// The offset and bytes of a delayed write, or `None` for a delayed sync.
    write: Option<(u64, Vec<u8>)>,
    purpose: alluvium_base::Purpose,
}

impl SabotageContext {
    /// Executes all delayed requests in their original order.
    fn release(&self) -> Result<()> {
        let held = std::mem::take(&mut self.state.lock().held);
        for held in held {
            match held.write {
                Some((offset, bytes)) => {
                    held.file.write_at(
                        offset,
                        alluvium_device::AlignedBuffer::padded(&bytes),
                        held.purpose,
                    )?;
                }
                None => held.file.sync(held.purpose)?,
            }
        }
        Ok(())
    }

    /// Called when space is freed, at which point some bugs release delayed requests.
    fn freed(&self) -> Result<()> {
        match self.bug {
            PlantedBug::FreeBeforeWrite(_) => self.release(),
            _ => Ok(()),
        }
    }
}

impl SabotagedDirectory {
    /// Returns a directory that passes all requests to `inner` but applies a planted bug to them.
    #[must_use]
    pub fn wrap(inner: Arc<dyn Directory>, bug: PlantedBug) -> Arc<dyn Directory> {
        let state = Mutex::default();
        Arc::new(SabotagedDirectory {
            inner,
            shared: Arc::new(SabotageContext { bug, state }),
        })
    }
}

impl ForwardDirectory for SabotagedDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn wrap(&self, inner: Arc<dyn Device>, options: FileOptions) -> Arc<dyn Device> {
        let shared = Arc::clone(&self.shared);
        Arc::new(SabotagedFile {
            inner,
            options,
            shared,
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        if self.shared.bug == PlantedBug::SkipRemove {
            return Ok(());
        }
        self.inner.remove(name)?;
        self.shared.freed()
    }

    fn sync(&self) -> Result<()> {
        if self.shared.bug == PlantedBug::SkipDirectorySync {
            return Ok(());
        }
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests;
