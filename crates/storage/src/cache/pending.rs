//! Reads that were begun and are not waited for yet.

use super::Cache;
use super::read::{Job, Joined, Reading};
use alluvium_device::{Device, Ticket};
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Reads that were requested: poll it, then look the nodes up.
///
/// Dropped early, the reads go on; the cache finishes them when it next has something to do.
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

    /// Makes what progress is possible without blocking. Returns whether every read is finished. A
    /// failed read is finished too: a reader that looks its node up reads it again, and gets the
    /// error.
    pub fn poll(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_finish(reading, &guard));
        self.readings.is_empty()
    }

    /// As [`Pending::poll`], but without asking the device: finishes what is known to have
    /// completed.
    pub fn settle(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_settle(reading, &guard));
        self.readings.is_empty()
    }

    /// As [`Pending::poll`]. While it is pending, the waker fires once a poll can make progress,
    /// provided that a thread waits for each [`Watched`] that `watch` receives.
    pub fn poll_with(&mut self, waker: &Waker, mut watch: impl FnMut(Watched)) -> Poll<()> {
        loop {
            if self.poll() {
                return Poll::Ready(());
            }
            debug_assert!(!self.readings.is_empty(), "what is not over has readings");
            let reading = &self.readings[0];
            match reading.wake(waker, Watching::of) {
                // It has been finished meanwhile.
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

    /// Waits until something has been read that the device carries together with what is waited for
    /// here: this, or another's.
    pub fn wait_some(&mut self) {
        if let Some(reading) = self.readings.first() {
            match reading.look(Watching::of) {
                Some(watching) => watching.device.wait_some(&watching.ticket),
                // Another thread is at it.
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

    /// Returns how many nodes were not requested, because no frame was to be had for them. Reading
    /// ahead less would be wise.
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

/// A read and what it takes to wait for it.
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

/// A read that tasks wait for. The thread that holds it waits for the device and finishes it; then
/// the tasks are woken.
pub struct Watched {
    cache: Cache,
    reading: Arc<Reading>,
    watching: Watching,
}

impl Watched {
    /// Returns the part of the device that carries it: one thread can wait for all of one part.
    #[must_use]
    pub fn home(&self) -> usize {
        self.watching.ticket.home()
    }

    /// Waits until something has been read by that part of the device: this, or another.
    pub fn wait_some(&self) {
        self.watching.device.wait_some(&self.watching.ticket);
    }

    /// Finishes it if the device is known to be done with it. Returns whether it is finished.
    #[must_use]
    pub fn settle(&self) -> bool {
        if !self.watching.ticket.is_complete() {
            return false;
        }
        let guard = self.cache.shared.epochs.pin();
        self.cache.shared.try_settle(&self.reading, &guard);
        // Otherwise another thread is at it.
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
