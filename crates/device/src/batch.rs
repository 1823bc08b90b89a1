//! I/O requests, batches of requests, and the ticket that waits for a batch.

use crate::{AlignedBuffer, Error, Result};
use alluvium_base::Purpose;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One I/O request to a file.
#[derive(Debug)]
pub enum IoRequest {
    /// Fill the buffer from `offset`.
    Read {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The memory to fill; its length is the length of the request.
        buffer: AlignedBuffer,
        purpose: Purpose,
    },
    /// Write the buffer at `offset`, within the file's length.
    Write {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The bytes to write; their number is the length of the request.
        buffer: AlignedBuffer,
        purpose: Purpose,
    },
    /// Make every write durable that had completed when this request was submitted (invariant D3).
    Sync {
        /// Purpose that the sync is counted under.
        purpose: Purpose,
    },
}

impl IoRequest {
    /// Returns the purpose of the request.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self {
            IoRequest::Read { purpose, .. }
            | IoRequest::Write { purpose, .. }
            | IoRequest::Sync { purpose } => *purpose,
        }
    }
}

/// The outcome of a request: its buffer and its result.
#[derive(Debug)]
pub struct IoOutcome {
    /// The request's buffer; absent for a sync.
    pub buffer: Option<AlignedBuffer>,
    /// The result. After a failed read the contents of the buffer are unspecified.
    pub result: Result<()>,
}

impl IoOutcome {
    /// Returns the buffer of a successful request.
    ///
    /// # Errors
    /// The request's error.
    ///
    /// # Panics
    /// When the request was a sync, which has no buffer.
    pub fn into_buffer(self) -> Result<AlignedBuffer> {
        self.result
            .map(|()| self.buffer.expect("a read or a write gives its buffer back"))
    }
}

/// Requests that are submitted to a device together.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::{IoBatch, AlignedBuffer};
/// let mut batch = IoBatch::new();
/// batch.write(0, AlignedBuffer::zeroed(512), Purpose::Other);
/// batch.read(512, AlignedBuffer::zeroed(512), Purpose::Other);
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct IoBatch {
    requests: Vec<IoRequest>,
}

impl IoBatch {
    #[must_use]
    pub fn new() -> IoBatch {
        IoBatch::default()
    }

    /// Creates an empty batch with capacity for `capacity` requests.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> IoBatch {
        IoBatch {
            requests: Vec::with_capacity(capacity),
        }
    }

    /// Adds a read that fills `buffer` from `offset`.
    pub fn read(&mut self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> &mut IoBatch {
        self.push(IoRequest::Read {
            offset,
            buffer,
            purpose,
        })
    }

    /// Adds a write of `buffer` at `offset`.
    pub fn write(&mut self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> &mut IoBatch {
        self.push(IoRequest::Write {
            offset,
            buffer,
            purpose,
        })
    }

    /// Adds a sync. It does not wait for the other requests of its batch (invariant D3).
    pub fn sync(&mut self, purpose: Purpose) -> &mut IoBatch {
        self.push(IoRequest::Sync { purpose })
    }

    pub fn push(&mut self, request: IoRequest) -> &mut IoBatch {
        self.requests.push(request);
        self
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether the batch has no requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the requests, for implementations of `Device`.
    #[must_use]
    pub fn into_requests(self) -> Vec<IoRequest> {
        self.requests
    }
}

/// A handle for waiting for a batch. Outcomes are in the order of the batch's requests.
///
/// A ticket may move between threads. Dropping it discards the outcomes but does not cancel the
/// requests (invariant D1).
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<BatchCompletion>,
}

/// The device's side of a [`Ticket`]. Implementations complete each request here exactly once.
#[derive(Debug)]
pub struct BatchCompletion {
    pending: AtomicUsize,
    outcomes: Mutex<Vec<Option<IoOutcome>>>,
    completed: Condvar,
    /// Index of the part of the device that carries the batch, for devices with several parts.
    device_part: usize,
}

impl BatchCompletion {
    /// Creates a record of `requests` incomplete requests.
    #[must_use]
    pub fn new(requests: usize) -> Arc<BatchCompletion> {
        BatchCompletion::at(requests, 0)
    }

    /// Creates a record for a batch carried by part `home` of the device, which
    /// [`Ticket::device_part`] returns.
    #[must_use]
    pub(crate) fn at(requests: usize, home: usize) -> Arc<BatchCompletion> {
        Arc::new(BatchCompletion {
            pending: AtomicUsize::new(requests),
            outcomes: Mutex::new((0..requests).map(|_| None).collect()),
            completed: Condvar::new(),
            device_part: home,
        })
    }

    /// Completes request `index`.
    ///
    /// # Panics
    /// If the request is already complete: a bug of the implementation.
    pub fn complete(&self, index: usize, outcome: IoOutcome) {
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

    /// Returns a ticket that waits for this record.
    #[must_use]
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket {
            shared: Arc::clone(self),
        }
    }
}

impl Ticket {
    /// Returns a ticket of a batch whose outcomes are already known.
    #[must_use]
    pub fn ready(outcomes: Vec<IoOutcome>) -> Ticket {
        Ticket {
            shared: Arc::new(BatchCompletion {
                pending: AtomicUsize::new(0),
                outcomes: Mutex::new(outcomes.into_iter().map(Some).collect()),
                completed: Condvar::new(),
                device_part: 0,
            }),
        }
    }

    /// Returns whether every request is complete. This only reads memory; `Device::poll` makes
    /// progress.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire) == 0
    }

    /// Returns the outcomes in request order.
    ///
    /// # Panics
    /// If the ticket is not complete: wait for it first.
    #[must_use]
    pub fn take(self) -> Vec<IoOutcome> {
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

    /// Returns the buffers of a batch in which every request succeeded.
    ///
    /// # Errors
    /// The first error among the outcomes.
    ///
    /// # Panics
    /// If the ticket is not complete.
    pub fn take_buffers(self) -> std::result::Result<Vec<AlignedBuffer>, Error> {
        let mut buffers = Vec::new();
        for outcome in self.take() {
            outcome.result?;
            buffers.extend(outcome.buffer);
        }
        Ok(buffers)
    }

    /// Returns a second ticket of the same batch for waiting. The ticket that calls `take` first
    /// receives the outcomes.
    #[must_use]
    pub fn another(&self) -> Ticket {
        self.shared.ticket()
    }

    /// Returns the number of incomplete requests.
    pub(crate) fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// Returns the part of the device that carries the batch. One thread can wait for all tickets
    /// with the same home: waiting for one of them
    /// ([`Device::wait_some`](crate::Device::wait_some)) also completes the others.
    #[must_use]
    pub fn device_part(&self) -> usize {
        self.shared.device_part
    }

    /// Blocks until the batch is complete, for devices whose own threads complete it.
    pub(crate) fn block(&self) {
        let mut outcomes = self.shared.outcomes.lock();
        while !self.is_complete() {
            self.shared.completed.wait(&mut outcomes);
        }
    }

    /// Returns whether this ticket waits for `in_flight`, for implementations of `Device`.
    #[must_use]
    pub fn waits_for(&self, in_flight: &Arc<BatchCompletion>) -> bool {
        Arc::ptr_eq(&self.shared, in_flight)
    }
}
