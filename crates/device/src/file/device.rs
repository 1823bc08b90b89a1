//! A real file as a [`Device`]. Each request of a batch is refused, executed at once, or passed to
//! the I/O backend.

use super::copy;
use super::mapping;
use super::names::has_no_name;
use super::open_file::OpenFile;
use super::threads::WorkerPool;
use crate::batch::BatchCompletion;
use crate::contract;
use crate::uring::{RingPool, SubmissionPlug};
use crate::{
    AlignedBuffer, CacheMode, Device, DeviceOperation, FileMapping, IoBatch, IoOutcome, IoRequest, Result,
    Ticket,
};
use alluvium_base::Purpose;
use rustix::io::Errno;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Maximum length in bytes of a buffered write that `submit` executes at once. Such a write only
/// copies to the page cache, which costs less than passing it to another thread.
const COPIED_AT_ONCE: usize = 64 << 10;

/// How requests reach the kernel.
#[derive(Clone, Debug)]
pub(super) enum IoBackend {
    /// Requests go through io_uring. Worker threads execute those that rings handle poorly.
    Rings(Arc<RingPool>),
    /// Worker threads execute all requests.
    Workers,
}

/// An open file of a [`FileDirectory`](super::FileDirectory).
#[derive(Debug)]
pub(super) struct FileDevice {
    pub(super) file: Arc<OpenFile>,
    pub(super) carrier: IoBackend,
    pub(super) workers: Arc<WorkerPool>,
}

/// How a request is executed.
enum RequestRoute {
    /// The request was already refused or executed, with this outcome.
    AtOnce(IoOutcome),
    /// The request is a sync, which a worker thread executes.
    Sync,
    /// The I/O backend executes the request.
    Carry(IoRequest),
}

impl FileDevice {
    fn route(&self, request: IoRequest) -> RequestRoute {
        if let Err(error) = self.file.admit(&request) {
            let buffer = match request {
                IoRequest::Read { buffer, .. } | IoRequest::Write { buffer, .. } => Some(buffer),
                IoRequest::Sync { .. } => None,
            };
            return RequestRoute::AtOnce(IoOutcome {
                buffer,
                result: Err(error),
            });
        }
        match request {
            IoRequest::Sync { .. } => RequestRoute::Sync,
            IoRequest::Write { ref buffer, .. }
                if self.file.options.caching == CacheMode::Buffered && buffer.len() <= COPIED_AT_ONCE =>
            {
                RequestRoute::AtOnce(self.file.perform(request, 0))
            }
            request => RequestRoute::Carry(request),
        }
    }

    /// Starts the requests of a batch that do not need the I/O backend. Returns the batch's
    /// completion record, and the other requests with their indexes in the batch.
    fn sort(&self, batch: IoBatch, home: usize) -> (Arc<BatchCompletion>, Vec<(usize, IoRequest)>) {
        let requests = batch.into_requests();
        // Check all requests before executing any, so that a panic does not leave part of the batch
        // in flight.
        for request in &requests {
            self.file.check_alignment(request);
        }
        let in_flight = BatchCompletion::at(requests.len(), home);
        let mut carried = Vec::with_capacity(requests.len());
        for (index, request) in requests.into_iter().enumerate() {
            match self.route(request) {
                RequestRoute::AtOnce(outcome) => in_flight.complete(index, outcome),
                RequestRoute::Sync => self.push_sync(&in_flight, index),
                RequestRoute::Carry(request) => carried.push((index, request)),
            }
        }
        (in_flight, carried)
    }

    fn push_sync(&self, in_flight: &Arc<BatchCompletion>, index: usize) {
        let (file, in_flight) = (Arc::clone(&self.file), Arc::clone(in_flight));
        self.workers.push([Box::new(move || {
            let result = file.sync_blocking();
            in_flight.complete(index, IoOutcome { buffer: None, result });
        }) as Box<dyn FnOnce() + Send>]);
    }

    fn push_transfers(&self, in_flight: &Arc<BatchCompletion>, carried: Vec<(usize, IoRequest)>) {
        self.workers.push(carried.into_iter().map(|(index, request)| {
            let (file, in_flight) = (Arc::clone(&self.file), Arc::clone(in_flight));
            Box::new(move || in_flight.complete(index, file.perform(request, 0))) as Box<dyn FnOnce() + Send>
        }));
    }

    /// Executes one request on this thread and returns its outcome.
    fn perform_one(&self, request: IoRequest) -> IoOutcome {
        if let IoBackend::Rings(_) = self.carrier {
            SubmissionPlug::hand_over();
        }
        self.file.check_alignment(&request);
        match self.route(request) {
            RequestRoute::AtOnce(outcome) => outcome,
            RequestRoute::Sync => IoOutcome {
                buffer: None,
                result: self.file.sync_blocking(),
            },
            RequestRoute::Carry(request) => self.file.perform(request, 0),
        }
    }
}

impl Device for FileDevice {
    fn submit(&self, batch: IoBatch) -> Ticket {
        match &self.carrier {
            IoBackend::Rings(rings) => {
                let home = rings.ring_index();
                let (in_flight, carried) = self.sort(batch, home);
                let ticket = in_flight.ticket();
                rings.submit(home, &self.file, in_flight, carried);
                ticket
            }
            IoBackend::Workers => {
                let (in_flight, carried) = self.sort(batch, 0);
                self.push_transfers(&in_flight, carried);
                in_flight.ticket()
            }
        }
    }

    fn submit_many(&self, batches: Vec<IoBatch>) -> Vec<Ticket> {
        let IoBackend::Rings(rings) = &self.carrier else {
            return batches.into_iter().map(|batch| self.submit(batch)).collect();
        };
        let home = rings.ring_index();
        let mut tickets = Vec::with_capacity(batches.len());
        let mut flights = Vec::with_capacity(batches.len());
        for batch in batches {
            let (in_flight, carried) = self.sort(batch, home);
            tickets.push(in_flight.ticket());
            flights.extend(rings.flights(&self.file, in_flight, carried));
        }
        rings.submit_flights(home, flights);
        tickets
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        if let IoBackend::Rings(rings) = &self.carrier
            && !ticket.is_complete()
        {
            rings.poll(ticket);
        }
        ticket.is_complete()
    }

    fn wait(&self, ticket: &Ticket) {
        if let IoBackend::Rings(rings) = &self.carrier {
            rings.wait(ticket);
        }
        ticket.block();
    }

    fn wait_some(&self, ticket: &Ticket) {
        match &self.carrier {
            // The worker threads complete the batch's requests that are no longer in the ring.
            IoBackend::Rings(rings) if rings.wait_some(ticket) => {}
            _ => ticket.block(),
        }
    }

    fn perform(&self, batch: IoBatch) -> Vec<IoOutcome> {
        if batch.len() == 1 {
            let request = batch.into_requests().remove(0);
            return vec![self.perform_one(request)];
        }
        let ticket = match &self.carrier {
            IoBackend::Rings(rings) => {
                let home = rings.ring_index();
                let (in_flight, carried) = self.sort(batch, home);
                let ticket = in_flight.ticket();
                rings.submit_and_wait(home, &self.file, in_flight, carried, &ticket);
                ticket
            }
            IoBackend::Workers => self.submit(batch),
        };
        self.wait(&ticket);
        ticket.take()
    }

    fn read_at(&self, offset: u64, len: usize, purpose: Purpose) -> Result<AlignedBuffer> {
        let buffer = AlignedBuffer::try_zeroed(len).ok_or_else(|| {
            self.file
                .failed(DeviceOperation::Read, offset, len as u64, Errno::NOMEM)
        })?;
        self.perform_one(IoRequest::Read {
            offset,
            buffer,
            purpose,
        })
        .into_buffer()
    }

    fn write_at(&self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> Result<AlignedBuffer> {
        self.perform_one(IoRequest::Write {
            offset,
            buffer,
            purpose,
        })
        .into_buffer()
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.perform_one(IoRequest::Sync { purpose }).result
    }

    fn len(&self) -> u64 {
        self.file.state.len()
    }

    fn is_removed(&self) -> bool {
        has_no_name(&self.file.descriptor)
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.file.require_writable(DeviceOperation::Grow)?;
        self.file
            .state
            .require_unpoisoned(DeviceOperation::Grow, &self.file.name)?;
        let _resizing = self.file.state.resizing.lock();
        let old = self.file.state.len();
        if len <= old {
            return Ok(());
        }
        if let Err(errno) = self.file.allocate_extending(old..len) {
            // Part of the range may have been allocated, and the file extended accordingly.
            let restored = rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&self.file.descriptor, old));
            if let Err(restoring) = restored {
                return Err(self.file.failed(DeviceOperation::Truncate, old, 0, restoring));
            }
            return Err(self.file.failed(DeviceOperation::Grow, old, len - old, errno));
        }
        self.file.state.set_len(len);
        Ok(())
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.file.require_writable(DeviceOperation::Grow)?;
        self.file
            .state
            .require_unpoisoned(DeviceOperation::Grow, &self.file.name)?;
        let len = range.end.saturating_sub(range.start);
        let _resizing = self.file.state.resizing.lock();
        self.file.inside(DeviceOperation::Grow, range.start, len)?;
        if len == 0 {
            return Ok(());
        }
        self.file
            .allocate_inside(&range)
            .map_err(|errno| self.file.failed(DeviceOperation::Grow, range.start, len, errno))
    }

    fn renew(&self, range: Range<u64>) -> Result<()> {
        self.file.require_writable(DeviceOperation::Grow)?;
        self.file
            .state
            .require_unpoisoned(DeviceOperation::Grow, &self.file.name)?;
        let len = range.end.saturating_sub(range.start);
        let _resizing = self.file.state.resizing.lock();
        self.file.inside(DeviceOperation::Grow, range.start, len)?;
        if len == 0 {
            return Ok(());
        }
        self.file
            .renew_inside(&range)
            .map_err(|errno| self.file.failed(DeviceOperation::Grow, range.start, len, errno))
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.file.require_writable(DeviceOperation::Truncate)?;
        let _resizing = self.file.state.resizing.lock();
        let old = self.file.state.len();
        if len >= old {
            return Ok(());
        }
        // Shorten the recorded length first, so that no more requests beyond the new end are
        // accepted.
        self.file.state.set_len(len);
        let truncated = rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&self.file.descriptor, len));
        if let Err(errno) = truncated {
            self.file.state.set_len(old);
            return Err(self.file.failed(DeviceOperation::Truncate, len, 0, errno));
        }
        Ok(())
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.file.require_writable(DeviceOperation::PunchHole)?;
        let _resizing = self.file.state.resizing.lock();
        let end = range.end.min(self.file.state.len());
        if range.start >= end {
            return Ok(());
        }
        let len = end - range.start;
        match self.file.punch(&(range.start..end)) {
            Ok(true) => self.file.counters.punch(Purpose::Other, len),
            Ok(false) => {}
            Err(errno) => {
                return Err(self
                    .file
                    .failed(DeviceOperation::PunchHole, range.start, len, errno));
            }
        }
        Ok(())
    }

    fn map(&self, range: Range<u64>) -> Result<FileMapping> {
        mapping::map(&self.file, &range)
    }

    fn copy_from(&self, source: &dyn Device, range: Range<u64>, purpose: Purpose) -> Result<()> {
        let shared = match (source as &dyn Any).downcast_ref::<FileDevice>() {
            Some(source) => copy::share(self, source, range.clone(), purpose)?,
            None => range.start,
        };
        contract::copy(self, source, shared..range.end, purpose)
    }

    fn name(&self) -> &str {
        &self.file.name
    }
}
