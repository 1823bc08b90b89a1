//! Evicts pages. Dirty pages are written in batches, without holding the shard's mutex.

use super::PageBuffer;
use super::format::seal_page;
use super::frame::FramePin;
use super::pool::PagePool;
use super::shard::{ShardState, WritePhase};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, IoBatch};
use alluvium_storage::{Error, Result};
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

/// Maximum number of pages written by an eviction. They share one journal sync.
pub(super) const WRITTEN_TOGETHER: usize = 32;

impl PagePool {
    /// Frees a frame, or writes dirty pages so that the next call can free one. Returns `true` if
    /// the caller should try again at once. Returns `false` if every frame is pinned or being
    /// written, so the caller must wait.
    pub(super) fn make_space(&self, mut state: MutexGuard<'_, ShardState>) -> Result<bool> {
        let is_idle =
            |state: &ShardState, frame: usize| !self.frames[frame].is_pinned() && !state.is_written(frame);
        let mut references = state.len();
        let first = loop {
            let Some(first) = state.victims(1, |frame| is_idle(&state, frame)).pop() else {
                return Ok(false);
            };
            // Apply references that the queues have not recorded yet. Other threads may keep
            // touching frames, so the number of attempts is bounded.
            references = references.saturating_sub(1);
            if references == 0 || !self.frames[first].is_touched.swap(false, Ordering::Relaxed) {
                break first;
            }
            state.touch(first);
        };
        if !self.frames[first].is_dirty.load(Ordering::Acquire) {
            // The caller must try again whether the frame was evicted here or has been pinned in
            // the meantime.
            self.evict(&mut state, first);
            return Ok(true);
        }
        if let Err(error) = self.writable() {
            return self.make_space_unwritten(state, error);
        }
        let is_victim =
            |frame: usize| is_idle(&state, frame) && self.frames[frame].is_dirty.load(Ordering::Acquire);
        // If other threads have meanwhile pinned all frames without the mutex, there is no victim,
        // and the caller tries again.
        let victims = state.victims(WRITTEN_TOGETHER, is_victim);
        let pins = self.begin_writing(&mut state, &victims);
        drop(state);
        // Other threads may now pin and change these pages, so they are checked again before
        // eviction (PB4).
        let written = {
            let _writing = self.writing.read();
            self.write_back(&victims)
        };
        self.end_writing(&victims, pins);
        match written {
            // If the disk is full, let the operation in progress complete. The pages will be
            // written later.
            Err(error) => self.make_space_unwritten(self.shard_of_frame(first).lock(), error),
            Ok(()) => Ok(true),
        }
    }

    /// Removes a page from its frame. If the page has been pinned or changed in the meantime, which
    /// does not require the mutex, leaves it there and returns `false`.
    pub(super) fn evict(&self, state: &mut ShardState, frame: usize) -> bool {
        let of = &self.frames[frame];
        if !of.close() {
            return false;
        }
        let is_clean = !of.is_dirty.load(Ordering::Acquire);
        if is_clean {
            assert!(!state.is_written(frame), "a page that is written is pinned (PB4)");
            self.detach(state, frame);
        }
        of.reopen();
        is_clean
    }

    /// Frees a frame when no page can be written because of `error`. Evicts a clean page or, if
    /// there is none, adds a spare frame. Returns `error` if there is no spare frame either.
    fn make_space_unwritten(&self, mut state: MutexGuard<'_, ShardState>, error: Error) -> Result<bool> {
        let is_clean = |frame: usize| {
            let of = &self.frames[frame];
            !of.is_pinned() && !state.is_written(frame) && !of.is_dirty.load(Ordering::Acquire)
        };
        for clean in state.victims(WRITTEN_TOGETHER, is_clean) {
            if self.evict(&mut state, clean) {
                return Ok(true);
            }
        }
        state.add_spare().then_some(true).ok_or(error)
    }

    /// Marks frames of one shard as being written, which keeps other threads from writing or
    /// evicting them.
    pub(super) fn begin_writing(&self, state: &mut ShardState, frames: &[usize]) -> Vec<FramePin<'_>> {
        let mut pins = Vec::with_capacity(frames.len());
        for &frame in frames {
            state.note_written(frame, WritePhase::Begins);
            pins.push(FramePin::new(&self.frames[frame], &self.waiters));
        }
        pins
    }

    pub(super) fn end_writing(&self, frames: &[usize], pins: Vec<FramePin<'_>>) {
        let Some(one) = frames.first() else {
            return;
        };
        let mut state = self.shard_of_frame(*one).lock();
        for &frame in frames {
            state.note_written(frame, WritePhase::Ends);
        }
        drop(pins);
        drop(state);
        self.waiters.notify();
    }

    /// Writes those of the frames that are dirty, except frames that a writer has latched. The
    /// caller must hold the lock `writing`, and must have called [`PagePool::begin_writing`] for
    /// the frames.
    pub(super) fn write_back(&self, frames: &[usize]) -> Result<()> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let mut copies: Vec<(usize, u64, AlignedBuffer)> = Vec::with_capacity(frames.len());
        for &frame in frames {
            // Skip latched pages, because an evicting thread that waits for a latch could deadlock.
            let Some(page) = self.frames[frame].latch.try_read() else {
                continue;
            };
            // Clear the mark under the latch and before copying the page, so that a later change
            // sets it again (PB4).
            if self.frames[frame].is_dirty.swap(false, Ordering::AcqRel) {
                copies.push((frame, page.number, AlignedBuffer::padded(page.bytes())));
            }
        }
        let numbers: Vec<u64> = copies.iter().map(|(_, number, _)| *number).collect();
        let mut written: Vec<usize> = copies.iter().map(|(frame, ..)| *frame).collect();
        let result = self.keep_images(&numbers).and_then(|()| {
            let mut batch = IoBatch::with_capacity(copies.len());
            for (_, number, mut copy) in copies {
                seal_page(&mut copy, number, self.identity, epoch + 1);
                batch.write(self.offset(number), copy, Purpose::Incorporate);
            }
            self.writes.fetch_add(batch.len() as u64, Ordering::Relaxed);
            self.device.run(batch).map(drop).map_err(Into::into)
        });
        if let Err(error) = &result {
            written
                .drain(..)
                .for_each(|frame| self.frames[frame].is_dirty.store(true, Ordering::Release));
            self.fail(error);
        }
        result
    }
}
