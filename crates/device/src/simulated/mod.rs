//! A simulated machine: a directory whose crashes, faults and delays are all derived from one seed.
//!
//! *Scope*: which bytes, lengths and names are durable, which a crash may lose, and in which
//! states; the requests in flight; the charges of a cost clock; the planned faults.
//!
//! *Must not depend on*: the meaning of the bytes; threads (it is as deterministic as its callers).
//!
//! Invariants:
//!
//! - **S1** A file is a durable version plus the later changes in order of completion; applying
//!   them in this order yields what a process sees. A sync makes the changes before its submission
//!   durable.
//! - **S2** An image is the durable version plus a subset of the changes, where each sector of each
//!   write and each change of a length, a hole or a name counts separately. It never contains
//!   anything else.
//! - **S3** The same seed and the same calls give the same images, faults, orders and the same
//!   [`trace_hash`](SimDirectory::trace_hash). Images and hooks change no fault, order or trace;
//!   for a mapped file they only add versions that may survive, namely those at the time of the
//!   image or hook.
//! - **S4** The cost of an image depends on the changes since the last syncs, not on the stored
//!   data.
//! - **S5** Operations of a hook on images, and all operations on an image, leave the original
//!   world unchanged.
//!
//! ```
//! use alluvium_base::Purpose;
//! use alluvium_device::simulated::{SimDirectory, CrashSurvival};
//! use alluvium_device::{AlignedBuffer, Directory, FileOptions};
//! let directory = SimDirectory::new(7);
//! let file = directory.create("log", FileOptions::DIRECT)?;
//! file.grow(4096)?;
//! file.sync(Purpose::Log)?;
//! directory.sync()?;
//! file.write_at(0, AlignedBuffer::padded(b"not synced"), Purpose::Log)?;
//!
//! let after_power_loss = directory.image(CrashSurvival::None, 1).open("log", FileOptions::DIRECT)?;
//! assert_eq!(after_power_loss.read_at(0, 512, Purpose::Log)?[0], 0);
//! let after_kill = directory.image(CrashSurvival::Process, 1).open("log", FileOptions::DIRECT)?;
//! assert_eq!(&after_kill.read_at(0, 512, Purpose::Log)?[..10], b"not synced");
//! # Ok::<(), alluvium_device::Error>(())
//! ```

mod clock;
mod content;
mod corrupt;
mod directory;
mod faults;
mod file;
mod handle;
mod hook;
mod image;
mod mapping;
mod names;
mod requests;
#[cfg(test)]
mod tests;
mod world;

pub use corrupt::Corruption;
pub use faults::{FaultDuration, InjectedFailure, InjectedFault};
pub use hook::CrashPoint;
pub use image::CrashSurvival;

use crate::{BootId, DeviceCounters};
use alluvium_base::cost::CostClock;
use hook::OperationHook;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use world::SimWorld;

/// The completion order of submitted requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// In order of submission: immediately without a cost clock, otherwise as time passes.
    InOrder,
    /// When polled or waited for, in an order drawn from the seed (with a cost clock: among
    /// requests due at the same time).
    Shuffled,
}

/// Options of a simulated directory.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Completion order of submitted requests.
    pub completion: CompletionOrder,
    /// Size of the file system in bytes; space is allocated in pages of 4 KiB.
    pub capacity: u64,
    /// Maximum number of changes of one file that wait for a sync. Beyond it the older half becomes
    /// durable, like the write-back of old dirty pages by a kernel.
    pub pending_limit: usize,
}

impl SimOptions {
    /// Returns options with immediate completion, a disk of 16 TiB, and at most 65,536 unsynced
    /// changes per file.
    #[must_use]
    pub fn new(seed: u64) -> SimOptions {
        SimOptions {
            seed,
            completion: CompletionOrder::InOrder,
            capacity: 16 * alluvium_base::TIB,
            pending_limit: 1 << 16,
        }
    }
}

/// A handle of a simulated directory. Clones share all state, including the record of a failed sync
/// of the directory (D4); [`SimDirectory::reopen`] returns a handle without that record.
#[derive(Clone)]
pub struct SimDirectory {
    shared: Arc<SimDirectoryState>,
    failed_syncs: u64,
}

struct SimDirectoryState {
    world: Mutex<SimWorld>,
    counters: DeviceCounters,
    hook: OperationHook,
    hooked: AtomicBool,
}

impl SimDirectory {
    /// Creates an empty directory with the options of [`SimOptions::new`].
    #[must_use]
    pub fn new(seed: u64) -> SimDirectory {
        SimDirectory::with(SimOptions::new(seed))
    }

    #[must_use]
    pub fn with(options: SimOptions) -> SimDirectory {
        SimDirectory::of(SimWorld::new(options))
    }

    fn of(world: SimWorld) -> SimDirectory {
        SimDirectory {
            shared: Arc::new(SimDirectoryState {
                world: Mutex::new(world),
                counters: DeviceCounters::new(),
                hook: OperationHook::default(),
                hooked: AtomicBool::new(false),
            }),
            failed_syncs: 0,
        }
    }

    /// Returns another handle of the same directory, as if a process opened it afresh: an earlier
    /// failed sync of the directory no longer counts.
    #[must_use]
    pub fn reopen(&self) -> SimDirectory {
        SimDirectory {
            shared: Arc::clone(&self.shared),
            failed_syncs: self.shared.world.lock().failed_syncs,
        }
    }

    /// Makes every later operation fail with [`Error::Crashed`](crate::Error::Crashed). Images can
    /// still be taken; they show the time of the crash.
    pub fn crash(&self) {
        let mut world = self.shared.world.lock();
        if world.crashed {
            return;
        }
        world.notice_all();
        let flights = std::mem::take(&mut world.flights);
        world.interrupted = flights
            .iter()
            .filter_map(|flight| Some((flight.file, world.change_of(flight)?)))
            .collect();
        world.flights = flights;
        world.crashed = true;
    }

    /// Returns whether [`SimDirectory::crash`] was called.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        self.shared.world.lock().crashed
    }

    /// Returns the number of started operations that change the device: writes, syncs (of files,
    /// mapped ranges and the directory), growth, allocation, truncation, holes, creates, renames
    /// and removes. Reads do not count.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.world.lock().operations
    }

    /// Returns a hash of all operations in order: equal for equal seeds and equal calls (S3).
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.world.lock().trace
    }

    /// Returns a hash of all names, lengths and bytes that a process sees; equal directories have
    /// equal hashes. The cost is proportional to the number of files, not bytes. A hole equals
    /// zeros; stores through mappings are included.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        let mut world = self.shared.world.lock();
        world.notice_all();
        world.content_hash()
    }

    /// Plans a fault in addition to those already planned.
    pub fn inject(&self, fault: InjectedFault) {
        self.shared.world.lock().faults.inject(fault);
    }

    pub fn clear_faults(&self) {
        self.shared.world.lock().faults.clear();
    }

    /// Returns the number of calls hit by planned faults.
    #[must_use]
    pub fn faults_hit(&self) -> u64 {
        self.shared.world.lock().faults.hits()
    }

    /// Sets the size of the file system in bytes. If it is smaller than the space in use, the disk
    /// is full.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.world.lock().options.capacity = bytes;
    }

    /// Sets the boot id of the machine. An image of a power loss can get the id of the previous
    /// boot, like a device that is reconnected; a running machine can get a new id, like a
    /// container that restarts.
    pub fn set_boot_id(&self, boot: BootId) {
        self.shared.world.lock().boot = boot;
    }

    /// Returns the number of bytes allocated to files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.world.lock().used()
    }

    /// Returns the number of submitted requests that are not complete.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.world.lock().flights.len()
    }

    /// Charges all later reads and writes to this clock, in virtual time that starts at
    /// [`SimDirectory::now_ns`]. Images have no clock.
    pub fn set_clock(&self, clock: Box<dyn CostClock>) {
        self.shared.world.lock().time.clock = Some(clock);
    }

    /// Returns the virtual time in nanoseconds. Waiting for a request advances it to the request's
    /// completion; a poll without due requests advances it to the next completion.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.world.lock().time.now_ns
    }

    /// Adds `ns` nanoseconds to the virtual time.
    pub fn advance(&self, ns: u64) {
        self.shared.world.lock().time.now_ns += ns;
    }
}

impl std::fmt::Debug for SimDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimDirectory").finish_non_exhaustive()
    }
}
