//! The pool of slots that no lane is using. The pool creates slots in advance, hands them to lanes,
//! takes them back after their segments are released, and punches holes in files that stay idle for
//! long.
//!
//! ```text
//!            create ┐                        ┌──── punch ◄── idle for long ──┐
//!                   ▼                        ▼                               │
//!    (disk)  ──► ready ──► a lane's segment ──► released ──► free ───────────┘
//!                   ▲                                         │      holes ──► allocate ──► ready
//!                   └──────────── recycle ◄───────────────────┘
//! ```
//!
//! By the time the pool gives a slot to a lane, the file's name is durable and its space is
//! allocated. A full disk is therefore detected in the pool, before anything is written. Some of
//! the ready slots form the reserve, which ordinary writes must not use.

use super::options::{AppendPriority, LogOptions, MIN_SEGMENT, SegmentAccess};
use super::segment::{SegmentSlot, slot_file};
use crate::log::format::{BLOCK_BYTES, RECORD_BYTES};
use crate::{Error, Result};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Slot sizes are multiples of this number of bytes.
const PAGE: u64 = 4096;

/// Number of bytes of a slot to prefault in a single [`SlotPool::prepare`] call.
const POPULATE_SLICE: u64 = 1 << 20;

/// Number of segments by which control records may exceed the log's size limit.
pub(super) const CONTROL_SEGMENTS: u64 = 3;

/// Maximum size in bytes of a new log's first slots if the log starts small. They are smaller still
/// if a sixteenth of a segment is less.
const SHORT: u64 = 16 << 10;

/// As a log that starts small grows, its new slots have 1/`PARTS_OF_LOG` of the log's peak size, or
/// 1/`PARTS_OF_STORE` of the store's size at opening, whichever is larger. The fractions are small
/// because about half a dozen slots are kept ready for writers.
const PARTS_OF_LOG: u64 = 4;
const PARTS_OF_STORE: u64 = 32;

/// Once this many [`SlotPool::prepare`] calls have found nothing else to do since a lane last took
/// a slot, each further idle call punches a hole in a free slot's file, which returns its space to
/// the file system.
const IDLE_STEPS: u64 = 16;

/// Returns the minimum size of a slot for a record of `total` bytes, which must also hold the
/// segment header and the seal record.
fn length_with(total: u64) -> u64 {
    total + (BLOCK_BYTES + RECORD_BYTES) as u64
}

/// The slots that no lane uses: ready slots, free slots, and holes, which are files without
/// allocated space.
#[derive(Debug)]
pub(super) struct SlotPool {
    directory: Arc<dyn Directory>,
    options: LogOptions,
    /// Whether to ignore the log's size limit, because a recovery must be able to write even if the
    /// log was full.
    unlimited: AtomicBool,
    /// Whether slots are memory-mapped. Cleared for good if the file system does not support
    /// mappings.
    mapped: AtomicBool,
    /// Whether the log is new and almost nothing has been written to it. While this is set, no
    /// slots are prepared for writers.
    untouched: AtomicBool,
    idle: Mutex<IdleSlots>,
}

#[derive(Debug, Default)]
struct IdleSlots {
    /// Slots that are allocated and mapped. [`SlotPool::prepare`] prefaults their pages step by
    /// step.
    ready: Vec<Arc<SegmentSlot>>,
    /// Slots whose segments were released, each with the value of `releases` at that time. Their
    /// pages may still be resident.
    free: Vec<(Arc<SegmentSlot>, u64)>,
    /// Slots whose files have no allocated space.
    holes: Vec<Arc<SegmentSlot>>,
    /// The short slots in which a log that starts small stores its first records.
    short: Vec<Arc<SegmentSlot>>,
    /// Numbers of all slots for which a file exists.
    names: BTreeSet<u32>,
    /// Current and peak total size in bytes of the slots that lanes use.
    live: u64,
    peak: u64,
    /// The value that `live` reached when a record longer than a segment exceeded the limit. Reset
    /// to 0 once `live` is within the limit again.
    overrun_live: u64,
    releases: u64,
    idle_steps: u64,
}

impl IdleSlots {
    /// Sets the total size in bytes of the slots that lanes use, and updates the peak.
    fn set_live(&mut self, live: u64) {
        self.live = live;
        self.peak = self.peak.max(live);
        debug_assert!(self.live <= self.peak, "the most that ever were");
    }

    /// Returns a short slot if the record fits into it and a request of this priority may use it.
    /// The last short slot is kept for essential writes.
    fn take_short(&mut self, total: u64, claim: SlotPriority) -> Option<Arc<SegmentSlot>> {
        let kept = usize::from(claim == SlotPriority::Normal);
        let fits = length_with(total) <= self.short.last()?.len;
        if fits && self.short.len() > kept {
            self.short.pop()
        } else {
            None
        }
    }

    /// Subtracts the size of a slot that its lane no longer uses from `live`.
    fn shrink(&mut self, len: u64, limit_bytes: u64) {
        assert!(
            len <= self.live,
            "{len} bytes leave a log with {} live ones",
            self.live
        );
        self.live -= len;
        if self.live <= limit_bytes {
            self.overrun_live = 0;
        }
    }
}

/// The space that the slots of the log use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolUsage {
    /// Total size in bytes of the slots that lanes use.
    pub(super) live_bytes: u64,
    /// Total size in bytes of the slots that are ready or free.
    pub(super) idle_bytes: u64,
    /// Size in bytes of the ready and free slots whose pages may be resident in memory because they
    /// are mapped.
    pub(super) idle_resident_bytes: u64,
    /// Number of slots that are ready for a lane.
    pub(super) ready: usize,
    /// Number of released slots whose space is still allocated.
    pub(super) free: usize,
    /// Number of released slots whose space was returned to the file system.
    pub(super) holes: usize,
}

/// Whether the log's size limit is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitEnforcement {
    Kept,
    /// The limit is ignored, for example during a recovery.
    Ignored,
}

/// What the header block of an unused slot contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotHeader {
    /// Zeros, so that a recovery does not find a segment in this slot.
    Blank,
    /// The header of a released segment, or damaged data.
    Stale,
}

/// The purpose for which a slot is requested. Each priority may use more of the limit and more of
/// the ready slots than the priority before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SlotPriority {
    /// Ordinary writes. They must not use the reserve.
    Normal,
    /// Deletes and other essential writes. They may use the reserve.
    Essential,
    /// The record with the lowest incomplete sequence number. Nothing can be released until it is
    /// written.
    Unblock,
    /// Records that name a generation, and the record that marks a clean close. Nothing can be
    /// released until the generation is recorded.
    Control,
}

impl From<AppendPriority> for SlotPriority {
    fn from(importance: AppendPriority) -> SlotPriority {
        match importance {
            AppendPriority::Normal => SlotPriority::Normal,
            AppendPriority::Essential => SlotPriority::Essential,
        }
    }
}

/// A slot that the pool gives to a lane.
#[derive(Debug)]
pub(super) struct SlotGrant {
    pub(super) slot: Arc<SegmentSlot>,
    /// Whether the slot exceeds the limit for ordinary writes, which must then not use it until
    /// space is released.
    pub(super) reserved: bool,
}

impl SlotPool {
    /// Creates a pool without slots. `names` must contain the numbers of all slots whose files
    /// already exist.
    #[must_use]
    pub(super) fn new(directory: Arc<dyn Directory>, options: LogOptions, names: BTreeSet<u32>) -> SlotPool {
        SlotPool {
            directory,
            unlimited: AtomicBool::new(false),
            mapped: AtomicBool::new(options.access == SegmentAccess::Mapped),
            untouched: AtomicBool::new(false),
            options,
            idle: Mutex::new(IdleSlots {
                names,
                ..IdleSlots::default()
            }),
        }
    }

    /// Sets whether the limit of the log is ignored.
    pub(super) fn ignore_limit(&self, ignore: LimitEnforcement) {
        self.unlimited
            .store(ignore == LimitEnforcement::Ignored, Ordering::Relaxed);
    }

    /// Returns whether the limit of the log is ignored.
    #[must_use]
    pub(super) fn ignores_limit(&self) -> bool {
        self.unlimited.load(Ordering::Relaxed)
    }

    /// Returns whether slots are memory-mapped.
    #[must_use]
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.load(Ordering::Relaxed)
    }

    /// Returns the size in bytes of new slots. It never decreases, so that existing slots can be
    /// reused.
    fn usual_length(&self, idle: &IdleSlots) -> u64 {
        let LogOptions {
            segment_bytes,
            starts_small,
            stored_bytes,
            ..
        } = self.options;
        if !starts_small {
            return segment_bytes;
        }
        let part = (idle.peak / PARTS_OF_LOG).max(stored_bytes / PARTS_OF_STORE);
        let length = part.checked_next_power_of_two().unwrap_or(segment_bytes);
        let length = length.max(self.shortest()).min(segment_bytes);
        debug_assert!(
            (MIN_SEGMENT..=segment_bytes).contains(&length),
            "a slot of {length} bytes, a segment of {segment_bytes}"
        );
        length
    }

    /// Returns the size in bytes of the first slots of a log that starts small.
    fn shortest(&self) -> u64 {
        (self.options.segment_bytes / 16).clamp(MIN_SEGMENT, SHORT)
    }

    /// Returns the slot size in bytes for a segment that must hold a record of `total` bytes.
    fn length_for(&self, idle: &IdleSlots, total: u64) -> u64 {
        let needed = length_with(total);
        if needed <= self.options.segment_bytes {
            let length = needed.next_power_of_two().min(self.options.segment_bytes);
            length.max(self.usual_length(idle))
        } else {
            needed.next_multiple_of(PAGE)
        }
    }

    /// Returns the number of reserve slots, plus one slot for the record that names a generation.
    fn reserve_slots(&self) -> usize {
        (self.options.reserve_bytes / self.options.segment_bytes) as usize + 1
    }

    /// Returns how many live bytes requests of this priority may reach. After a long record has
    /// exceeded the limit, mandatory writes may exceed it as well.
    fn allowance(&self, idle: &IdleSlots, claim: SlotPriority) -> u64 {
        debug_assert!(
            self.options.reserve_bytes <= self.options.limit_bytes,
            "the reserve is a part of the limit"
        );
        let LogOptions {
            limit_bytes,
            reserve_bytes,
            segment_bytes,
            ..
        } = self.options;
        match claim {
            _ if self.unlimited.load(Ordering::Relaxed) => u64::MAX,
            SlotPriority::Normal => limit_bytes - reserve_bytes,
            SlotPriority::Essential => limit_bytes,
            SlotPriority::Unblock => limit_bytes.max(idle.overrun_live) + segment_bytes,
            SlotPriority::Control => limit_bytes.max(idle.overrun_live) + CONTROL_SEGMENTS * segment_bytes,
        }
    }

    /// Returns how many ready slots a request of this priority must leave for others.
    fn keeps(&self, claim: SlotPriority) -> usize {
        match claim {
            SlotPriority::Normal => self.reserve_slots(),
            SlotPriority::Essential => 1,
            SlotPriority::Unblock | SlotPriority::Control => 0,
        }
    }

    /// Returns whether requests of this priority may append to a segment that is beyond the limit
    /// for ordinary writes.
    #[must_use]
    pub(super) fn has_room(&self, claim: SlotPriority) -> bool {
        let idle = self.idle.lock();
        idle.live <= self.allowance(&idle, claim)
    }

    /// Returns whether an ordinary write can get a slot without allocating space on the file
    /// system.
    #[must_use]
    pub(super) fn has_space(&self) -> bool {
        let idle = self.idle.lock();
        idle.short.len() > 1 || idle.ready.len() > self.keeps(SlotPriority::Normal) || !idle.free.is_empty()
    }

    /// Returns a slot for a lane, long enough for a segment with a record of `total` bytes.
    ///
    /// # Errors
    /// [`Error::LogFull`] if the limit is reached, and `DiskFull` if the file system is full; in
    /// both cases nothing has changed. I/O errors.
    pub(super) fn take(&self, total: u64, claim: SlotPriority) -> Result<SlotGrant> {
        let mut idle = self.idle.lock();
        let len = self.length_for(&idle, total);
        let live = idle.live + len;
        let allowance = self.allowance(&idle, claim);
        // A record longer than a segment may exceed the limit as long as half of the allowance is
        // free. Otherwise it could never be written.
        let is_let_past = len > self.options.segment_bytes && idle.live <= allowance / 2;
        if live > allowance && !is_let_past {
            return Err(Error::LogFull {
                wanted: total,
                live: idle.live,
                limit: self.options.limit_bytes,
                reserve: live <= self.options.limit_bytes,
            });
        }
        let reserved = live > self.allowance(&idle, SlotPriority::Normal);
        idle.set_live(live);
        if is_let_past && live > self.options.limit_bytes {
            idle.overrun_live = live;
        }
        idle.idle_steps = 0;
        let short = idle.take_short(total, claim);
        if claim != SlotPriority::Control && idle.short.len() < self.options.lanes {
            // A writer has filled a short slot, or several writers have started, so slots are
            // prepared in advance from now on.
            self.untouched.store(false, Ordering::Relaxed);
        }
        if let Some(slot) = short {
            drop(idle);
            return self.account(len, Ok(slot), reserved);
        }
        if len > self.options.segment_bytes {
            drop(idle);
            return self.account(len, self.create(len), reserved);
        }
        let least = length_with(total);
        if idle.ready.len() > self.keeps(claim)
            && let Some(at) = idle.ready.iter().position(|slot| slot.len >= least)
        {
            let slot = idle.ready.remove(at);
            drop(idle);
            return self.account(len, Ok(slot), reserved);
        }
        let free = idle.free.iter().rposition(|(slot, _)| slot.len >= least);
        let slot = free.map(|at| idle.free.remove(at).0);
        drop(idle);
        self.account(len, self.refresh_or_make(slot, least, len), reserved)
    }

    /// Finishes taking a slot for which `len` was already added to the live bytes. If the slot is
    /// shorter or could not be obtained, the difference is subtracted again.
    fn account(&self, len: u64, slot: Result<Arc<SegmentSlot>>, reserved: bool) -> Result<SlotGrant> {
        let slot = slot.and_then(|slot| self.map(slot));
        match slot {
            Ok(slot) => {
                assert!(slot.len <= len, "a slot of {} bytes, {len} counted", slot.len);
                self.idle.lock().live -= len - slot.len;
                Ok(SlotGrant { slot, reserved })
            }
            Err(error) => {
                self.idle.lock().shrink(len, self.options.limit_bytes);
                Err(error)
            }
        }
    }

    /// Maps the slot into memory if slots are mapped. If the file system does not support mappings,
    /// the pool stops mapping slots.
    fn map(&self, slot: Arc<SegmentSlot>) -> Result<Arc<SegmentSlot>> {
        if self.is_mapped() {
            match slot.map() {
                Ok(_) => {}
                Err(alluvium_device::Error::Unsupported { .. }) => {
                    self.mapped.store(false, Ordering::Relaxed);
                }
                Err(error) => {
                    let mut idle = self.idle.lock();
                    let releases = idle.releases;
                    idle.free.push((slot, releases));
                    return Err(error.into());
                }
            }
        }
        Ok(slot)
    }

    /// Returns a slot with allocated space: `used` if possible, otherwise a hole, otherwise a new
    /// slot. A reused slot has at least `least` bytes, a new slot has `len`. Without memory
    /// mappings, a used slot must be allocated again, because the file system may place the data of
    /// a write call in new blocks.
    fn refresh_or_make(
        &self,
        used: Option<Arc<SegmentSlot>>,
        least: u64,
        len: u64,
    ) -> Result<Arc<SegmentSlot>> {
        let Some(slot) = used else {
            return self.fill_hole_or_create(least, len);
        };
        if self.is_mapped() {
            return Ok(slot);
        }
        match slot.file.renew(0..slot.len) {
            Ok(()) => Ok(slot),
            Err(error) => {
                self.idle.lock().holes.push(slot);
                if error.is_disk_full() {
                    self.fill_hole_or_create(least, len)
                } else {
                    Err(error.into())
                }
            }
        }
    }

    /// Allocates space for a hole of at least `least` bytes, or creates a slot of `len` bytes.
    fn fill_hole_or_create(&self, least: u64, len: u64) -> Result<Arc<SegmentSlot>> {
        let holes = std::mem::take(&mut self.idle.lock().holes);
        let mut filled = None;
        let mut left = Vec::with_capacity(holes.len());
        let mut failure = None;
        for slot in holes {
            if filled.is_some() || failure.is_some() || slot.len < least {
                left.push(slot);
                continue;
            }
            let whole = || 0..slot.len;
            match slot
                .file
                .renew(whole())
                .and_then(|()| slot.file.allocate(whole()))
            {
                Ok(()) => filled = Some(slot),
                // Another hole may still have space on the file system.
                Err(error) if error.is_disk_full() => left.push(slot),
                Err(error) => failure = Some(error),
            }
        }
        self.idle.lock().holes.extend(left);
        match (filled, failure) {
            (Some(slot), _) => {
                slot.prove(self.directory.as_ref())?;
                slot.forget_populated();
                Ok(slot)
            }
            (None, Some(error)) => Err(error.into()),
            (None, None) => self.create(len),
        }
    }

    /// Creates the short slots of a new log: one for each lane, one for the record that names a
    /// generation, and one as the reserve. To keep a new store small, nothing more is prepared
    /// until writers have used some of them.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn start_small(&self) -> Result<()> {
        let len = self.shortest();
        for _ in 0..self.options.lanes + 2 {
            let slot = self.create(len)?;
            self.idle.lock().short.push(slot);
        }
        self.untouched.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Creates a slot of `len` bytes. Its file's name and size are durable when this returns.
    fn create(&self, len: u64) -> Result<Arc<SegmentSlot>> {
        assert!(
            len > BLOCK_BYTES as u64,
            "a segment of {len} bytes has no records"
        );
        let index = {
            let mut idle = self.idle.lock();
            let index = (0..).find(|index| !idle.names.contains(index));
            let index = index.expect("there are fewer files than numbers");
            idle.names.insert(index);
            index
        };
        let name = slot_file(index);
        let made = self
            .directory
            .create(&name, FileOptions::BUFFERED)
            .and_then(|file| {
                file.grow(len)?;
                let mut slot = SegmentSlot::new(index, file, len);
                slot.is_long = len > self.options.segment_bytes;
                slot.prove(self.directory.as_ref())?;
                Ok(Arc::new(slot))
            });
        match made {
            Ok(slot) => Ok(slot),
            Err(error) => {
                // Try to remove the incomplete file. If that fails too, the next opening sees that
                // the file contains no segment.
                if self.directory.remove(&name).is_ok() {
                    self.idle.lock().names.remove(&index);
                }
                Err(error.into())
            }
        }
    }

    /// Subtracts the size of a released slot from the live bytes.
    pub(super) fn retire(&self, slot: &SegmentSlot) {
        self.idle.lock().shrink(slot.len, self.options.limit_bytes);
    }

    /// Returns a slot to the pool after its segment was released.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn give_back(&self, slot: Arc<SegmentSlot>) -> Result<()> {
        // A slot of any other size is removed, so that longer slots replace the first ones as the
        // log grows.
        let usual = self.usual_length(&self.idle.lock());
        if slot.len != usual {
            return self.remove(slot.index);
        }
        debug_assert!(
            self.idle.lock().names.contains(&slot.index),
            "a slot has its name until it is removed"
        );
        slot.sync_in_background()?;
        Self::blank(&slot)?;
        slot.forget_populated();
        let mut idle = self.idle.lock();
        debug_assert!(
            idle.free.iter().all(|(free, _)| free.index != slot.index),
            "a slot is given back once"
        );
        let releases = idle.releases;
        idle.free.push((slot, releases));
        Ok(())
    }

    /// Overwrites a slot's header with zeros so that the next recovery need not read the slot.
    /// Correctness does not depend on this, because the contents are released.
    fn blank(slot: &SegmentSlot) -> Result<()> {
        let blanked = slot
            .file
            .write_at(0, AlignedBuffer::zeroed(BLOCK_BYTES), Purpose::Log);
        match blanked {
            Err(error) if !error.is_disk_full() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes the file of a slot that is no longer needed.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn remove(&self, index: u32) -> Result<()> {
        self.directory.remove(&slot_file(index))?;
        self.idle.lock().names.remove(&index);
        Ok(())
    }

    /// Adds an unused slot that recovery found. Its space may not be allocated.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn adopt(&self, slot: Arc<SegmentSlot>, header: SlotHeader) -> Result<()> {
        let usual = self.usual_length(&self.idle.lock());
        let is_kept = match self.options.starts_small {
            // Keep shorter slots too: if the disk is full, there may be no others.
            true => (self.shortest()..=usual).contains(&slot.len),
            false => slot.len == usual,
        };
        if !is_kept {
            return self.remove(slot.index);
        }
        // A log that retained released segments for its readers may have left more files than it
        // will ever use again.
        let most = self.options.limit_bytes / self.options.segment_bytes + CONTROL_SEGMENTS;
        if self.idle.lock().holes.len() as u64 >= most {
            return self.remove(slot.index);
        }
        if header == SlotHeader::Stale {
            Self::blank(&slot)?;
        }
        self.idle.lock().holes.push(slot);
        Ok(())
    }

    /// Adds the size of a slot that recovery found in use to the live bytes.
    pub(super) fn count_live(&self, len: u64) {
        debug_assert!(len > 0, "a live segment has records");
        let mut idle = self.idle.lock();
        let live = idle.live + len;
        idle.set_live(live);
    }

    /// Begins a release. Call this once for each release, before returning any slots. It punches
    /// holes in the slots that have been free since before the previous release.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn begin_release(&self) -> Result<()> {
        let idle_slots: Vec<_> = {
            let mut idle = self.idle.lock();
            idle.releases += 1;
            let releases = idle.releases;
            // The most recently freed slots are at the end of the list, so the idle slots are at
            // the front.
            let count = idle.free.partition_point(|(_, freed)| freed + 1 < releases);
            idle.free.drain(..count).map(|(slot, _)| slot).collect()
        };
        idle_slots.into_iter().try_for_each(|slot| self.punch(slot))
    }

    fn punch(&self, slot: Arc<SegmentSlot>) -> Result<()> {
        assert!(
            slot.len <= self.options.segment_bytes,
            "the slot of a long record is not kept"
        );
        slot.file.punch_hole(0..slot.len)?;
        self.idle.lock().holes.push(slot);
        Ok(())
    }

    /// Performs one step of preparing slots for writers. Returns whether there was anything to do.
    ///
    /// # Errors
    /// I/O errors. A full disk is not an error here, because the next append will detect it.
    pub(super) fn prepare(&self, lanes: usize) -> Result<bool> {
        let unpopulated = {
            let idle = self.idle.lock();
            [&idle.short[..], &idle.ready[..]].concat()
        };
        for slot in unpopulated {
            if slot.populate(0, POPULATE_SLICE)? > 0 {
                return Ok(true);
            }
        }
        if self.make_ready(lanes + self.reserve_slots())? {
            return Ok(true);
        }
        let idle_slot = {
            let mut idle = self.idle.lock();
            idle.idle_steps += 1;
            let long = idle.idle_steps > IDLE_STEPS && !idle.free.is_empty();
            long.then(|| idle.free.remove(0).0)
        };
        match idle_slot {
            Some(slot) => self.punch(slot).map(|()| true),
            None => Ok(false),
        }
    }

    /// Prepares one slot, unless `target` slots are ready or another slot would exceed the limit.
    /// Returns whether a slot was prepared.
    ///
    /// # Errors
    /// As [`SlotPool::prepare`].
    pub(super) fn make_ready(&self, target: usize) -> Result<bool> {
        if self.untouched.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let (free, len) = {
            let mut idle = self.idle.lock();
            let len = self.usual_length(&idle);
            debug_assert!(
                idle.ready.iter().all(|slot| slot.len <= len),
                "slots become no shorter"
            );
            let ready: u64 = idle.ready.iter().map(|slot| slot.len).sum();
            let next = idle.live + ready + len;
            // Always keep at least one slot ready, even if it exceeds the log's size limit. The
            // record that starts a new generation needs a slot, and nothing can be released until
            // it is written.
            let room = idle.ready.is_empty() || next <= self.options.limit_bytes;
            if idle.ready.len() >= target || !room {
                return Ok(false);
            }
            (idle.free.pop().map(|(slot, _)| slot), len)
        };
        let made = self.refresh_or_make(free, PAGE, len);
        match made.and_then(|slot| self.map(slot)) {
            Ok(slot) => {
                debug_assert!(
                    slot.len <= self.options.segment_bytes,
                    "the slot of a long record is not kept"
                );
                self.idle.lock().ready.push(slot);
                Ok(true)
            }
            Err(error) if error.is_full() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Prepares all slots of the reserve. Returns whether the reserve is complete.
    ///
    /// # Errors
    /// As [`SlotPool::prepare`].
    pub(super) fn fill_reserve(&self) -> Result<bool> {
        while self.make_ready(self.reserve_slots())? {}
        Ok(self.idle.lock().ready.len() >= self.reserve_slots())
    }

    /// Returns the most live bytes that requests of any priority may reach.
    #[must_use]
    pub(super) fn most_bytes(&self) -> u64 {
        self.allowance(&self.idle.lock(), SlotPriority::Control)
    }

    /// Returns the space that the slots of the log use.
    #[must_use]
    pub(super) fn usage(&self) -> PoolUsage {
        let idle = self.idle.lock();
        let free = || idle.free.iter().map(|(slot, _)| slot);
        let kept = || idle.ready.iter().chain(free()).chain(&idle.short);
        PoolUsage {
            live_bytes: idle.live,
            idle_bytes: kept().map(|slot| slot.len).sum(),
            idle_resident_bytes: kept().map(|slot| slot.resident()).sum(),
            ready: idle.ready.len(),
            free: idle.free.len(),
            holes: idle.holes.len(),
        }
    }
}
