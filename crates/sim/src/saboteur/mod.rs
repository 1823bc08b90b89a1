//! Plants bugs at the seam between a store and its devices, for tests of tests: a harness that lets
//! one of these pass would let the same mistake inside the store pass.
//!
//! *Knows*: the contract of a directory and its files, and how to break it.
//!
//! *Does not know*: what a file holds; it tells files apart by their names.
//!
//! *Read in this order*: this file (the bugs, and directories that have them), `device.rs` (files).

mod device;

use alluvium_device::forward::ForwardDirectory;
use alluvium_device::{Device, Directory, FileOptions, Result};
use device::SabotagedFile;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A bug. Files are chosen by a part of their name; the empty text chooses all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sabotage {
    /// Syncs of these files, and of their mappings, do nothing.
    SkipSync(&'static str),
    /// Syncs of the directory do nothing.
    SkipDirectorySync,
    /// A sync of these files takes place only when the next one is asked for.
    DelaySync(&'static str),
    /// A barrier out of order: a sync of `file` takes place after the next write to `before`.
    SyncAfterWrite {
        /// The files whose sync is late.
        file: &'static str,
        /// The files whose write should have come later.
        before: &'static str,
    },
    /// Only this many first writes to each of these files take place.
    OnlyFirstWrites(&'static str, u32),
    /// Every second write to these files is dropped: a second copy that is never there.
    DropSecondCopy(&'static str),
    /// Whatever is written over in these files keeps its older bytes: a stale slot.
    LoseRewrites(&'static str),
    /// Writes to `file` that belong into the slots whose offset has a bit of `mask` go to the slot
    /// without it, so that the same slot is overwritten each time.
    WrongSlot {
        /// The files written wrongly.
        file: &'static str,
        /// The bits of the offset that tell the slots apart.
        mask: u64,
    },
    /// These files are never shortened, though the caller is told so.
    SkipTruncate(&'static str),
    /// A failed sync of these files is reported as a success.
    AcknowledgeFailedSync(&'static str),
    /// Writes and syncs of these files wait until after the next hole is punched, or file shortened
    /// or removed, anywhere: what they should have freed first is gone too early.
    FreeBeforeWrite(&'static str),
    /// Holes in these files reach one block of this many bytes further on.
    PunchWide(&'static str, u64),
    /// Removed files stay.
    SkipRemove,
    /// The last sector of every write of more than one to these files is dropped.
    TearWrites(&'static str),
}

impl Sabotage {
    fn hits(part: &str, file: &str) -> bool {
        file.contains(part)
    }
}

/// A directory with a bug.
///
/// ```
/// use alluvium_device::{Directory, FileOptions, simulated::SimDirectory};
/// use alluvium_sim::saboteur::{Sabotage, Saboteur};
/// use std::sync::Arc;
/// let honest: Arc<dyn Directory> = Arc::new(SimDirectory::new(1));
/// let directory = Saboteur::wrap(honest, Sabotage::SkipRemove);
/// directory.create("a", FileOptions::DIRECT)?;
/// directory.remove("a")?;
/// assert!(directory.open("a", FileOptions::DIRECT).is_ok(), "it is still there");
/// # Ok::<(), alluvium_device::Error>(())
/// ```
#[derive(Debug)]
pub struct Saboteur {
    inner: Arc<dyn Directory>,
    shared: Arc<Shared>,
}

/// What all files of a sabotaged directory know together.
#[derive(Debug)]
struct Shared {
    bug: Sabotage,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Writes seen, by file.
    writes: BTreeMap<String, u32>,
    /// Places written in this life.
    written: BTreeSet<(String, u64)>,
    /// Requests that wait for their wrong moment.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    file: Arc<dyn Device>,
    /// Bytes to write at an offset, or nothing for a sync.
    write: Option<(u64, Vec<u8>)>,
    purpose: alluvium_base::Purpose,
}

impl Shared {
    /// Lets go of everything held back.
    fn release(&self) -> Result<()> {
        let held = std::mem::take(&mut self.state.lock().held);
        for held in held {
            match held.write {
                Some((offset, bytes)) => {
                    held.file
                        .write_at(offset, alluvium_device::Buffer::padded(&bytes), held.purpose)?;
                }
                None => held.file.sync(held.purpose)?,
            }
        }
        Ok(())
    }

    /// Something was freed.
    fn freed(&self) -> Result<()> {
        match self.bug {
            Sabotage::FreeBeforeWrite(_) => self.release(),
            _ => Ok(()),
        }
    }
}

impl Saboteur {
    /// `inner`, with a bug.
    #[must_use]
    pub fn wrap(inner: Arc<dyn Directory>, bug: Sabotage) -> Arc<dyn Directory> {
        let state = Mutex::default();
        Arc::new(Saboteur {
            inner,
            shared: Arc::new(Shared { bug, state }),
        })
    }
}

impl ForwardDirectory for Saboteur {
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
        if self.shared.bug == Sabotage::SkipRemove {
            return Ok(());
        }
        self.inner.remove(name)?;
        self.shared.freed()
    }

    fn sync(&self) -> Result<()> {
        if self.shared.bug == Sabotage::SkipDirectorySync {
            return Ok(());
        }
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests;
