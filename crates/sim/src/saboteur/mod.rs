//! Plants bugs between a store and its devices, in order to test the test harness. A harness that
//! does not detect one of these bugs would also not detect the same bug inside the store.
//!
//! *Scope*: the interface of a directory and its files, and the ways in which a bug can violate it.
//!
//! *Must not depend on*: the contents of files; it identifies files by their names.

mod device;

use alluvium_device::forward::ForwardDirectory;
use alluvium_device::{Device, Directory, FileOptions, Result};
use device::SabotagedFile;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A planted bug. It affects all files whose names contain the given text. An empty text selects
/// all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// Syncs of the selected files and of their mappings do nothing.
    SkipSync(&'static str),
    /// Syncs of the directory do nothing.
    SkipDirectorySync,
    /// A sync of the selected files is executed only when the next one is requested.
    DelaySync(&'static str),
    /// Reverses the order of a sync and a write: a sync of `file` is executed only after the next
    /// write to `before`.
    SyncAfterWrite {
        /// Selects the files for which syncs are delayed.
        file: &'static str,
        /// Selects the files to which writes should come only after the sync.
        before: &'static str,
    },
    /// Only the given number of writes to each selected file is executed.
    OnlyFirstWrites(&'static str, u32),
    /// Every second write to the selected files is dropped. The second copy of data that is stored
    /// twice is thus never written.
    DropSecondCopy(&'static str),
    /// Overwriting data in the selected files has no effect, so the old bytes remain. This leaves a
    /// stale slot.
    LoseRewrites(&'static str),
    /// If the offset of a write to `file` has a bit of `mask`, the bit is cleared. The same slot is
    /// thus overwritten each time.
    WrongSlot {
        file: &'static str,
        /// The bits of the offset by which the slots differ.
        mask: u64,
    },
    /// Truncation of the selected files reports success but does nothing.
    SkipTruncate(&'static str),
    /// If a sync of the selected files fails, success is reported.
    AcknowledgeFailedSync(&'static str),
    /// Writes and syncs of the selected files are delayed until a hole is punched into any file or
    /// any file is truncated or removed. Data is thus freed before the data that replaces it is
    /// written.
    FreeBeforeWrite(&'static str),
    /// Holes punched into the selected files are longer than requested by the given number of
    /// bytes.
    PunchWide(&'static str, u64),
    /// Removing a file has no effect.
    SkipRemove,
    /// If a write to the selected files has several logical blocks, its last block is lost.
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
    /// File offsets that have been written since the store was opened.
    written: BTreeSet<(String, u64)>,
    held: Vec<DelayedRequest>,
}

#[derive(Debug)]
struct DelayedRequest {
    file: Arc<dyn Device>,
    /// The offset and the bytes of a delayed write, or `None` for a delayed sync.
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

    /// Called when space is freed, which ends the delay of requests for some bugs.
    fn freed(&self) -> Result<()> {
        match self.bug {
            PlantedBug::FreeBeforeWrite(_) => self.release(),
            _ => Ok(()),
        }
    }
}

impl SabotagedDirectory {
    /// Returns a directory that passes all requests to `inner` and applies a planted bug to them.
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
