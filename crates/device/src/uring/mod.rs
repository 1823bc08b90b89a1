//! Executes batches of reads and writes through io_uring.
//!
//! *Scope*: the rings; which thread enters the kernel and which ones wait; registered files and
//! registered memory.
//!
//! *Must not depend on*: syncs, poison, short transfers, which it passes on to the workers of
//! [`file`](crate::file).
//!
//! Invariants:
//!
//! - **U1** A ring's table owns each request that is in the kernel, until its completion has been
//!   reaped (D1).
//! - **U2** No thread waits in the kernel while it holds a lock that a submission needs.
//! - **U3** At most one thread per ring waits in the kernel, and only this thread reaps
//!   completions. When it leaves, another waiting thread takes its place. A completion is therefore
//!   never reaped by one thread while another sleeps in the kernel for it.
//! - **U4** Dropping the pool waits for all requests in flight.
//! - **U5** If the kernel refuses to enter a ring, no request is lost: the kernel completes the
//!   requests already submitted, and the workers execute the others.
//! - **U6** Before a thread waits for requests, it submits all requests that it has gathered.
//!
//! There is a pool of rings because threads on the same ring contend for the kernel's lock on it
//! and wake each other. A thread's number, modulo the number of rings, selects its ring. If there
//! are no more threads than rings, no ring is shared. A ticket records its ring, so any thread may
//! wait for it. Rings are created on first use.
//!
//! Measured savings: a blocking 4 KiB read by a single thread costs 21–30 µs of CPU time here (a
//! small virtual machine with a virtio disk); a read in a batch of 32 costs 2.3–3.5 µs, nearly all
//! of it in the kernel's block layer and in notifying the device. A single read that is awaited at
//! once costs at least as much through a ring as a blocking call does, so it bypasses the rings. So
//! do syncs: the kernel executes a ring's syncs on threads too, and at most one sync per file may
//! run (`file`, F1).

mod coordinator;
mod plug;
mod ring;

use crate::batch::BatchCompletion;
use crate::file::{DirectoryNotes, OpenFile, WorkerPool};
use crate::{IoRequest, MemoryRegion, Ticket};
use coordinator::RingCoordinator;
use parking_lot::Mutex;
pub use plug::SubmissionPlug;
pub(crate) use ring::RingRequest;
use ring::{BatchContext, FILES, IoRing, LONGEST_PIECE, PIECES, RegisteredPiece};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::{fmt, io};

/// Maximum number of rings per directory.
const MOST_RINGS: usize = 16;

/// The rings of one directory.
pub(crate) struct RingPool {
    stations: Box<[OnceLock<Option<Arc<RingCoordinator>>>]>,
    registry: Mutex<RingRegistry>,
    workers: Arc<WorkerPool>,
    notes: Arc<DirectoryNotes>,
}

/// Files and memory to register with every ring, including rings created later.
#[derive(Default)]
struct RingRegistry {
    stations: Vec<Arc<RingCoordinator>>,
    files: Vec<Option<RawFd>>,
    memory: Vec<(MemoryRegion, Vec<RegisteredPiece>)>,
    pieces: usize,
}

impl RingPool {
    /// Creates a pool with its first ring.
    ///
    /// # Errors
    /// The kernel's error if it refuses io_uring.
    pub(crate) fn new(workers: Arc<WorkerPool>, notes: Arc<DirectoryNotes>) -> io::Result<Arc<RingPool>> {
        let rings = RingPool {
            stations: (0..MOST_RINGS).map(|_| OnceLock::new()).collect(),
            registry: Mutex::default(),
            workers,
            notes,
        };
        let first = rings.start()?;
        rings.stations[0].get_or_init(|| Some(first));
        Ok(Arc::new(rings))
    }

    /// Creates a ring with all files and memory registered so far.
    fn start(&self) -> io::Result<Arc<RingCoordinator>> {
        // Hold the lock throughout, so that a file registered concurrently is not missed.
        let mut registry = self.registry.lock();
        let mut ring = IoRing::new()?;
        let mut files = registry.files.iter().enumerate();
        let known = files.all(|(slot, descriptor)| {
            descriptor.is_none_or(|descriptor| ring.set_file(slot as u32, Some(descriptor)))
        });
        if !known {
            ring.forget_files();
        }
        let station = RingCoordinator::new(ring, Arc::clone(&self.workers), Arc::clone(&self.notes));
        let station = Arc::new(station);
        let first = registry.stations.first();
        if registry.memory.is_empty()
            || first.is_none_or(|first| station.ring.share_memory(&first.ring).is_err())
        {
            // Older kernels refuse. Registering then fails too, or works piece by piece.
            if let Err(error) = station.ring.prepare_memory() {
                self.notes.add(format!(
                    "the kernel refuses to register buffers ({error}): requests pin their pages one by one"
                ));
            } else {
                for (region, pieces) in &registry.memory {
                    self.register_with(&station.ring, region, pieces);
                }
            }
        }
        registry.stations.push(Arc::clone(&station));
        Ok(station)
    }

    fn station(&self, home: usize) -> &Arc<RingCoordinator> {
        let station = self.stations[home].get().and_then(Option::as_ref);
        station.expect("a ticket's home was given out by `home`")
    }

    /// Returns the index of this thread's ring.
    pub(crate) fn ring_index(&self) -> usize {
        let home = thread_number() % self.stations.len();
        let station = self.stations[home].get_or_init(|| {
            self.start()
                .inspect_err(|error| {
                    self.notes.add(format!(
                        "an additional io_uring was refused ({error}): threads share the others"
                    ));
                })
                .ok()
        });
        if station.is_some() { home } else { 0 }
    }

    /// Returns the requests of a batch that a ring can execute. The others are passed to the
    /// workers.
    pub(crate) fn flights(
        &self,
        file: &Arc<OpenFile>,
        in_flight: Arc<BatchCompletion>,
        carried: Vec<(usize, IoRequest)>,
    ) -> Vec<RingRequest> {
        let context = Arc::new(BatchContext {
            file: Arc::clone(file),
            in_flight,
        });
        let mut flights = Vec::with_capacity(carried.len());
        for (index, request) in carried {
            let target = match &request {
                IoRequest::Read { offset, buffer, .. } | IoRequest::Write { offset, buffer, .. } => {
                    file.ring_target(*offset, buffer.len())
                }
                IoRequest::Sync { .. } => None,
            };
            match target {
                Some(target) => flights.push(RingRequest {
                    context: Arc::clone(&context),
                    index,
                    request,
                    target,
                }),
                None => coordinator::finish_blocking(&self.workers, &context, index, request, 0),
            }
        }
        flights
    }

    /// Submits requests to the kernel.
    pub(crate) fn submit(
        &self,
        home: usize,
        file: &Arc<OpenFile>,
        in_flight: Arc<BatchCompletion>,
        carried: Vec<(usize, IoRequest)>,
    ) {
        self.submit_flights(home, self.flights(file, in_flight, carried));
    }

    /// Submits the requests of any number of batches to the kernel.
    pub(crate) fn submit_flights(&self, home: usize, flights: Vec<RingRequest>) {
        if !flights.is_empty() {
            self.station(home).submit(flights);
        }
    }

    /// Submits requests to the kernel and waits for their ticket as [`RingPool::wait`] does, with a
    /// single system call if no other thread is waiting on the ring.
    pub(crate) fn submit_and_wait(
        &self,
        home: usize,
        file: &Arc<OpenFile>,
        in_flight: Arc<BatchCompletion>,
        carried: Vec<(usize, IoRequest)>,
        ticket: &Ticket,
    ) {
        if !carried.is_empty() {
            let flights = self.flights(file, in_flight, carried);
            self.station(home).submit_and_wait(flights, ticket);
        }
    }

    /// Reaps the completions available on the ticket's ring.
    pub(crate) fn poll(&self, ticket: &Ticket) {
        self.station(ticket.device_part()).poll();
    }

    /// Waits until none of the ticket's requests is in its ring. Requests passed to the workers may
    /// still be pending.
    pub(crate) fn wait(&self, ticket: &Ticket) {
        if !ticket.is_complete() {
            self.station(ticket.device_part()).wait(ticket);
        }
    }

    /// Waits until some request on the ticket's ring has completed. Returns false if the ring is
    /// empty but the ticket is incomplete.
    pub(crate) fn wait_some(&self, ticket: &Ticket) -> bool {
        ticket.is_complete() || self.station(ticket.device_part()).wait_some(ticket)
    }

    /// Registers a file with all rings, if a slot is free.
    pub(crate) fn register_file(self: &Arc<Self>, file: &Arc<OpenFile>) {
        if let Some((descriptor, None)) = file.ring_target(0, 0)
            && let Some(slot) = self.register(descriptor)
        {
            file.registered(slot);
        }
    }

    /// Registers a descriptor with all rings, if a slot is free. The kernel keeps the file open
    /// until the slot is dropped or, if the process dies, until the last request has ended.
    pub(crate) fn register(self: &Arc<Self>, descriptor: RawFd) -> Option<FileSlot> {
        let mut registry = self.registry.lock();
        let slot = match registry.files.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if registry.files.len() < FILES as usize => {
                registry.files.push(None);
                registry.files.len() - 1
            }
            None => return None,
        };
        for (done, station) in registry.stations.iter().enumerate() {
            if !station.ring.set_file(slot as u32, Some(descriptor)) {
                // Register with all rings or none, because a request does not depend on its ring.
                for station in &registry.stations[..done] {
                    station.ring.set_file(slot as u32, None);
                }
                return None;
            }
        }
        registry.files[slot] = Some(descriptor);
        Some(FileSlot {
            index: slot as u32,
            rings: Arc::downgrade(self),
        })
    }

    /// Registers memory with all rings for the lifetime of the pool.
    pub(crate) fn register_memory(&self, region: MemoryRegion) {
        let mut registry = self.registry.lock();
        let start = region.start.as_ptr() as usize;
        if region.len == 0
            || registry
                .memory
                .iter()
                .any(|(known, _)| known.start == region.start)
        {
            return;
        }
        let count = region.len.div_ceil(LONGEST_PIECE);
        if registry.pieces + count > PIECES as usize {
            self.notes.add(format!(
                "memory beyond {PIECES} GiB is not registered with the kernel: requests pin its pages one by one"
            ));
            return;
        }
        let pieces: Vec<RegisteredPiece> = (0..count)
            .map(|number| RegisteredPiece {
                start: start + number * LONGEST_PIECE,
                len: LONGEST_PIECE.min(region.len - number * LONGEST_PIECE),
                index: (registry.pieces + number) as u16,
            })
            .collect();
        registry.pieces += count;
        for station in &registry.stations {
            self.register_with(&station.ring, &region, &pieces);
        }
        registry.memory.push((region, pieces));
    }

    fn register_with(&self, ring: &IoRing, region: &MemoryRegion, pieces: &[RegisteredPiece]) {
        let registered = pieces
            .iter()
            .try_for_each(|piece| ring.set_memory(region, *piece));
        if let Err(error) = registered {
            self.notes.add(format!(
                "the kernel did not register {} MiB of buffers ({error}): requests pin their pages one by one; raising the limit on locked memory (ulimit -l) may help",
                region.len >> 20
            ));
        }
    }
}

#[cfg(test)]
impl RingPool {
    /// Makes every existing ring behave as if the kernel refused to enter it.
    pub(crate) fn refuse(&self) {
        for station in &self.registry.lock().stations {
            station.ring.refuse();
        }
    }
}

impl fmt::Debug for RingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingPool")
            .field("most", &self.stations.len())
            .field("made", &self.registry.lock().stations.len())
            .finish_non_exhaustive()
    }
}

/// The slot of a registered file, freed on drop.
#[derive(Debug)]
pub(crate) struct FileSlot {
    index: u32,
    rings: Weak<RingPool>,
}

impl FileSlot {
    pub(crate) fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for FileSlot {
    fn drop(&mut self) {
        if let Some(rings) = self.rings.upgrade() {
            let mut registry = rings.registry.lock();
            for station in &registry.stations {
                station.ring.set_file(self.index, None);
            }
            registry.files[self.index as usize] = None;
        }
    }
}

/// Returns this thread's number. Threads are numbered in the order of their first call.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
