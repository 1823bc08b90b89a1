//! The mark: a small file that says how far the log has come, apart from the segments that it
//! guards.
//!
//! Records name watermarks of the past only, so damage to the last of them looks like the end of
//! the log. The mark tells the two apart: it names the synced watermark, the completion watermark,
//! and the segment that each lane writes.
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
//! What the mark says of the synced watermark holds after any crash, for it was true when it was
//! written. What it says of the rest was in the page cache only, so it counts on the boot that
//! wrote it. A mark of an earlier incarnation than the newest one counts for nothing: a later one
//! names what it must.
//!
//! An old mark does no harm, so a disk without space for it (where files are copied on write) is no
//! failure.

use super::format::{BLOCK_BYTES, Mark};
use super::shared::Shared;
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::{Buffer, Device, Directory, Error, FileOptions};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file's name.
pub(super) const FILE: &str = "log-mark";

/// Both copies, in bytes.
const BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// The mark of an open log. Locked after lanes.
#[derive(Debug)]
pub(super) struct MarkFile {
    file: Arc<dyn Device>,
    state: Mutex<State>,
    /// The completion watermark that was written last.
    named: AtomicU64,
    /// The synced watermark that was written last.
    named_synced: AtomicU64,
    /// One more than the synced watermark that a durable mark names; 0 while there is none.
    durable: AtomicU64,
}

#[derive(Debug)]
struct State {
    mark: Mark,
    /// Whether the incarnation has a durable segment: before that the mark is left alone.
    begun: bool,
}

/// Opens the file, or makes it, durably.
///
/// # Errors
/// As the device says.
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

/// Returns the mark of the store with this identity; in the inner result what is wrong with the
/// file.
///
/// # Errors
/// As the device says.
pub(super) fn read(directory: &dyn Directory, identity: u64) -> Result<std::result::Result<Mark, String>> {
    let file = match directory.open(FILE, FileOptions::BUFFERED) {
        Ok(file) => file,
        Err(Error::NotFound { .. }) => return Ok(Err("no such file".to_owned())),
        Err(error) => return Err(error.into()),
    };
    if file.len() < BYTES {
        return Ok(Err(format!("a file of {} bytes", file.len())));
    }
    let bytes = file.read_at(0, BYTES as usize, Purpose::Recovery)?;
    Ok(match Mark::decode(&bytes) {
        Ok(mark) if mark.identity != identity => Err(format!(
            "the mark of another store (identity {:016x})",
            mark.identity
        )),
        other => other,
    })
}

impl MarkFile {
    /// Returns the mark's file, which is left as it is until [`MarkFile::begin`].
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn open(directory: &dyn Directory, mark: Mark) -> Result<MarkFile> {
        Ok(MarkFile {
            file: prepare(directory)?,
            state: Mutex::new(State { mark, begun: false }),
            named: AtomicU64::new(0),
            named_synced: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        })
    }

    /// Returns whether the file was removed.
    pub(super) fn is_removed(&self) -> bool {
        self.file.is_removed()
    }

    /// Returns whether the incarnation has a durable segment.
    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().begun
    }

    /// Changes the mark and writes it; everything up to `synced` is synced, if no more is. On a
    /// full disk the file stays as it was.
    fn write(&self, shared: &Shared, synced: u64, change: impl FnOnce(&mut Mark)) -> Result<()> {
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
            .write_at(0, Buffer::padded(&mark.encode()), Purpose::Log);
        match written {
            Err(error) if error.is_disk_full() => return Ok(()),
            other => other?,
        };
        self.named.store(mark.complete, Ordering::Relaxed);
        self.named_synced.store(mark.synced, Ordering::Release);
        Ok(())
    }
}

impl Shared {
    /// The incarnation has a durable segment: the mark is this incarnation's from now on.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn begin_mark(&self) -> Result<()> {
        self.mark.state.lock().begun = true;
        self.write_mark(0)
    }

    /// Writes down how far the log has come, and that everything up to `synced` is synced.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn write_mark(&self, synced: u64) -> Result<()> {
        self.mark.write(self, synced, |_| {})
    }

    /// Writes down how far the log has come, unless the mark says so.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn refresh_mark(&self) -> Result<()> {
        let named = self.mark.named.load(Ordering::Relaxed);
        let named_synced = self.mark.named_synced.load(Ordering::Relaxed);
        if named >= self.watermark.completed() && named_synced >= self.commit.synced() {
            return Ok(());
        }
        self.write_mark(0)
    }

    /// Writes down the latest time that readers have read by, unless the mark says so.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn mark_time(&self) -> Result<()> {
        let is_named = self.mark.state.lock().mark.time_ms == self.time_ms.load(Ordering::Acquire);
        if is_named { Ok(()) } else { self.write_mark(0) }
    }

    /// Writes down which segments the lanes write: `changed` names lanes and the numbers of their
    /// segments.
    ///
    /// # Errors
    /// As the device says.
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

    /// Makes durable what the mark says of the synced watermark, so that damage below it is found
    /// whatever crashes.
    ///
    /// # Errors
    /// As the device says.
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

    /// Marks durably that the log was closed and ends at the synced watermark.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn mark_closed(&self) -> Result<()> {
        self.mark.write(self, 0, |mark| mark.closed = true)?;
        self.mark.file.sync(Purpose::Log)?;
        Ok(())
    }
}
