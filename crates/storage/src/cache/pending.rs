//! Asynchronous reads.

use super::Cache;
use super::read::{Job, Joined, Reading};
use alluvium_device::{Device, Ticket};
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Reads that were requested. Poll it, then look up the nodes.
///
/// If it is dropped early, the reads continue. The cache finishes them during a later operation.
pub struct Pending {
    cache: Cache,
    readings: Vec<Arc<Reading>>,
    skipped: usize,
}

impl Pending {
    pub(super) fn new(cache: &Cache, joined: Vec<Joined>) -> Pending {
        let mut readings: Vec<Arc<Reading>> = Vec::new();
        let mut skipped = 0;
        for joined in joined {
            match joined {
                Joined::Reading { reading, .. } => {
                    if !readings.iter().any(|known| Arc::ptr_eq(known, &reading)) {
                        readings.push(reading);
                    }
                }
                Joined::Skipped => skipped += 1,
                Joined::Frame(_) => {}
            }
        }
        Pending {
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

    /// Like [`Pending::poll`], but without querying the device: finishes only reads that are known
    /// to have completed.
    pub fn settle(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_settle(reading, &guard));
        self.readings.is_empty()
    }

    /// Like [`Pending::poll`]. While the reads are pending, the waker fires once a poll can make
    /// progress, provided that a thread waits for each [`Watched`] passed to `watch`.
    pub fn poll_with(&mut self, waker: &Waker, mut watch: impl FnMut(Watched)) -> Poll<()> {
        loop {
            if self.poll() {
                return Poll::Ready(());
            }
            debug_assert!(!self.readings.is_empty(), "what is not over has readings");
            let reading = &self.readings[0];
            match reading.wake(waker, Watching::of) {
                // Another thread has finished it.
                None => {}
                Some(watching) => {
                    if let Some(watching) = watching {
                        watch(Watched {
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
            match reading.look(Watching::of) {
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

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.readings.is_empty() {
            self.cache.shared.orphans.lock().append(&mut self.readings);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("batches", &self.readings.len())
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

/// A read, and the ticket needed to wait for it.
struct Watching {
    device: Arc<dyn Device>,
    ticket: Ticket,
}

impl Watching {
    fn of(job: &Job) -> Watching {
        Watching {
            device: Arc::clone(&job.device),
            ticket: job.ticket.another(),
        }
    }
}

/// A read that tasks wait for. The thread that holds this waits for the device and finishes the
/// read, which wakes the tasks.
pub struct Watched {
    cache: Cache,
    reading: Arc<Reading>,
    watching: Watching,
}

impl Watched {
    /// Returns the part of the device that executes the read. One thread can wait for all reads of
    /// a part.
    #[must_use]
    pub fn home(&self) -> usize {
        self.watching.ticket.home()
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

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("ticket", &self.watching.ticket)
            .finish_non_exhaustive()
    }
}
