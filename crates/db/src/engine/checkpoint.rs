//! Checkpoints: durable generations of all dictionaries.
//!
//! ```text
//!   prepared    each dictionary has written most of what it needs     while everything goes on
//!   standing    each has written the rest and said its root; none changes
//!   listed      the manifest has the roots                            structures/checkpoint.rs
//!   cut         the extents are those that the roots lead to          they go on
//!   durable     the superblock names the manifest                     storage::store
//! ```

use super::steps::{FlushCaller, SliceOutcome};
use super::{Engine, structures::PendingCheckpoint};
use crate::error::Result;
use std::sync::atomic::Ordering;

impl Engine {
    /// Makes a checkpoint. Does nothing if another thread is making one.
    pub(crate) fn try_checkpoint(&self) -> Result<SliceOutcome> {
        let Some(_alone) = self.work.checkpoint.try_lock() else {
            return Ok(SliceOutcome::Nothing);
        };
        self.checkpoint_alone()?;
        Ok(SliceOutcome::Something)
    }

    fn checkpoint_alone(&self) -> Result<()> {
        self.note_time();
        self.guarded("a checkpoint", || {
            while !self.make_checkpoint()? {
                // After an error, a memtable may have been flushed into only some of the
                // dictionaries. Flush it into the others.
                if self.incorporate_in(usize::MAX, FlushCaller::Checkpoint)? == SliceOutcome::Nothing {
                    std::thread::yield_now();
                }
            }
            Ok(())
        })
    }

    /// Makes the contents of all dictionaries durable as a new generation. If the dictionaries do
    /// not all contain the same commits, makes no generation and returns false.
    fn make_checkpoint(&self) -> Result<bool> {
        self.store.health()?;
        let _slice = self.work.slice();
        self.work.checkpoint_is_wanted.store(false, Ordering::Relaxed);
        let _span = tracing::debug_span!("checkpoint", cut = self.dictionaries.cut()).entered();
        let Some(begun) = self.dictionaries.cut_generation(&self.store)? else {
            return Ok(false);
        };
        let PendingCheckpoint {
            checkpoint,
            payload,
            at,
        } = begun;
        checkpoint.finish(&payload, at)?;
        self.dictionaries.remove_left_pages();
        self.dictionaries.empty_unused()?;
        self.work.covered.fetch_max(at, Ordering::AcqRel);
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.throttle.wake_writers();
        Ok(true)
    }

    /// Flushes all acknowledged commits to the dictionaries and makes a checkpoint of them.
    pub(crate) fn checkpoint_everything(&self) -> Result<()> {
        let cut = self.queue.seal();
        self.visible.wait_for(cut);
        while self.dictionaries.cut() < cut {
            self.store.health()?;
            if self.incorporate_slice(usize::MAX)? == SliceOutcome::Nothing {
                // Another thread is flushing a memtable. Wait for it.
                std::thread::yield_now();
            }
        }
        if self.work.covered.load(Ordering::Acquire) < cut {
            self.checkpoint_now()?;
        }
        Ok(())
    }

    /// Makes a checkpoint. If another thread is making one, waits until that checkpoint is finished
    /// before making its own.
    pub(crate) fn checkpoint_now(&self) -> Result<()> {
        let _alone = self.work.checkpoint.lock();
        self.checkpoint_alone()
    }
}
