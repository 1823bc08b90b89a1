//! Plants bugs between a store and its devices, for tests of tests: a harness that does not detect
//! one of these bugs would not detect the same mistake inside the store.
//!
//! *Scope*: the contract of a directory and its files, and how to break it.
//!
//! *Must not depend on*: the contents of files; it identifies files by their names.

mod device;

use alluvium_device::forward::ForwardDirectory;
use alluvium_device::{Device, Directory, FileOptions, Result};
use device::SabotagedFile;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A planted bug. It affects files whose name contains the given text; the empty text matches all
/// files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// Syncs of these files, and of their mappings, do nothing.
    SkipSync(&'static str),
    /// Syncs of the directory do nothing.
    SkipDirectorySync,
    /// A sync of these files is performed only when the next one is requested.
    DelaySync(&'static str),
    /// A barrier out of order: a sync of `file` is performed only after the next write to `before`.
    SyncAfterWrite {
        /// The files whose sync is delayed.
        file: &'static str,
        /// The files whose write should come after the sync.
        before: &'static str,
    },
    /// Only this number of writes to each of these files are performed.
    OnlyFirstWrites(&'static str, u32),
    /// Every second write to these files is dropped: a second copy is never written.
    DropSecondCopy(&'static str),
    /// Overwrites in these files are dropped, so that the old bytes remain: a stale slot.
    LoseRewrites(&'static str),
    /// A write to `file` at an offset with a bit of `mask` goes to the offset without this bit, so
    /// that the same slot is overwritten each time.
    WrongSlot {
        file: &'static str,
        /// The bits of the offset that distinguish the slots.
        mask: u64,
    },
    /// Truncation of these files is reported as successful but not performed.
    SkipTruncate(&'static str),
    /// A failed sync of these files is reported as a success.
    AcknowledgeFailedSync(&'static str),
    /// Writes and syncs of these files are delayed until the next time that any hole is punched or
    /// any file is shortened or removed: data is freed before the writes that replace it.
    FreeBeforeWrite(&'static str),
    /// Holes in these files are longer by this number of bytes.
    PunchWide(&'static str, u64),
    /// Removed files are not removed.
    SkipRemove,
    /// Writes of several sectors to these files lose their last sector.
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

/// State shared by all files of a sabotaged directory.
#[derive(Debug)]
struct SabotageContext {
    bug: PlantedBug,
    state: Mutex<SabotageState>,
}

#[derive(Debug, Default)]
struct SabotageState {
    /// Number of writes so far, by file.
    writes: BTreeMap<String, u32>,
    /// Offsets written in this life.
    written: BTreeSet<(String, u64)>,
    held: Vec<DelayedRequest>,
}

#[derive(Debug)]
struct DelayedRequest {
    file: Arc<dyn Device>,
    /// The offset and bytes of a write, or `None` for a sync.
    write: Option<(u64, Vec<u8>)>,
    purpose: alluvium_base::Purpose,
}

impl SabotageContext {
    /// Performs all delayed requests in their order.
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

    /// Notes that space was freed.
    fn freed(&self) -> Result<()> {
        match self.bug {
            PlantedBug::FreeBeforeWrite(_) => self.release(),
            _ => Ok(()),
        }
    }
}

impl SabotagedDirectory {
    /// Returns `inner` with a planted bug.
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
