//! Asynchronous reads, which are requested together and polled until all are finished.

use super::NodeCache;
use super::read::{BatchRead, NodeLookup, SubmittedBatch};
use alluvium_device::{Device, Ticket};
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A set of reads that were requested together. The caller polls it until the reads are finished,
/// and can then look up the nodes.
///
/// Dropping the set before the reads are finished does not cancel them. A later cache operation
/// completes them.
pub struct PendingReads {
    cache: NodeCache,
    readings: Vec<Arc<BatchRead>>,
    skipped: usize,
}

impl PendingReads {
    pub(super) fn new(cache: &NodeCache, joined: Vec<NodeLookup>) -> PendingReads {
        let mut readings: Vec<Arc<BatchRead>> = Vec::new();
        let mut skipped = 0;
        for joined in joined {
            match joined {
                NodeLookup::Reading { reading, .. } => {
                    if !readings.iter().any(|known| Arc::ptr_eq(known, &reading)) {
                        readings.push(reading);
                    }
                }
                NodeLookup::Skipped => skipped += 1,
                NodeLookup::Frame(_) => {}
            }
        }
        PendingReads {
            cache: cache.clone(),
            readings,
            skipped,
        }
    }

    /// Finishes reads that have completed, without blocking. Returns whether all reads are
    /// finished. This includes failed reads: a later lookup of their nodes reads them again and
    /// returns the error.
    pub fn poll(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_finish(reading, &guard));
        self.readings.is_empty()
    }

    /// Like [`PendingReads::poll`], but does not poll the device, and so finishes only reads
    /// already known to have completed.
    pub fn settle(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_settle(reading, &guard));
        self.readings.is_empty()
    }

    /// Like [`PendingReads::poll`], but registers `waker` if reads are still pending. The waker is
    /// called when another poll can make progress. For this to work, some thread must wait for the
    /// device for each [`WatchedRead`] passed to `watch`.
    pub fn poll_with(&mut self, waker: &Waker, mut watch: impl FnMut(WatchedRead)) -> Poll<()> {
        loop {
            if self.poll() {
                return Poll::Ready(());
            }
            debug_assert!(!self.readings.is_empty(), "what is not over has readings");
            let reading = &self.readings[0];
            match reading.wake(waker, ReadTicket::of) {
                // Another thread has finished this read meanwhile.
                None => {}
                Some(watching) => {
                    if let Some(watching) = watching {
                        watch(WatchedRead {
                            cache: self.cache.clone(),
                            reading: Arc::clone(reading),
                            watching,
                        });
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Waits until some read completes on the device part that executes the first pending read. It
    /// may be a different read.
    pub fn wait_some(&mut self) {
        if let Some(reading) = self.readings.first() {
            match reading.peek_job(ReadTicket::of) {
                Some(watching) => watching.device.wait_some(&watching.ticket),
                // Another thread is just finishing this read.
                None => std::thread::yield_now(),
            }
        }
    }

    /// Waits until all reads are finished.
    pub fn wait(&mut self) {
        let guard = self.cache.shared.epochs.pin();
        for reading in self.readings.drain(..) {
            self.cache.shared.finish(&reading, &guard);
        }
    }

    /// Returns the number of nodes that were skipped because no frame was available. If there are
    /// any, the caller should read less far ahead.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

impl Drop for PendingReads {
    fn drop(&mut self) {
        if !self.readings.is_empty() {
            self.cache.shared.orphans.lock().append(&mut self.readings);
        }
    }
}

impl fmt::Debug for PendingReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReads")
            .field("batches", &self.readings.len())
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

/// The device and ticket with which to wait for a read.
struct ReadTicket {
    device: Arc<dyn Device>,
    ticket: Ticket,
}

impl ReadTicket {
    fn of(job: &SubmittedBatch) -> ReadTicket {
        ReadTicket {
            device: Arc::clone(&job.device),
            ticket: job.ticket.another(),
        }
    }
}

/// A read that asynchronous tasks wait for. The owner must wait for the device and then finish the
/// read, which wakes the tasks.
pub struct WatchedRead {
    cache: NodeCache,
    reading: Arc<BatchRead>,
    watching: ReadTicket,
}

impl WatchedRead {
    /// Returns the number of the device part that executes the read. A single thread can wait for
    /// all reads of one part.
    #[must_use]
    pub fn device_part(&self) -> usize {
        self.watching.ticket.device_part()
    }

    /// Waits until the device part that executes this read completes some read, possibly a
    /// different one.
    pub fn wait_some(&self) {
        self.watching.device.wait_some(&self.watching.ticket);
    }

    /// Finishes the read if it is already known to have completed. Returns whether it has
    /// completed.
    #[must_use]
    pub fn settle(&self) -> bool {
        if !self.watching.ticket.is_complete() {
            return false;
        }
        let guard = self.cache.shared.epochs.pin();
        self.cache.shared.try_settle(&self.reading, &guard);
        // If this call did not finish the read, another thread is doing so.
        true
    }
}

impl fmt::Debug for WatchedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedRead")
            .field("ticket", &self.watching.ticket)
            .finish_non_exhaustive()
    }
}
