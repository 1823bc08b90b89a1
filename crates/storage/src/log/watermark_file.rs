//! The mark: a small file that stores the log's progress apart from the segments, so that it can
//! reveal damage to them.
//!
//! The watermarks in a record are older than the record, so damage to the last records looks just
//! like the end of the log. The mark tells the two cases apart, because it contains the synced
//! watermark, the completion watermark, and the number of each lane's current segment.
//!
//! ```text
//! WRITTEN                                        DURABLE
//! a lane goes on to another segment              with the kernel's write-back
//! segments are released, before they are reused  with the kernel's write-back
//! a round of group commit ends                   with the kernel's write-back
//! the background step has nothing else to do     with the kernel's write-back
//! the owner notes the time                       with the kernel's write-back
//! a caller asks for everything to be durable      before the call returns
//! the log is closed                              before the call returns
//! ```
//!
//! The mark's synced watermark holds after any crash, because it already held when the mark was
//! written. The other fields describe data that may have been only in the page cache, so they hold
//! only on the boot that wrote the mark. A mark older than the newest incarnation is ignored,
//! because every incarnation writes its own.
//!
//! An outdated mark is harmless. On a copy-on-write file system, the disk may have no space for
//! writing the mark, so a full disk is not treated as a failure here.

use super::format::{BLOCK_BYTES, LogMark};
use super::shared::LogInner;
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, Directory, Error, FileOptions};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const FILE: &str = "log-mark";

/// Total size in bytes of the two copies of the mark.
const BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// The mark of an open log. Lock order: after the lanes.
#[derive(Debug)]
pub(super) struct MarkFile {
    file: Arc<dyn Device>,
    state: Mutex<MarkState>,
    /// The completion watermark in the newest mark.
    named: AtomicU64,
    /// The synced watermark in the newest mark.
    named_synced: AtomicU64,
    /// One more than the synced watermark in the durable mark, or 0 if no durable mark exists.
    durable: AtomicU64,
}

#[derive(Debug)]
struct MarkState {
    mark: LogMark,
    /// Whether this incarnation has a durable segment. No mark is written until it does.
    begun: bool,
}

/// Opens the mark file, or creates it durably if it does not exist.
///
/// # Errors
/// I/O errors.
fn prepare(directory: &dyn Directory) -> Result<Arc<dyn Device>> {
    const _: () = assert!(BYTES == 2 * BLOCK_BYTES as u64, "a mark is stored twice");
    let file = match directory.open(FILE, FileOptions::BUFFERED) {
        Ok(file) if file.len() >= BYTES => return Ok(file),
        Ok(file) => file,
        Err(Error::NotFound { .. }) => directory.create(FILE, FileOptions::BUFFERED)?,
        Err(error) => return Err(error.into()),
    };
    file.grow(BYTES)?;
    file.sync(Purpose::Log)?;
    directory.sync()?;
    Ok(file)
}

/// Reads the mark of the store with this identity. If the file does not contain a valid mark of
/// this store, the inner result is an error that says why.
///
/// # Errors
/// I/O errors.
pub(super) fn read(directory: &dyn Directory, identity: u64) -> Result<std::result::Result<LogMark, String>> {
    let file = match directory.open(FILE, FileOptions::BUFFERED) {
        Ok(file) => file,
        Err(Error::NotFound { .. }) => return Ok(Err("no such file".to_owned())),
        Err(error) => return Err(error.into()),
    };
    if file.len() < BYTES {
        return Ok(Err(format!("a file of {} bytes", file.len())));
    }
    let bytes = file.read_at(0, BYTES as usize, Purpose::Recovery)?;
    Ok(match LogMark::decode(&bytes) {
        Ok(mark) if mark.identity != identity => Err(format!(
            "the mark of another store (identity {:016x})",
            mark.identity
        )),
        other => other,
    })
}

impl MarkFile {
    /// Opens the mark file. The file is not changed until [`LogInner::begin_mark`] is called.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn open(directory: &dyn Directory, mark: LogMark) -> Result<MarkFile> {
        Ok(MarkFile {
            file: prepare(directory)?,
            state: Mutex::new(MarkState { mark, begun: false }),
            named: AtomicU64::new(0),
            named_synced: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        })
    }

    /// Returns whether the file has been removed since it was opened.
    pub(super) fn is_removed(&self) -> bool {
        self.file.is_removed()
    }

    /// Returns whether this incarnation has a durable segment.
    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().begun
    }

    /// Applies `change` to the mark, and writes it with the current watermarks and a synced
    /// watermark of at least `synced`. If the disk is full, this leaves the file unchanged and
    /// returns no error.
    fn write(&self, shared: &LogInner, synced: u64, change: impl FnOnce(&mut LogMark)) -> Result<()> {
        let mut state = self.state.lock();
        change(&mut state.mark);
        if !state.begun {
            return Ok(());
        }
        let mark = &mut state.mark;
        debug_assert!(mark.incarnation > 0, "incarnations are counted from 1");
        mark.turn += 1;
        mark.generation = shared.generation();
        mark.released = shared.released();
        mark.complete = shared.watermark.completed();
        mark.synced = shared.commit.synced().max(synced);
        mark.time_ms = shared.time_ms.load(Ordering::Acquire);
        let written = self
            .file
            .write_at(0, AlignedBuffer::padded(&mark.encode()), Purpose::Log);
        match written {
            Err(error) if error.is_disk_full() => return Ok(()),
            other => other?,
        };
        self.named.store(mark.complete, Ordering::Relaxed);
        self.named_synced.store(mark.synced, Ordering::Release);
        Ok(())
    }
}

impl LogInner {
    /// Records that this incarnation now has a durable segment, and writes its first mark.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn begin_mark(&self) -> Result<()> {
        self.mark.state.lock().begun = true;
        self.write_mark(0)
    }

    /// Writes the mark with the log's current progress and a synced watermark of at least `synced`.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn write_mark(&self, synced: u64) -> Result<()> {
        self.mark.write(self, synced, |_| {})
    }

    /// Writes the mark with the log's current progress, unless it is already up to date.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn refresh_mark(&self) -> Result<()> {
        let named = self.mark.named.load(Ordering::Relaxed);
        let named_synced = self.mark.named_synced.load(Ordering::Relaxed);
        if named >= self.watermark.completed() && named_synced >= self.commit.synced() {
            return Ok(());
        }
        self.write_mark(0)
    }

    /// Writes the mark, unless it already contains the latest time at which the store was read.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn mark_time(&self) -> Result<()> {
        let is_named = self.mark.state.lock().mark.time_ms == self.time_ms.load(Ordering::Acquire);
        if is_named { Ok(()) } else { self.write_mark(0) }
    }

    /// Writes the mark with new current segments for some lanes. `changed` lists lanes with their
    /// segment numbers, or `None` for a lane that no longer has a segment.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn mark_lanes(&self, changed: &[(u16, Option<u64>)]) -> Result<()> {
        self.mark.write(self, 0, |mark| {
            for &(lane, number) in changed {
                let lane = usize::from(lane);
                debug_assert!(
                    lane < super::options::MAX_LANES,
                    "lane {lane} has no place in a mark"
                );
                if mark.lanes.len() <= lane {
                    mark.lanes.resize(lane + 1, None);
                }
                mark.lanes[lane] = number;
            }
        })
    }

    /// Makes the current synced watermark durable in the mark, so that damage to records up to it
    /// is detected even after a crash.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn sync_mark(&self) -> Result<()> {
        if self.mark.durable.load(Ordering::Acquire) > self.commit.synced() {
            return Ok(());
        }
        self.write_mark(0)?;
        let named = self.mark.named_synced.load(Ordering::Acquire);
        self.mark.file.sync(Purpose::Log)?;
        self.mark.durable.fetch_max(named + 1, Ordering::AcqRel);
        Ok(())
    }

    /// Durably marks the log as closed. The log ends at the synced watermark.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn mark_closed(&self) -> Result<()> {
        self.mark.write(self, 0, |mark| mark.closed = true)?;
        self.mark.file.sync(Purpose::Log)?;
        Ok(())
    }
}
