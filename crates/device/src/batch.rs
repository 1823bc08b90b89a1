//! I/O requests, batches of requests, and tickets for waiting on a batch.

use crate::{AlignedBuffer, Error, Result};
use alluvium_base::Purpose;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One I/O request to a file.
#[derive(Debug)]
pub enum IoRequest {
    /// Reads from the file at `offset` until the buffer is full.
    Read {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The memory to fill. Its length is the length of the request.
        buffer: AlignedBuffer,
        purpose: Purpose,
    },
    /// Writes the whole buffer to the file at `offset`. The range must be inside the file.
    Write {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The bytes to write, whose number is the length of the request.
        buffer: AlignedBuffer,
        purpose: Purpose,
    },
    /// Makes every write durable that had completed when this request was submitted (invariant D3).
    Sync {
        /// The purpose to which the sync is accounted.
        purpose: Purpose,
    },
}

impl IoRequest {
    /// Returns the purpose to which the request is accounted.
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
    /// The request's buffer, or `None` for a sync.
    pub buffer: Option<AlignedBuffer>,
    /// The result of the request. After a failed read, the contents of the buffer are unspecified.
    pub result: Result<()>,
}

impl IoOutcome {
    /// Returns the request's buffer if the request succeeded.
    ///
    /// # Errors
    /// The error with which the request failed.
    ///
    /// # Panics
    /// If the request was a sync, which has no buffer.
    pub fn into_buffer(self) -> Result<AlignedBuffer> {
        self.result
            .map(|()| self.buffer.expect("a read or a write gives its buffer back"))
    }
}

/// A batch of requests, which are submitted to a device together.
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

    /// Adds a request that reads from `offset` until `buffer` is full.
    pub fn read(&mut self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> &mut IoBatch {
        self.push(IoRequest::Read {
            offset,
            buffer,
            purpose,
        })
    }

    /// Adds a request that writes `buffer` at `offset`.
    pub fn write(&mut self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> &mut IoBatch {
        self.push(IoRequest::Write {
            offset,
            buffer,
            purpose,
        })
    }

    /// Adds a sync request. The sync does not wait for other requests of its batch (invariant D3).
    pub fn sync(&mut self, purpose: Purpose) -> &mut IoBatch {
        self.push(IoRequest::Sync { purpose })
    }

    pub fn push(&mut self, request: IoRequest) -> &mut IoBatch {
        self.requests.push(request);
        self
    }

    /// Returns the number of requests in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether the batch has no requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the requests of the batch, for implementations of `Device`.
    #[must_use]
    pub fn into_requests(self) -> Vec<IoRequest> {
        self.requests
    }
}

/// A handle for waiting on a batch. It returns the outcomes in the order in which the requests were
/// added to the batch.
///
/// A ticket may be moved to another thread. Dropping a ticket discards the outcomes but does not
/// cancel the requests (invariant D1).
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<BatchCompletion>,
}

/// The completion record of a batch, through which a device notifies a [`Ticket`]. The device must
/// complete each request exactly once.
#[derive(Debug)]
pub struct BatchCompletion {
    pending: AtomicUsize,
    outcomes: Mutex<Vec<Option<IoOutcome>>>,
    completed: Condvar,
    /// Index of the device part that executes the batch, for a device that consists of several
    /// parts.
    device_part: usize,
}

impl BatchCompletion {
    /// Creates the completion record of a batch of `requests` requests, all of which are pending.
    #[must_use]
    pub fn new(requests: usize) -> Arc<BatchCompletion> {
        BatchCompletion::at(requests, 0)
    }

    /// Creates the completion record of a batch that part `home` of the device executes, which
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

    /// Completes the request at `index` in the batch.
    ///
    /// # Panics
    /// If the request is already complete, which is a bug in the device.
    pub fn complete(&self, index: usize, outcome: IoOutcome) {
        let mut outcomes = self.outcomes.lock();
        let previous = outcomes[index].replace(outcome);
        assert!(
            previous.is_none(),
            "request {index} of a batch was completed twice"
        );
        // Release ordering: a thread that reads zero with Acquire ordering sees the outcomes and
        // the bytes of the buffers. The lock is held so that `Ticket::block` cannot see a pending
        // request and then miss the notification.
        if self.pending.fetch_sub(1, Ordering::Release) == 1 {
            self.completed.notify_all();
        }
    }

    /// Returns a ticket for waiting on this batch.
    #[must_use]
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket {
            shared: Arc::clone(self),
        }
    }
}

impl Ticket {
    /// Returns a complete ticket with outcomes that are already known.
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

    /// Returns whether every request of the batch is complete. This only reads memory; to make
    /// progress, call `Device::poll`.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire) == 0
    }

    /// Returns the outcomes in the order of the requests.
    ///
    /// # Panics
    /// If the ticket is not complete, because the caller has not waited for it.
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

    /// Returns the buffers of the batch if every request succeeded.
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

    /// Returns another ticket for the same batch. Only the ticket on which `take` is called first
    /// receives the outcomes.
    #[must_use]
    pub fn another(&self) -> Ticket {
        self.shared.ticket()
    }

    /// Returns the number of pending requests of the batch.
    pub(crate) fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// Returns the device part that executes the batch. One thread can wait for all tickets of a
    /// part, because waiting for one of them ([`Device::wait_some`](crate::Device::wait_some)) also
    /// completes the others.
    #[must_use]
    pub fn device_part(&self) -> usize {
        self.shared.device_part
    }

    /// Blocks until the batch is complete. For devices whose own threads complete their batches.
    pub(crate) fn block(&self) {
        let mut outcomes = self.shared.outcomes.lock();
        while !self.is_complete() {
            self.shared.completed.wait(&mut outcomes);
        }
    }

    /// Returns whether this ticket belongs to the batch `in_flight`, for implementations of
    /// `Device`.
    #[must_use]
    pub fn waits_for(&self, in_flight: &Arc<BatchCompletion>) -> bool {
        Arc::ptr_eq(&self.shared, in_flight)
    }
}
