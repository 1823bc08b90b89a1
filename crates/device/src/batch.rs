//! Requests, batches of them, and the ticket that waits for a batch.

use crate::{Buffer, Error, Result};
use alluvium_base::Purpose;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One thing to do to a file.
#[derive(Debug)]
pub enum Request {
    /// Fill the buffer from `offset`.
    Read {
        /// The first byte in the file.
        offset: u64,
        /// The memory to fill; its length is the request's.
        buffer: Buffer,
        /// What the read is for.
        purpose: Purpose,
    },
    /// Write the buffer at `offset`, inside the file's length.
    Write {
        /// The first byte in the file.
        offset: u64,
        /// The bytes to write; its length is the request's.
        buffer: Buffer,
        /// What the write is for.
        purpose: Purpose,
    },
    /// Make durable every write that had completed when this was submitted (invariant D3).
    Sync {
        /// What the sync is for.
        purpose: Purpose,
    },
}

impl Request {
    /// Returns what the request is for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self {
            Request::Read { purpose, .. } | Request::Write { purpose, .. } | Request::Sync { purpose } => {
                *purpose
            }
        }
    }
}

/// What became of a request: its buffer back, and how it went.
#[derive(Debug)]
pub struct Outcome {
    /// The request's buffer, absent for a sync.
    pub buffer: Option<Buffer>,
    /// How it went. After a failed read the buffer's content is unspecified.
    pub result: Result<()>,
}

impl Outcome {
    /// Returns the buffer of a request that went well.
    ///
    /// # Errors
    /// The request's error.
    ///
    /// # Panics
    /// When the request was a sync, which has no buffer.
    pub fn into_buffer(self) -> Result<Buffer> {
        self.result
            .map(|()| self.buffer.expect("a read or a write gives its buffer back"))
    }
}

/// Requests that are handed to a device together.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::{Batch, Buffer};
/// let mut batch = Batch::new();
/// batch.write(0, Buffer::zeroed(512), Purpose::Other).read(512, Buffer::zeroed(512), Purpose::Other);
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    requests: Vec<Request>,
}

impl Batch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Creates an empty batch with space for `capacity` requests.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Batch {
        Batch {
            requests: Vec::with_capacity(capacity),
        }
    }

    /// Adds a read that fills `buffer` from `offset`.
    pub fn read(&mut self, offset: u64, buffer: Buffer, purpose: Purpose) -> &mut Batch {
        self.push(Request::Read {
            offset,
            buffer,
            purpose,
        })
    }

    /// Adds a write of `buffer` at `offset`.
    pub fn write(&mut self, offset: u64, buffer: Buffer, purpose: Purpose) -> &mut Batch {
        self.push(Request::Write {
            offset,
            buffer,
            purpose,
        })
    }

    /// Adds a sync. It does not wait for the other requests of its batch (invariant D3).
    pub fn sync(&mut self, purpose: Purpose) -> &mut Batch {
        self.push(Request::Sync { purpose })
    }

    /// Adds any request.
    pub fn push(&mut self, request: Request) -> &mut Batch {
        self.requests.push(request);
        self
    }

    /// Returns how many requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the requests, for the implementations of `Device`.
    #[must_use]
    pub fn into_requests(self) -> Vec<Request> {
        self.requests
    }
}

/// Waits for a batch. Outcomes come in the order of the batch's requests.
///
/// A ticket may move between threads. Dropping it abandons the outcomes, not the requests
/// (invariant D1).
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<InFlight>,
}

/// The device's side of a [`Ticket`]: implementations complete requests here, each once.
#[derive(Debug)]
pub struct InFlight {
    pending: AtomicUsize,
    outcomes: Mutex<Vec<Option<Outcome>>>,
    completed: Condvar,
    /// Which part of the device carries the batch, for devices that have several.
    home: usize,
}

impl InFlight {
    /// Creates a record for `requests` requests, none of them complete.
    #[must_use]
    pub fn new(requests: usize) -> Arc<InFlight> {
        InFlight::at(requests, 0)
    }

    /// The same, carried by part `home` of the device; [`Ticket::home`] gives it back.
    #[must_use]
    pub(crate) fn at(requests: usize, home: usize) -> Arc<InFlight> {
        Arc::new(InFlight {
            pending: AtomicUsize::new(requests),
            outcomes: Mutex::new((0..requests).map(|_| None).collect()),
            completed: Condvar::new(),
            home,
        })
    }

    /// Completes request `index`.
    ///
    /// # Panics
    /// When it was completed before: a bug of the implementation.
    pub fn complete(&self, index: usize, outcome: Outcome) {
        let mut outcomes = self.outcomes.lock();
        let previous = outcomes[index].replace(outcome);
        assert!(
            previous.is_none(),
            "request {index} of a batch was completed twice"
        );
        // Release: a thread that reads zero with Acquire sees the outcomes and the buffers' bytes.
        // The lock is held, so that `Ticket::block` cannot read a pending request and then miss the
        // notification.
        if self.pending.fetch_sub(1, Ordering::Release) == 1 {
            self.completed.notify_all();
        }
    }

    /// Returns the ticket that waits for this record.
    #[must_use]
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket {
            shared: Arc::clone(self),
        }
    }
}

impl Ticket {
    /// Returns a ticket of a batch whose outcomes are known already.
    #[must_use]
    pub fn ready(outcomes: Vec<Outcome>) -> Ticket {
        Ticket {
            shared: Arc::new(InFlight {
                pending: AtomicUsize::new(0),
                outcomes: Mutex::new(outcomes.into_iter().map(Some).collect()),
                completed: Condvar::new(),
                home: 0,
            }),
        }
    }

    /// Returns whether every request is complete. It asks only memory: `Device::poll` makes
    /// progress.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire) == 0
    }

    /// Returns the outcomes, in the order of the requests.
    ///
    /// # Panics
    /// When the ticket is not complete: wait for it first.
    #[must_use]
    pub fn take(self) -> Vec<Outcome> {
        assert!(
            self.is_complete(),
            "a ticket was taken before its batch was complete"
        );
        let outcomes = std::mem::take(&mut *self.shared.outcomes.lock());
        outcomes
            .into_iter()
            .map(|outcome| outcome.expect("a complete batch has every outcome"))
            .collect()
    }

    /// Returns the buffers of a batch in which every request went well.
    ///
    /// # Errors
    /// The first error among the outcomes.
    ///
    /// # Panics
    /// When the ticket is not complete.
    pub fn take_buffers(self) -> std::result::Result<Vec<Buffer>, Error> {
        let mut buffers = Vec::new();
        for outcome in self.take() {
            outcome.result?;
            buffers.extend(outcome.buffer);
        }
        Ok(buffers)
    }

    /// Returns a second ticket of the same batch, to wait with. The outcomes go to the ticket that
    /// takes them first.
    #[must_use]
    pub fn another(&self) -> Ticket {
        self.shared.ticket()
    }

    /// Returns how many requests are not complete.
    pub(crate) fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// Returns the part of the device that carries the batch. One thread can wait for all tickets
    /// with the same home: waiting for one ([`Device::wait_some`](crate::Device::wait_some))
    /// completes the others, too.
    #[must_use]
    pub fn home(&self) -> usize {
        self.shared.home
    }

    /// Sleeps until the batch is complete, for devices whose own threads complete it.
    pub(crate) fn block(&self) {
        let mut outcomes = self.shared.outcomes.lock();
        while !self.is_complete() {
            self.shared.completed.wait(&mut outcomes);
        }
    }

    /// Returns whether this ticket waits for `in_flight`, for the implementations of `Device`.
    #[must_use]
    pub fn waits_for(&self, in_flight: &Arc<InFlight>) -> bool {
        Arc::ptr_eq(&self.shared, in_flight)
    }
}
