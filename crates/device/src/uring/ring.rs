//! An io_uring and its requests.
//!
//! All `unsafe` code of the rings is here. It is sound because of invariant U1 of the pool: a
//! submitted request moves into `table` with its buffer and file, and leaves it only once its
//! completion has been taken from the completion queue. The kernel therefore never holds the
//! address of memory that another owner may use or free (D1).
//!
//! The submission queue is accessed only under `state`, and the completion queue only under
//! `reaper`. Entering the kernel needs neither lock.
//!
//! If the kernel can no longer be entered, because the ring was closed or a system-call filter is
//! active, the ring is broken for good: requests that were not submitted are taken back, and the
//! kernel completes the submitted ones by itself.

use crate::batch::BatchCompletion;
use crate::file::{MAX_TRANSFER, OpenFile};
use crate::{IoRequest, MemoryRegion};
use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fmt, io};

/// Maximum number of requests in a ring. Any more wait in its backlog.
pub(super) const CAPACITY: usize = 256;

/// Maximum number of files registered with a ring. Any more are used by descriptor.
pub(super) const FILES: u32 = 1024;

/// Maximum number of pieces of registered memory.
pub(super) const PIECES: u32 = 64;

/// Maximum length in bytes of a piece of registered memory, as limited by the kernel.
pub(super) const LONGEST_PIECE: usize = 1 << 30;

const _: () = assert!(CAPACITY.is_power_of_two() && MAX_TRANSFER <= u32::MAX as usize);

/// State shared by the requests of a batch.
#[derive(Debug)]
pub(crate) struct BatchContext {
    pub(super) file: Arc<OpenFile>,
    pub(super) in_flight: Arc<BatchCompletion>,
}

/// A read or write request in flight.
#[derive(Debug)]
pub(crate) struct RingRequest {
    pub(super) context: Arc<BatchContext>,
    pub(super) index: usize,
    pub(super) request: IoRequest,
    /// The file as passed to the kernel: its descriptor, and its index among the registered files.
    pub(super) target: (RawFd, Option<u32>),
}

/// An io_uring, and the requests in it.
pub(super) struct IoRing {
    kernel: IoUring,
    state: Mutex<RingState>,
    reaper: Mutex<Vec<(u64, i32)>>,
    /// Whether the kernel accepted the table of files and knows every file in it.
    fixed_files: bool,
    /// Number of threads that are in the kernel, entering it or leaving it.
    inside: AtomicUsize,
    /// Set after a permanent failure to enter the kernel. From then on, no requests are submitted.
    broken: AtomicBool,
    #[cfg(test)]
    refuses: AtomicBool,
}

struct RingState {
    table: Vec<Option<RingRequest>>,
    free: Vec<u32>,
    backlog: VecDeque<RingRequest>,
    pieces: Vec<RegisteredPiece>,
    /// Slots of the latest requests in the submission queue, indexed by request number modulo the
    /// capacity. `next` is the number of the next request.
    queued: Vec<u32>,
    next: usize,
    /// Whether the unsubmitted requests were taken out of a broken ring's queue.
    emptied: bool,
}

/// Part of a registered region. Buffers inside it need not be pinned for each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisteredPiece {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) index: u16,
}

/// The right to reap completions, which at most one thread holds.
pub(super) struct CompletionReaper<'a> {
    ring: &'a IoRing,
    scratch: MutexGuard<'a, Vec<(u64, i32)>>,
}

impl IoRing {
    /// Creates a ring without registered files or memory.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM` and similar errors if the kernel or its administrator refuses.
    pub(super) fn new() -> io::Result<IoRing> {
        // Use neither DEFER_TASKRUN nor COOP_TASKRUN. They save an interrupt by completing requests
        // only when the submitting thread enters the kernel, but here another thread may be the one
        // that waits.
        let kernel = IoUring::builder().dontfork().build(CAPACITY as u32)?;
        if !kernel.params().is_feature_nodrop() || !kernel.params().is_feature_submit_stable() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a kernel of 5.5 or later is needed",
            ));
        }
        let fixed_files = kernel.submitter().register_files_sparse(FILES).is_ok();
        Ok(IoRing {
            kernel,
            state: Mutex::new(RingState {
                table: (0..CAPACITY).map(|_| None).collect(),
                free: (0..CAPACITY as u32).rev().collect(),
                backlog: VecDeque::new(),
                pieces: Vec::new(),
                queued: vec![0; CAPACITY],
                next: 0,
                emptied: false,
            }),
            reaper: Mutex::new(Vec::with_capacity(2 * CAPACITY)),
            fixed_files,
            inside: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            #[cfg(test)]
            refuses: AtomicBool::new(false),
        })
    }

    /// Queues requests for the next `enter`. Requests beyond the capacity wait in the backlog.
    pub(super) fn push(&self, flights: impl IntoIterator<Item = RingRequest>) {
        let mut state = self.state.lock();
        for flight in flights {
            state.backlog.push_back(flight);
        }
        self.launch(&mut state);
    }

    /// Moves requests from the backlog to the submission queue while that has free entries. Returns
    /// how many it moved.
    fn launch(&self, state: &mut RingState) -> usize {
        if self.is_broken() {
            return 0;
        }
        let mut launched = 0;
        // SAFETY: all other users of the submission queue are here too, and `state` is locked.
        let mut queue = unsafe { self.kernel.submission_shared() };
        while !state.backlog.is_empty()
            && let Some(slot) = state.free.pop()
        {
            let mut flight = state.backlog.pop_front().expect("the backlog is not empty");
            let entry = self.entry(&state.pieces, &mut flight).user_data(u64::from(slot));
            state.table[slot as usize] = Some(flight);
            // SAFETY: the entry's buffer and descriptor belong to the request, which the table now
            // holds until the kernel has completed it (U1).
            let pushed = unsafe { queue.push(&entry) };
            // There are no more slots than queue entries, and every entry has a slot in the table.
            assert!(pushed.is_ok(), "the submission queue has an entry for every slot");
            let place = state.next % CAPACITY;
            state.queued[place] = slot;
            state.next += 1;
            launched += 1;
        }
        launched
    }

    /// Builds the submission queue entry of a request.
    fn entry(&self, pieces: &[RegisteredPiece], flight: &mut RingRequest) -> Entry {
        let (descriptor, slot) = flight.target;
        match (&mut flight.request, slot.filter(|_| self.fixed_files)) {
            (IoRequest::Read { offset, buffer, .. }, slot) => {
                let (start, len) = (buffer.as_mut_ptr(), buffer.len());
                let wanted = len.min(MAX_TRANSFER) as u32;
                match (piece_of(pieces, start as usize, len), slot) {
                    (Some(piece), Some(slot)) => {
                        opcode::ReadFixed::new(types::Fixed(slot), start, wanted, piece)
                            .offset(*offset)
                            .build()
                    }
                    (Some(piece), None) => {
                        opcode::ReadFixed::new(types::Fd(descriptor), start, wanted, piece)
                            .offset(*offset)
                            .build()
                    }
                    (None, Some(slot)) => opcode::Read::new(types::Fixed(slot), start, wanted)
                        .offset(*offset)
                        .build(),
                    (None, None) => opcode::Read::new(types::Fd(descriptor), start, wanted)
                        .offset(*offset)
                        .build(),
                }
            }
            (IoRequest::Write { offset, buffer, .. }, slot) => {
                let (start, len) = (buffer.as_ptr(), buffer.len());
                let wanted = len.min(MAX_TRANSFER) as u32;
                match (piece_of(pieces, start as usize, len), slot) {
                    (Some(piece), Some(slot)) => {
                        opcode::WriteFixed::new(types::Fixed(slot), start, wanted, piece)
                            .offset(*offset)
                            .build()
                    }
                    (Some(piece), None) => {
                        opcode::WriteFixed::new(types::Fd(descriptor), start, wanted, piece)
                            .offset(*offset)
                            .build()
                    }
                    (None, Some(slot)) => opcode::Write::new(types::Fixed(slot), start, wanted)
                        .offset(*offset)
                        .build(),
                    (None, None) => opcode::Write::new(types::Fd(descriptor), start, wanted)
                        .offset(*offset)
                        .build(),
                }
            }
            (IoRequest::Sync { .. }, _) => unreachable!("syncs are not carried by rings"),
        }
    }

    /// Submits the queue to the kernel, and waits until at least `want` completions are available.
    /// May return early.
    ///
    /// # Errors
    /// If entering the kernel fails permanently. The ring is then broken, and the caller must
    /// handle the requests that [`IoRing::take_back`] returns.
    pub(super) fn enter(&self, want: usize) -> io::Result<()> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let outcome = if self.is_broken() {
            Ok(())
        } else {
            self.try_enter(want)
        };
        if outcome.is_err() {
            self.broken.store(true, Ordering::SeqCst);
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// Returns whether entering the kernel has failed permanently.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Takes the unsubmitted requests back from a broken ring. Returns none while a thread is in
    /// the kernel, which might still submit them; that thread calls this function when it leaves.
    pub(super) fn take_back(&self) -> Vec<RingRequest> {
        let mut state = self.state.lock();
        if self.inside.load(Ordering::SeqCst) > 0 {
            return Vec::new();
        }
        let mut taken = Vec::new();
        if !state.emptied {
            state.emptied = true;
            // SAFETY: the submission queue is used only under `state`, which is locked. No thread
            // enters the kernel any more, so what stays in the queue is never handed to it.
            let waiting = unsafe { self.kernel.submission_shared() }.len();
            for number in state.next - waiting..state.next {
                let slot = state.queued[number % CAPACITY];
                let flight = state.table[slot as usize].take();
                taken.push(flight.expect("a queued request is in the table"));
                state.free.push(slot);
            }
        }
        taken.extend(state.backlog.drain(..));
        taken
    }

    /// Makes the ring behave as if entering the kernel had failed permanently.
    #[cfg(test)]
    pub(super) fn refuse(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    fn try_enter(&self, want: usize) -> io::Result<()> {
        #[cfg(test)]
        if self.refuses.load(Ordering::SeqCst) {
            return Err(io::Error::from(Errno::PERM));
        }
        match self.kernel.submitter().submit_and_wait(want) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::INTR) => Ok(()),
                // The kernel is short of memory. Entries that it did not accept stay queued for the
                // next call.
                Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    /// Returns the number of requests in the kernel or queued for the next `enter`.
    pub(super) fn in_flight(&self) -> usize {
        CAPACITY - self.state.lock().free.len()
    }

    /// Returns whether requests are waiting for a free submission queue entry.
    pub(super) fn has_backlog(&self) -> bool {
        !self.state.lock().backlog.is_empty()
    }

    /// Acquires the right to reap completions, unless another thread holds it.
    pub(super) fn reaper(&self) -> Option<CompletionReaper<'_>> {
        let scratch = self.reaper.try_lock()?;
        Some(CompletionReaper { ring: self, scratch })
    }

    /// Returns whether a thread holds the right to reap completions.
    pub(super) fn is_reaped(&self) -> bool {
        self.reaper.is_locked()
    }

    /// Registers a file in a slot, or frees the slot. Returns whether that succeeded.
    pub(super) fn set_file(&self, slot: u32, descriptor: Option<RawFd>) -> bool {
        self.fixed_files
            && self
                .kernel
                .submitter()
                .register_files_update(slot, &[descriptor.unwrap_or(-1)])
                .is_ok()
    }

    /// Uses every file by descriptor from now on, because the kernel does not know all of them.
    pub(super) fn forget_files(&mut self) {
        self.fixed_files = false;
    }

    /// Creates the table of registered memory.
    ///
    /// # Errors
    /// The kernel's error. `register_buffers_sparse` needs Linux 5.19.
    pub(super) fn prepare_memory(&self) -> io::Result<()> {
        self.kernel.submitter().register_buffers_sparse(PIECES)
    }

    /// Registers a piece of memory, which pins its pages once.
    ///
    /// # Errors
    /// The kernel's error, such as `ENOMEM` above the limit on locked memory.
    ///
    /// # Panics
    /// If the piece is not in the region.
    pub(super) fn set_memory(&self, region: &MemoryRegion, piece: RegisteredPiece) -> io::Result<()> {
        let start = region.start.as_ptr() as usize;
        assert!(piece.start >= start && piece.start + piece.len <= start + region.len);
        let vector = libc::iovec {
            iov_base: piece.start as *mut libc::c_void,
            iov_len: piece.len,
        };
        // SAFETY: the piece is inside the region, as asserted above. The pool holds the region's
        // keeper, and so keeps its memory alive as long as this ring.
        unsafe {
            self.kernel
                .submitter()
                .register_buffers_update(u32::from(piece.index), &[vector], None)?;
        }
        self.state.lock().pieces.push(piece);
        Ok(())
    }

    /// Shares all registered memory of another ring without pinning it again.
    ///
    /// # Errors
    /// The kernel's error. Sharing needs Linux 6.12.
    pub(super) fn share_memory(&self, other: &IoRing) -> io::Result<()> {
        let pieces = other.state.lock().pieces.clone();
        self.kernel
            .submitter()
            .register_buffers_clone(other.kernel.as_raw_fd())?;
        self.state.lock().pieces = pieces;
        Ok(())
    }
}

/// Returns the registered piece that contains a buffer.
fn piece_of(pieces: &[RegisteredPiece], start: usize, len: usize) -> Option<u16> {
    pieces
        .iter()
        .find(|piece| {
            start >= piece.start
                && start - piece.start <= piece.len
                && piece.len - (start - piece.start) >= len
        })
        .map(|piece| piece.index)
}

impl CompletionReaper<'_> {
    /// Reaps completions, refills the queue from the backlog, and appends each completed request
    /// and the kernel's result to `done`. Returns whether requests were queued that an `enter` must
    /// submit.
    pub(super) fn reap(&mut self, done: &mut Vec<(RingRequest, i32)>) -> bool {
        self.scratch.clear();
        {
            // SAFETY: the completion queue is used only here, and the reaper is locked.
            let queue = unsafe { self.ring.kernel.completion_shared() };
            self.scratch
                .extend(queue.map(|entry| (entry.user_data(), entry.result())));
        }
        if self.scratch.is_empty() {
            return false;
        }
        let mut state = self.ring.state.lock();
        for &(slot, result) in self.scratch.iter() {
            let flight = state.table[slot as usize]
                .take()
                .expect("the kernel completes what is in flight, once");
            state.free.push(slot as u32);
            done.push((flight, result));
        }
        self.ring.launch(&mut state) > 0
    }
}

impl Drop for IoRing {
    /// The pool has waited for all requests. Any left here are due to a kernel failure and are
    /// leaked, because the kernel may still write to their memory.
    fn drop(&mut self) {
        for flight in self.state.get_mut().table.drain(..).flatten() {
            std::mem::forget(flight);
        }
    }
}

impl fmt::Debug for IoRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoRing")
            .field("descriptor", &self.kernel.as_raw_fd())
            .field("fixed_files", &self.fixed_files)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_in_a_piece_only_if_all_of_it_is() {
        let pieces = [
            RegisteredPiece {
                start: 0x1000,
                len: 0x1000,
                index: 0,
            },
            RegisteredPiece {
                start: 0x2000,
                len: 0x1000,
                index: 1,
            },
        ];
        assert_eq!(piece_of(&pieces, 0x1000, 0x1000), Some(0));
        assert_eq!(piece_of(&pieces, 0x2800, 0x800), Some(1));
        assert_eq!(piece_of(&pieces, 0x1800, 0x1000), None, "it lies across two");
        assert_eq!(piece_of(&pieces, 0x2800, 0x801), None, "it ends behind");
        assert_eq!(piece_of(&pieces, 0xfff, 1), None, "it begins before");
    }
}
