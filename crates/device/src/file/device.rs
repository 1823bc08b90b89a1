//! One real file as a [`Device`]: sorts the requests of a batch into refused, executed at once, and
//! left to the carrier.

use super::copy;
use super::mapping;
use super::names::has_no_name;
use super::open_file::OpenFile;
use super::threads::Workers;
use crate::batch::InFlight;
use crate::contract;
use crate::uring::{Gathering, Rings};
use crate::{Batch, Buffer, Caching, Device, Mapping, Operation, Outcome, Request, Result, Ticket};
use alluvium_base::Purpose;
use rustix::io::Errno;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Maximum length of a buffered write that `submit` executes at once, in bytes. The write is a copy
/// into the page cache; handing it to another thread would cost more than the copy.
const COPIED_AT_ONCE: usize = 64 << 10;

/// The mechanism that carries requests to the kernel.
#[derive(Clone, Debug)]
pub(super) enum Carrier {
    /// io_uring; the workers execute requests that rings handle poorly.
    Rings(Arc<Rings>),
    /// The workers execute all requests.
    Workers,
}

/// An open file of a [`FileDirectory`](super::FileDirectory).
#[derive(Debug)]
pub(super) struct FileDevice {
    pub(super) file: Arc<OpenFile>,
    pub(super) carrier: Carrier,
    pub(super) workers: Arc<Workers>,
}

/// How a request is handled.
enum Route {
    /// It completes within `submit`.
    AtOnce(Outcome),
    /// The workers execute the sync.
    Sync,
    /// The carrier executes it.
    Carry(Request),
}

impl FileDevice {
    fn route(&self, request: Request) -> Route {
        if let Err(error) = self.file.admit(&request) {
            let buffer = match request {
                Request::Read { buffer, .. } | Request::Write { buffer, .. } => Some(buffer),
                Request::Sync { .. } => None,
            };
            return Route::AtOnce(Outcome {
                buffer,
                result: Err(error),
            });
        }
        match request {
            Request::Sync { .. } => Route::Sync,
            Request::Write { ref buffer, .. }
                if self.file.options.caching == Caching::Buffered && buffer.len() <= COPIED_AT_ONCE =>
            {
                Route::AtOnce(self.file.perform(request, 0))
            }
            request => Route::Carry(request),
        }
    }

    /// Sorts a batch. Returns the requests for the carrier; all others are in flight or complete.
    fn sort(&self, batch: Batch, home: usize) -> (Arc<InFlight>, Vec<(usize, Request)>) {
        let requests = batch.into_requests();
        // Check all requests before executing any: a panic must not leave half a batch in flight.
        for request in &requests {
            self.file.check_alignment(request);
        }
        let in_flight = InFlight::at(requests.len(), home);
        let mut carried = Vec::with_capacity(requests.len());
        for (index, request) in requests.into_iter().enumerate() {
            match self.route(request) {
                Route::AtOnce(outcome) => in_flight.complete(index, outcome),
                Route::Sync => self.push_sync(&in_flight, index),
                Route::Carry(request) => carried.push((index, request)),
            }
        }
        (in_flight, carried)
    }

    fn push_sync(&self, in_flight: &Arc<InFlight>, index: usize) {
        let (file, in_flight) = (Arc::clone(&self.file), Arc::clone(in_flight));
        self.workers.push([Box::new(move || {
            let result = file.sync_blocking();
            in_flight.complete(index, Outcome { buffer: None, result });
        }) as Box<dyn FnOnce() + Send>]);
    }

    fn push_transfers(&self, in_flight: &Arc<InFlight>, carried: Vec<(usize, Request)>) {
        self.workers.push(carried.into_iter().map(|(index, request)| {
            let (file, in_flight) = (Arc::clone(&self.file), Arc::clone(in_flight));
            Box::new(move || in_flight.complete(index, file.perform(request, 0))) as Box<dyn FnOnce() + Send>
        }));
    }

    /// Executes one request in this thread.
    fn perform_one(&self, request: Request) -> Outcome {
        if let Carrier::Rings(_) = self.carrier {
            Gathering::hand_over();
        }
        self.file.check_alignment(&request);
        match self.route(request) {
            Route::AtOnce(outcome) => outcome,
            Route::Sync => Outcome {
                buffer: None,
                result: self.file.sync_blocking(),
            },
            Route::Carry(request) => self.file.perform(request, 0),
        }
    }
}

impl Device for FileDevice {
    fn submit(&self, batch: Batch) -> Ticket {
        match &self.carrier {
            Carrier::Rings(rings) => {
                let home = rings.home();
                let (in_flight, carried) = self.sort(batch, home);
                let ticket = in_flight.ticket();
                rings.submit(home, &self.file, in_flight, carried);
                ticket
            }
            Carrier::Workers => {
                let (in_flight, carried) = self.sort(batch, 0);
                self.push_transfers(&in_flight, carried);
                in_flight.ticket()
            }
        }
    }

    fn submit_many(&self, batches: Vec<Batch>) -> Vec<Ticket> {
        let Carrier::Rings(rings) = &self.carrier else {
            return batches.into_iter().map(|batch| self.submit(batch)).collect();
        };
        let home = rings.home();
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
        if let Carrier::Rings(rings) = &self.carrier
            && !ticket.is_complete()
        {
            rings.poll(ticket);
        }
        ticket.is_complete()
    }

    fn wait(&self, ticket: &Ticket) {
        if let Carrier::Rings(rings) = &self.carrier {
            rings.wait(ticket);
        }
        ticket.block();
    }

    fn wait_some(&self, ticket: &Ticket) {
        match &self.carrier {
            // Requests that have left the ring are completed by the workers.
            Carrier::Rings(rings) if rings.wait_some(ticket) => {}
            _ => ticket.block(),
        }
    }

    fn perform(&self, batch: Batch) -> Vec<Outcome> {
        if batch.len() == 1 {
            let request = batch.into_requests().remove(0);
            return vec![self.perform_one(request)];
        }
        let ticket = match &self.carrier {
            Carrier::Rings(rings) => {
                let home = rings.home();
                let (in_flight, carried) = self.sort(batch, home);
                let ticket = in_flight.ticket();
                rings.submit_and_wait(home, &self.file, in_flight, carried, &ticket);
                ticket
            }
            Carrier::Workers => self.submit(batch),
        };
        self.wait(&ticket);
        ticket.take()
    }

    fn read_at(&self, offset: u64, len: usize, purpose: Purpose) -> Result<Buffer> {
        let buffer = Buffer::try_zeroed(len).ok_or_else(|| {
            self.file
                .failed(Operation::Read, offset, len as u64, Errno::NOMEM)
        })?;
        self.perform_one(Request::Read {
            offset,
            buffer,
            purpose,
        })
        .into_buffer()
    }

    fn write_at(&self, offset: u64, buffer: Buffer, purpose: Purpose) -> Result<Buffer> {
        self.perform_one(Request::Write {
            offset,
            buffer,
            purpose,
        })
        .into_buffer()
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.perform_one(Request::Sync { purpose }).result
    }

    fn len(&self) -> u64 {
        self.file.state.len()
    }

    fn is_removed(&self) -> bool {
        has_no_name(&self.file.descriptor)
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.file.changeable(Operation::Grow)?;
        self.file.state.accepts(Operation::Grow, &self.file.name)?;
        let _resizing = self.file.state.resizing.lock();
        let old = self.file.state.len();
        if len <= old {
            return Ok(());
        }
        if let Err(errno) = self.file.allocate_extending(old..len) {
            // Part of the range may have been allocated, and the length extended with it.
            let restored = rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&self.file.descriptor, old));
            if let Err(restoring) = restored {
                return Err(self.file.failed(Operation::Truncate, old, 0, restoring));
            }
            return Err(self.file.failed(Operation::Grow, old, len - old, errno));
        }
        self.file.state.set_len(len);
        Ok(())
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.file.changeable(Operation::Grow)?;
        self.file.state.accepts(Operation::Grow, &self.file.name)?;
        let len = range.end.saturating_sub(range.start);
        let _resizing = self.file.state.resizing.lock();
        self.file.inside(Operation::Grow, range.start, len)?;
        if len == 0 {
            return Ok(());
        }
        self.file
            .allocate_inside(&range)
            .map_err(|errno| self.file.failed(Operation::Grow, range.start, len, errno))
    }

    fn renew(&self, range: Range<u64>) -> Result<()> {
        self.file.changeable(Operation::Grow)?;
        self.file.state.accepts(Operation::Grow, &self.file.name)?;
        let len = range.end.saturating_sub(range.start);
        let _resizing = self.file.state.resizing.lock();
        self.file.inside(Operation::Grow, range.start, len)?;
        if len == 0 {
            return Ok(());
        }
        self.file
            .renew_inside(&range)
            .map_err(|errno| self.file.failed(Operation::Grow, range.start, len, errno))
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.file.changeable(Operation::Truncate)?;
        let _resizing = self.file.state.resizing.lock();
        let old = self.file.state.len();
        if len >= old {
            return Ok(());
        }
        // Shorten the recorded length first, so that no new request is admitted past the new end.
        self.file.state.set_len(len);
        let truncated = rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&self.file.descriptor, len));
        if let Err(errno) = truncated {
            self.file.state.set_len(old);
            return Err(self.file.failed(Operation::Truncate, len, 0, errno));
        }
        Ok(())
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.file.changeable(Operation::PunchHole)?;
        let _resizing = self.file.state.resizing.lock();
        let end = range.end.min(self.file.state.len());
        if range.start >= end {
            return Ok(());
        }
        let len = end - range.start;
        match self.file.punch(&(range.start..end)) {
            Ok(true) => self.file.counters.punch(Purpose::Other, len),
            Ok(false) => {}
            Err(errno) => return Err(self.file.failed(Operation::PunchHole, range.start, len, errno)),
        }
        Ok(())
    }

    fn map(&self, range: Range<u64>) -> Result<Mapping> {
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
