//! Asynchronous reads: requested together, and polled until they are finished.

use super::NodeCache;
use super::read::{BatchRead, NodeLookup, SubmittedBatch};
use alluvium_device::{Device, Ticket};
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Reads that were requested. Poll it, then look up the nodes.
///
/// If it is dropped early, the reads continue. The cache finishes them during a later operation.
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

    /// Makes progress without blocking. Returns whether every read is finished. A failed read
    /// counts as finished: a reader that looks up its node reads it again and gets the error.
    pub fn poll(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_finish(reading, &guard));
        self.readings.is_empty()
    }

    /// Like [`PendingReads::poll`], but without querying the device: finishes only reads that are
    /// known to have completed.
    pub fn settle(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_settle(reading, &guard));
        self.readings.is_empty()
    }

    /// Like [`PendingReads::poll`]. While the reads are pending, the waker fires once a poll can
    /// make progress, provided that a thread waits for each [`WatchedRead`] passed to `watch`.
    pub fn poll_with(&mut self, waker: &Waker, mut watch: impl FnMut(WatchedRead)) -> Poll<()> {
        loop {
            if self.poll() {
                return Poll::Ready(());
            }
            debug_assert!(!self.readings.is_empty(), "what is not over has readings");
            let reading = &self.readings[0];
            match reading.wake(waker, ReadTicket::of) {
                // Another thread has finished it.
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

    /// Waits until any read completes that shares a part of the device with the first pending read.
    pub fn wait_some(&mut self) {
        if let Some(reading) = self.readings.first() {
            match reading.peek_job(ReadTicket::of) {
                Some(watching) => watching.device.wait_some(&watching.ticket),
                // Another thread is finishing it.
                None => std::thread::yield_now(),
            }
        }
    }

    /// Waits until every read is finished.
    pub fn wait(&mut self) {
        let guard = self.cache.shared.epochs.pin();
        for reading in self.readings.drain(..) {
            self.cache.shared.finish(&reading, &guard);
        }
    }

    /// Returns the number of nodes that were skipped because no frame was available. The caller
    /// should then read less far ahead.
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
        f.debug_struct("Pending")
            .field("batches", &self.readings.len())
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

/// A read, and the ticket needed to wait for it.
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

/// A read that tasks wait for. The thread that holds this waits for the device and finishes the
/// read, which wakes the tasks.
pub struct WatchedRead {
    cache: NodeCache,
    reading: Arc<BatchRead>,
    watching: ReadTicket,
}

impl WatchedRead {
    /// Returns the part of the device that executes the read. One thread can wait for all reads of
    /// a part.
    #[must_use]
    pub fn device_part(&self) -> usize {
        self.watching.ticket.device_part()
    }

    /// Waits until that part of the device completes a read: this one or another.
    pub fn wait_some(&self) {
        self.watching.device.wait_some(&self.watching.ticket);
    }

    /// Finishes the read if it is known to have completed. Returns whether it has completed.
    #[must_use]
    pub fn settle(&self) -> bool {
        if !self.watching.ticket.is_complete() {
            return false;
        }
        let guard = self.cache.shared.epochs.pin();
        self.cache.shared.try_settle(&self.reading, &guard);
        // If this did not finish it, another thread is doing so.
        true
    }
}

impl fmt::Debug for WatchedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("ticket", &self.watching.ticket)
            .finish_non_exhaustive()
    }
}
