//! A directory that simulates slower hardware in real time: every request takes at least as long as
//! a cost clock charges for it.
//!
//! *Scope*: when a request was submitted, and when it completes according to the clock.
//!
//! *Must not depend on*: the inner directory that executes the requests.
//!
//! Experiments can thus run on an SSD as if it were an older hard disk, for example. The clock acts
//! as a single server at which the accesses to all files queue in submission order. A ticket is
//! complete once the inner device has completed its requests and the clock's completion time for
//! them has passed. Only reads and writes are charged; syncs, name changes and stores into mappings
//! are free.

use crate::batch::BatchCompletion;
use crate::forward::{ForwardDevice, ForwardDirectory};
use crate::{Device, Directory, FileOptions, IoBatch, IoRequest, Ticket};
use alluvium_base::cost::{AccessKind, CostClock, DeviceAccess};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A directory that wraps another one and slows it down to the speed of a cost clock.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_base::cost::{DeviceAccess, CostClock, CostFault};
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions, ThrottledDirectory};
/// use std::{sync::Arc, time::Instant};
/// struct Slow(u64);
/// impl CostClock for Slow {
///     fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
///         self.0 = self.0.max(now_ns) + 1_000_000 + access.len;
///         Ok(self.0)
///     }
/// }
/// let directory = ThrottledDirectory::new(Arc::new(MemoryDirectory::new()), Box::new(Slow(0)));
/// let file = directory.create("a", FileOptions::DIRECT)?;
/// file.grow(4096)?;
/// let start = Instant::now();
/// file.write_at(0, AlignedBuffer::zeroed(4096), Purpose::Other)?;
/// assert!(start.elapsed().as_micros() >= 1_004);
/// # Ok::<(), alluvium_device::Error>(())
/// ```
pub struct ThrottledDirectory {
    inner: Arc<dyn Directory>,
    server: Arc<ThrottleClock>,
}

/// The clock shared by all files.
struct ThrottleClock {
    began: Instant,
    state: Mutex<ThrottleState>,
}

struct ThrottleState {
    clock: Box<dyn CostClock>,
    /// The number by which the clock identifies each file, by name.
    files: BTreeMap<String, u64>,
}

impl ThrottleClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a process lives less than five centuries")
    }

    /// Charges the reads and writes among `requests` to the clock. Returns when all of them are
    /// complete.
    fn charge(&self, name: &str, file: u64, requests: &[IoRequest]) -> u64 {
        let mut state = self.state.lock();
        // Read the time under the lock, so that the clock is charged in time order.
        let now_ns = self.now_ns();
        let mut done_ns = now_ns;
        for request in requests {
            let (kind, offset, len) = match request {
                IoRequest::Read { offset, buffer, .. } => (AccessKind::Read, *offset, buffer.len()),
                IoRequest::Write { offset, buffer, .. } => (AccessKind::Write, *offset, buffer.len()),
                IoRequest::Sync { .. } => continue,
            };
            let access = DeviceAccess {
                file,
                offset,
                len: len as u64,
                kind,
            };
            match state.clock.charge(now_ns, &access) {
                Ok(at_ns) => done_ns = done_ns.max(at_ns),
                Err(fault) => panic!("{kind:?} of {len} bytes at {offset} of {name}: {fault}"),
            }
        }
        done_ns
    }

    fn sleep_until(&self, at_ns: u64) {
        loop {
            let now_ns = self.now_ns();
            if now_ns >= at_ns {
                return;
            }
            std::thread::sleep(Duration::from_nanos(at_ns - now_ns));
        }
    }
}

impl ThrottledDirectory {
    /// Creates a directory that runs `inner` at the speed of `clock`, whose time starts now.
    #[must_use]
    pub fn new(inner: Arc<dyn Directory>, clock: Box<dyn CostClock>) -> ThrottledDirectory {
        let state = ThrottleState {
            clock,
            files: BTreeMap::new(),
        };
        ThrottledDirectory {
            inner,
            server: Arc::new(ThrottleClock {
                began: Instant::now(),
                state: Mutex::new(state),
            }),
        }
    }

    fn throttle(&self, inner: Arc<dyn Device>) -> Arc<dyn Device> {
        let mut state = self.server.state.lock();
        let next = state.files.len() as u64;
        let file = *state.files.entry(inner.name().to_owned()).or_insert(next);
        Arc::new(ThrottledFile {
            inner,
            file,
            server: Arc::clone(&self.server),
            queue: Mutex::default(),
        })
    }
}

impl fmt::Debug for ThrottledDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledDirectory")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl ForwardDirectory for ThrottledDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn wrap(&self, file: Arc<dyn Device>, _options: FileOptions) -> Arc<dyn Device> {
        self.throttle(file)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.inner.notes();
        notes.push("reads and writes are slowed down to the pace of a cost model".to_owned());
        notes
    }

    fn describe(&self) -> String {
        format!("{} (throttled)", self.inner.describe())
    }
}

struct ThrottledFile {
    inner: Arc<dyn Device>,
    file: u64,
    server: Arc<ThrottleClock>,
    /// The batches whose outcomes have not been collected yet.
    queue: Mutex<Vec<ThrottledBatch>>,
}

struct ThrottledBatch {
    inner: Ticket,
    done_ns: u64,
    outer: Arc<BatchCompletion>,
}

impl ThrottledBatch {
    fn hand_over(self) {
        for (index, outcome) in self.inner.take().into_iter().enumerate() {
            self.outer.complete(index, outcome);
        }
    }
}

impl ThrottledFile {
    fn withdraw(&self, ticket: &Ticket) -> Option<ThrottledBatch> {
        let mut queue = self.queue.lock();
        let position = queue.iter().position(|queued| ticket.waits_for(&queued.outer))?;
        Some(queue.swap_remove(position))
    }
}

impl ForwardDevice for ThrottledFile {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn submit(&self, batch: IoBatch) -> Ticket {
        let requests = batch.into_requests();
        let done_ns = self.server.charge(self.inner.name(), self.file, &requests);
        let outer = BatchCompletion::new(requests.len());
        let mut batch = IoBatch::with_capacity(requests.len());
        for request in requests {
            batch.push(request);
        }
        let inner = self.inner.submit(batch);
        let ticket = outer.ticket();
        let mut queue = self.queue.lock();
        // A complete batch whose ticket was dropped need no longer be kept (D1).
        queue.retain(|queued| Arc::strong_count(&queued.outer) > 1 || !self.inner.poll(&queued.inner));
        queue.push(ThrottledBatch {
            inner,
            done_ns,
            outer,
        });
        ticket
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        if ticket.is_complete() {
            return true;
        }
        let Some(queued) = self.withdraw(ticket) else {
            return ticket.is_complete();
        };
        if self.inner.poll(&queued.inner) && self.server.now_ns() >= queued.done_ns {
            queued.hand_over();
            return true;
        }
        self.queue.lock().push(queued);
        false
    }

    fn wait(&self, ticket: &Ticket) {
        while !ticket.is_complete() {
            let Some(queued) = self.withdraw(ticket) else {
                // Another thread is waiting for the same ticket.
                std::thread::yield_now();
                continue;
            };
            self.inner.wait(&queued.inner);
            self.server.sleep_until(queued.done_ns);
            queued.hand_over();
        }
    }
}

impl fmt::Debug for ThrottledFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledFile")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;
    use crate::memory::MemoryDirectory;
    use alluvium_base::Purpose;
    use alluvium_base::cost::CostFault;

    /// A disk with one arm.
    struct OneArmedDisk {
        setup_ns: u64,
        byte_ns: u64,
        free_ns: u64,
    }

    impl CostClock for OneArmedDisk {
        fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
            self.free_ns = self.free_ns.max(now_ns) + self.setup_ns + self.byte_ns * access.len;
            Ok(self.free_ns)
        }
    }

    fn disk(setup_ns: u64, byte_ns: u64) -> Arc<dyn Device> {
        let clock = OneArmedDisk {
            setup_ns,
            byte_ns,
            free_ns: 0,
        };
        let directory = ThrottledDirectory::new(Arc::new(MemoryDirectory::new()), Box::new(clock));
        let directory: Arc<dyn Directory> = Arc::new(directory);
        let file = directory
            .create("a", FileOptions::DIRECT)
            .expect("an empty directory");
        file.grow(1 << 16).expect("memory has room");
        file
    }

    fn reads(count: u64) -> IoBatch {
        let mut batch = IoBatch::new();
        for block in 0..count {
            batch.read(block * 512, AlignedBuffer::zeroed(512), Purpose::Other);
        }
        batch
    }

    #[test]
    fn a_batch_takes_at_least_the_time_that_it_was_charged() {
        let file = disk(1_000_000, 100);
        let start = Instant::now();
        file.run(reads(4)).expect("inside the file");
        assert!(start.elapsed() >= Duration::from_nanos(4 * (1_000_000 + 51_200)));
    }

    #[test]
    fn batches_in_flight_together_queue_at_the_one_server() {
        let file = disk(2_000_000, 0);
        let start = Instant::now();
        let (first, second) = (file.submit(reads(1)), file.submit(reads(2)));
        file.wait(&second);
        assert!(start.elapsed() >= Duration::from_millis(6));
        assert!(file.poll(&first), "the first was due before the second");
        assert_eq!(first.take_buffers().expect("inside the file").len(), 1);
        assert_eq!(second.take_buffers().expect("inside the file").len(), 2);
    }

    #[test]
    fn a_poll_before_the_time_has_come_is_false_and_loses_nothing() {
        let file = disk(20_000_000, 0);
        let start = Instant::now();
        let ticket = file.submit(reads(1));
        let early = file.poll(&ticket);
        assert!(!early || start.elapsed() >= Duration::from_millis(20));
        file.wait(&ticket);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn abandoned_batches_are_performed_and_forgotten() {
        let file = disk(10_000, 0);
        let mut write = IoBatch::new();
        write.write(0, AlignedBuffer::padded(&[7; 512]), Purpose::Other);
        drop(file.submit(write));
        assert_eq!(
            file.read_at(0, 512, Purpose::Other).expect("inside the file")[0],
            7
        );
    }

    #[test]
    fn syncs_and_empty_batches_cost_nothing() {
        let file = disk(3_600_000_000_000, 0);
        file.sync(Purpose::Other).expect("memory syncs");
        assert!(file.poll(&file.submit(IoBatch::new())));
    }
}
