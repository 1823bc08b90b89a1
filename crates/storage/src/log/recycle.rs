//! Releases log space, and prepares segments in the background before writers need them.

use super::history::RetainedSegment;
use super::segment::{LogSegment, slot_file};
use super::shared::LogInner;
use super::watermark_file;
use crate::Result;
use std::sync::Arc;

/// The result of one step of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareProgress {
    /// The step did some work, and there may be more to do.
    Worked,
    /// There is nothing to do for now.
    Idle,
}

/// The space that a log uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// The size limit of the log, from its options.
    pub limit_bytes: u64,
    /// Total size in bytes of the unreleased segments, to which the limit applies.
    pub live_bytes: u64,
    /// Total size in bytes of the log's files on the file system: live segments, and slots that are
    /// ready or free.
    pub disk_bytes: u64,
    /// Bytes that may be resident in memory and are charged to the memory budget: mapped slots, and
    /// the completion watermark's ring.
    pub resident_bytes: u64,
    /// Number of unreleased segments.
    pub segments: usize,
    /// Number of slots that are ready for a lane.
    pub ready_slots: usize,
    /// Number of released slots whose space is still allocated.
    pub free_slots: usize,
    /// Number of released slots whose space was returned to the file system.
    pub punched_slots: usize,
    /// Number of file syncs and mapped-range syncs since the log was opened.
    pub syncs: u64,
    /// Number of group commit syncs since the log was opened.
    pub commit_rounds: u64,
}

impl LogInner {
    /// Implements [`WriteAheadLog::release`](super::WriteAheadLog::release).
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn release(&self, through: u64) -> Result<()> {
        self.commit.healthy()?;
        self.raise_released(through);
        let pinned = self.pinned();
        let left: Vec<_> = self
            .lanes
            .each()
            .filter_map(|mut lane| lane.leave(through, pinned))
            .map(|lane| (lane, None))
            .collect();
        let overtaken = |segment: &mut Arc<LogSegment>| {
            !segment.is_active() && segment.highest() <= through && segment.header.number != pinned
        };
        let (released, forgotten) = {
            let mut table = self.table.lock();
            let released: Vec<_> = table.extract_if(.., overtaken).collect();
            for segment in &released {
                debug_assert!(segment.highest() <= through, "only what is released goes");
                self.pool.retire(&segment.slot);
            }
            debug_assert!(
                table.iter().any(|segment| segment.header.number == self.pinned()),
                "the segment that names the newest generation stays (L8)"
            );
            if self.history.keeps() {
                // Update the history while the table is locked, so that a reader always finds a
                // segment in one or the other.
                let kept = released.iter().map(|segment| RetainedSegment::of(segment));
                (Vec::new(), self.history.keep(kept))
            } else {
                self.history.forget_all(&released);
                let none = std::iter::empty();
                (released, self.history.keep(none))
            }
        };
        let give_back = || {
            // Write the mark before removing the segments, so that every segment named in the mark
            // exists.
            self.mark_lanes(&left)?;
            self.pool.begin_release()?;
            released
                .iter()
                .try_for_each(|segment| self.pool.give_back(Arc::clone(&segment.slot)))?;
            forgotten.iter().try_for_each(|kept| self.forget(kept))
        };
        give_back().map_err(|error| self.poison_unless_full(error))
    }

    /// Implements [`WriteAheadLog::prepare`](super::WriteAheadLog::prepare).
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn prepare(&self) -> Result<PrepareProgress> {
        self.commit.healthy()?;
        let worked = self
            .prepare_some()
            .map_err(|error| self.poison_unless_full(error))?;
        Ok(if worked {
            PrepareProgress::Worked
        } else {
            PrepareProgress::Idle
        })
    }

    fn prepare_some(&self) -> Result<bool> {
        for lane in 0..self.lanes.count() {
            let position = {
                let lane = self.lanes.get(lane);
                lane.position().map(|(segment, at)| (Arc::clone(segment), at))
            };
            let populated = position.map(|(segment, at)| segment.slot.populate_ahead(at));
            if populated.transpose()?.is_some_and(|bytes| bytes > 0) {
                return Ok(true);
            }
        }
        if self.pool.prepare(self.lanes.count())? {
            return Ok(true);
        }
        // Do not report a mark write as work. Otherwise the background thread would rewrite the
        // mark continuously while there are writers.
        self.refresh_mark()?;
        Ok(false)
    }

    /// Implements [`WriteAheadLog::close`](super::WriteAheadLog::close).
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn close(&self) -> Result<()> {
        self.commit.healthy()?;
        if self.run_postponed().is_err_and(|error| error.is_full()) {
            // Nothing was appended since the log was opened, so the next opening will find the same
            // state.
            self.commit.poison("the log was closed");
            return Ok(());
        }
        debug_assert!(
            self.commit.synced() >= self.released(),
            "what is released is synced"
        );
        self.wait_synced(self.watermark.completed())?;
        self.mark_closed()
            .map_err(|error| self.poison_unless_full(error))?;
        self.commit.poison("the log was closed");
        Ok(())
    }

    #[must_use]
    pub(super) fn removed_file(&self) -> Option<String> {
        let table = self.table.lock();
        let removed = table.iter().find(|segment| segment.slot.file.is_removed());
        let segment = removed.map(|segment| slot_file(segment.slot.index));
        segment.or_else(|| self.mark.is_removed().then(|| watermark_file::FILE.to_owned()))
    }

    #[must_use]
    pub(super) fn has_space(&self) -> bool {
        self.pool.has_space()
    }

    #[must_use]
    pub(super) fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes
    }

    #[must_use]
    pub(super) fn usage(&self) -> LogUsage {
        let table = self.table.lock();
        let pool = self.pool.usage();
        let resident: u64 = table.iter().map(|segment| segment.slot.resident()).sum();
        LogUsage {
            limit_bytes: self.options.limit_bytes,
            live_bytes: pool.live_bytes,
            disk_bytes: pool.live_bytes + pool.idle_bytes,
            resident_bytes: resident + pool.idle_resident_bytes + crate::watermark::BYTES,
            segments: table.len(),
            ready_slots: pool.ready,
            free_slots: pool.free,
            punched_slots: pool.holes,
            syncs: self.syncs(),
            commit_rounds: self.commit.rounds(),
        }
    }
}
