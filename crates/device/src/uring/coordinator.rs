//! Coordinates many threads on one ring: which thread enters the kernel, and which ones wait for
//! it.

use super::plug::{self, SubmissionPlug};
use super::ring::{BatchContext, CompletionReaper, IoRing, RingRequest};
use crate::file::{DirectoryNotes, WorkerPool};
use crate::{DeviceOperation, IoOutcome, IoRequest, Ticket};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// A ring and the threads that wait on it.
#[derive(Debug)]
pub(super) struct RingCoordinator {
    pub(super) ring: IoRing,
    /// Number of threads waiting for the holder of the reaper.
    followers: Mutex<usize>,
    changed: Condvar,
    workers: Arc<WorkerPool>,
    notes: Arc<DirectoryNotes>,
}

/// How long a thread that waits on a broken ring sleeps before it checks for completions again.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

impl RingCoordinator {
    pub(super) fn new(ring: IoRing, workers: Arc<WorkerPool>, notes: Arc<DirectoryNotes>) -> RingCoordinator {
        RingCoordinator {
            ring,
            followers: Mutex::new(0),
            changed: Condvar::new(),
            workers,
            notes,
        }
    }

    /// Queues requests. If the ring is broken, the workers get them at once.
    fn push(&self, flights: Vec<RingRequest>) {
        self.ring.push(flights);
        if self.ring.is_broken() {
            self.enter(0);
        }
    }

    /// Enters the kernel. If this fails permanently, the workers execute the requests that were not
    /// submitted, while the kernel completes the submitted ones by itself.
    fn enter(&self, want: usize) {
        if let Err(error) = self.ring.enter(want) {
            self.notes.add(format!(
                "the kernel refuses further requests on an io_uring ({error}): threads make blocking calls instead"
            ));
        }
        if self.ring.is_broken() {
            for flight in self.ring.take_back() {
                let RingRequest {
                    context,
                    index,
                    request,
                    ..
                } = flight;
                finish_blocking(&self.workers, &context, index, request, 0);
            }
            if want > 0 {
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// Submits requests without waiting for them. While the thread is gathering, the submission is
    /// deferred.
    pub(super) fn submit(self: &Arc<Self>, flights: Vec<RingRequest>) {
        self.push(flights);
        if !plug::notes(self) || self.ring.has_backlog() {
            self.launch();
        }
    }

    /// Submits the queued requests, and polls if the ring cannot take all of them.
    pub(super) fn launch(&self) {
        self.enter(0);
        if self.ring.has_backlog() {
            self.poll();
        }
    }

    /// Submits requests, and waits until the ticket has none left in the ring.
    pub(super) fn submit_and_wait(&self, flights: Vec<RingRequest>, ticket: &Ticket) {
        SubmissionPlug::hand_over();
        self.push(flights);
        if let Some(reaper) = self.ring.reaper() {
            self.lead(reaper, ticket);
        } else {
            self.enter(0);
            self.wait(ticket);
        }
    }

    /// Processes available completions, unless another thread is already doing so.
    pub(super) fn poll(&self) {
        if let Some(mut reaper) = self.ring.reaper() {
            if self.take(&mut reaper) {
                self.enter(0);
            }
            self.hand_over(reaper);
        }
    }

    /// Waits until the ticket has no request left in the ring.
    pub(super) fn wait(&self, ticket: &Ticket) {
        SubmissionPlug::hand_over();
        while !ticket.is_complete() {
            if let Some(reaper) = self.ring.reaper() {
                return self.lead(reaper, ticket);
            }
            let mut followers = self.followers.lock();
            // The holder of the reaper notifies under this lock after releasing the reaper, so the
            // notification cannot be missed.
            if !ticket.is_complete() && self.ring.is_reaped() {
                *followers += 1;
                self.changed.wait(&mut followers);
                *followers -= 1;
            }
        }
    }

    /// Waits until any request on the ring completes, but may return early. Returns false if the
    /// ring is empty and the ticket incomplete.
    pub(super) fn wait_some(&self, ticket: &Ticket) -> bool {
        SubmissionPlug::hand_over();
        let Some(mut reaper) = self.ring.reaper() else {
            let mut followers = self.followers.lock();
            if !ticket.is_complete() && self.ring.is_reaped() {
                *followers += 1;
                self.changed.wait(&mut followers);
                *followers -= 1;
            }
            return true;
        };
        let (mut taken, mut launched) = self.take_all(&mut reaper);
        let carries = self.ring.in_flight() > 0;
        if taken == 0 && carries {
            self.enter(1);
            (taken, launched) = self.take_all(&mut reaper);
        }
        if launched {
            self.enter(0);
        }
        self.hand_over(reaper);
        // A signal may have interrupted the wait, and the ticket may still have requests in the
        // ring.
        taken > 0 || carries || ticket.is_complete()
    }

    /// Enters the kernel until the ticket is complete or has no request left in the ring.
    fn lead(&self, mut reaper: CompletionReaper<'_>, ticket: &Ticket) {
        loop {
            let launched = self.take(&mut reaper);
            let (pending, in_flight) = (ticket.pending(), self.ring.in_flight());
            if pending == 0 || in_flight == 0 {
                if launched {
                    self.enter(0);
                }
                break;
            }
            // The ticket needs at least as many completions as it has pending requests, but
            // followers may be waiting for the very next one.
            let want = if *self.followers.lock() > 0 {
                1
            } else {
                pending.min(in_flight)
            };
            self.enter(want);
        }
        self.hand_over(reaper);
    }

    /// Releases the reaper, and wakes the threads that were waiting for its holder.
    fn hand_over(&self, reaper: CompletionReaper<'_>) {
        drop(reaper);
        if *self.followers.lock() > 0 {
            self.changed.notify_all();
        }
    }

    /// Reaps and settles completions. Returns whether requests were queued that an `enter` must
    /// submit.
    fn take(&self, reaper: &mut CompletionReaper<'_>) -> bool {
        self.take_all(reaper).1
    }

    /// Like `take`, and also returns the number of completions.
    fn take_all(&self, reaper: &mut CompletionReaper<'_>) -> (usize, bool) {
        let mut done = Vec::new();
        let launched = reaper.reap(&mut done);
        let taken = done.len();
        if taken == 0 {
            return (0, launched);
        }
        for (flight, result) in done {
            self.settle(flight, result);
        }
        if *self.followers.lock() > 0 {
            self.changed.notify_all();
        }
        (taken, launched)
    }

    /// Completes a request with the kernel's result, or passes the rest of it to the workers.
    fn settle(&self, flight: RingRequest, result: i32) {
        let RingRequest {
            context,
            index,
            request,
            ..
        } = flight;
        let (operation, offset, len) = match &request {
            IoRequest::Read { offset, buffer, .. } => (DeviceOperation::Read, *offset, buffer.len()),
            IoRequest::Write { offset, buffer, .. } => (DeviceOperation::Write, *offset, buffer.len()),
            IoRequest::Sync { .. } => unreachable!("syncs are not carried by rings"),
        };
        let result = match usize::try_from(result) {
            Ok(moved) if moved >= len => Ok(()),
            Ok(moved) => return finish_blocking(&self.workers, &context, index, request, moved),
            Err(_) => match Errno::from_raw_os_error(-result) {
                // CANCELED: the submitting thread ended before the kernel began. INVAL and FAULT:
                // the alignment or a registered buffer is unsuitable, but a blocking call needs
                // neither.
                Errno::INTR
                | Errno::AGAIN
                | Errno::CANCELED
                | Errno::INVAL
                | Errno::FAULT
                | Errno::OPNOTSUPP => return finish_blocking(&self.workers, &context, index, request, 0),
                errno => Err(context.file.failed(operation, offset, len as u64, errno)),
            },
        };
        let (IoRequest::Read { buffer, .. } | IoRequest::Write { buffer, .. }) = request else {
            unreachable!("syncs are not carried by rings")
        };
        context.in_flight.complete(
            index,
            IoOutcome {
                buffer: Some(buffer),
                result,
            },
        );
    }
}

/// Makes the workers execute the rest of a request, from byte `done` on.
pub(super) fn finish_blocking(
    workers: &WorkerPool,
    context: &Arc<BatchContext>,
    index: usize,
    request: IoRequest,
    done: usize,
) {
    let context = Arc::clone(context);
    workers.push([Box::new(move || {
        let outcome = context.file.perform(request, done);
        context.in_flight.complete(index, outcome);
    }) as Box<dyn FnOnce() + Send>]);
}

impl Drop for RingCoordinator {
    /// Waits for all submitted requests (U4). No other thread can still be waiting.
    fn drop(&mut self) {
        while self.ring.in_flight() > 0 {
            let Some(mut reaper) = self.ring.reaper() else {
                return;
            };
            let launched = self.take(&mut reaper);
            if launched || self.ring.in_flight() > 0 {
                self.enter(1);
            }
        }
    }
}
