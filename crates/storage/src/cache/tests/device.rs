//! A device for tests that can hold back reads until they are released, and can be told to fail or
//! to return wrong data.

use alluvium_device::batch::BatchCompletion;
use alluvium_device::forward::ForwardDevice;
use alluvium_device::{Device, DeviceOperation, Error, IoBatch, IoOutcome, IoRequest, Ticket};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    None,
    /// Every read fails.
    Fail,
    /// Every read of this offset fails.
    FailAt(u64),
    /// Every read returns data in which one bit is flipped.
    Flip,
    /// Every read returns only zeros.
    Zero,
    /// Every call of `submit` panics.
    Panic,
}

#[derive(Debug)]
struct State {
    open: bool,
    lie: Lie,
    waiting: Vec<(Arc<BatchCompletion>, Vec<IoRequest>)>,
    batches: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Gated {
    inner: Arc<dyn Device>,
    state: Mutex<State>,
    opened: Condvar,
}

impl Gated {
    pub(super) fn new(inner: Arc<dyn Device>) -> Arc<Gated> {
        let state = State {
            open: true,
            lie: Lie::None,
            waiting: Vec::new(),
            batches: Vec::new(),
        };
        Arc::new(Gated {
            inner,
            state: Mutex::new(state),
            opened: Condvar::new(),
        })
    }

    pub(super) fn close(&self) {
        self.state.lock().open = false;
    }

    pub(super) fn open(&self) {
        let mut state = self.state.lock();
        state.open = true;
        self.perform(&mut state);
        self.opened.notify_all();
    }

    pub(super) fn lie(&self, lie: Lie) {
        self.state.lock().lie = lie;
    }

    /// Returns the number of reads in each batch so far.
    pub(super) fn batches(&self) -> Vec<usize> {
        self.state.lock().batches.clone()
    }

    fn perform(&self, state: &mut State) {
        let lie = state.lie;
        for (in_flight, requests) in state.waiting.drain(..) {
            for (index, request) in requests.into_iter().enumerate() {
                in_flight.complete(index, self.perform_one(request, lie));
            }
        }
    }

    fn perform_one(&self, request: IoRequest, lie: Lie) -> IoOutcome {
        let read = match &request {
            IoRequest::Read { offset, buffer, .. } => Some(*offset..offset + buffer.len() as u64),
            _ => None,
        };
        let mut batch = IoBatch::new();
        batch.push(request);
        let mut outcome = self.inner.submit(batch).take().remove(0);
        if let (Some(read), Some(buffer)) = (read, &mut outcome.buffer) {
            match lie {
                Lie::None | Lie::Panic => {}
                Lie::FailAt(place) if !read.contains(&place) => {}
                Lie::Flip => buffer[100] ^= 4,
                Lie::Zero => buffer.fill(0),
                Lie::Fail | Lie::FailAt(_) => {
                    outcome.result = Err(Error::Io {
                        operation: DeviceOperation::Read,
                        file: self.inner.name().to_owned(),
                        offset: 0,
                        len: buffer.len() as u64,
                        source: std::io::Error::from_raw_os_error(5),
                    });
                }
            }
        }
        outcome
    }
}

impl ForwardDevice for Gated {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn submit(&self, batch: IoBatch) -> Ticket {
        let requests = batch.into_requests();
        let in_flight = BatchCompletion::new(requests.len());
        let ticket = in_flight.ticket();
        let mut state = self.state.lock();
        if requests
            .iter()
            .any(|request| matches!(request, IoRequest::Read { .. }))
        {
            state.batches.push(requests.len());
            assert!(state.lie != Lie::Panic, "the device panics, as this test wants");
        }
        state.waiting.push((in_flight, requests));
        if state.open {
            self.perform(&mut state);
        }
        ticket
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        ticket.is_complete()
    }

    fn wait(&self, ticket: &Ticket) {
        let mut state = self.state.lock();
        while !ticket.is_complete() {
            self.opened.wait(&mut state);
        }
    }
}
