//! A directory of a simulated machine, all of whose crashes, faults and delays are derived from one
//! seed.
//!
//! *Scope*: which bytes, lengths and names are durable, which of them a crash may lose, and in
//! which combinations; the requests in flight; the charges of a cost clock; planned faults.
//!
//! *Must not depend on*: the meaning of the bytes; threads (it is as deterministic as its callers).
//!
//! Invariants:
//!
//! - **S1** A file consists of a durable version and the later changes in order of completion. A
//!   process sees the durable version with all changes applied in this order. A sync makes the
//!   changes durable that had completed before the sync was submitted.
//! - **S2** A crash image consists of the durable version and a subset of the changes, and never of
//!   anything else. Each sector of a write, and each change of a length, a hole or a name, is kept
//!   or lost separately.
//! - **S3** The same seed and the same calls give the same images, faults, orders and
//!   [`trace_hash`](SimDirectory::trace_hash). Images and hooks affect no fault, order or trace.
//!   For a mapped file, they only add versions that may survive: those at the time of the image or
//!   hook.
//! - **S4** The cost of an image depends on the number of changes since the last syncs rather than
//!   on the amount of data stored.
//! - **S5** Neither a hook's operations on images nor any operation on an image changes the
//!   original world.
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

/// The order in which submitted requests complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// Requests complete in submission order: immediately without a cost clock, and as time passes
    /// with one.
    InOrder,
    /// Requests complete when they are polled or waited for, in an order drawn from the seed. With
    /// a cost clock, the seed orders only requests that are due at the same time.
    Shuffled,
}

/// Options of a simulated directory.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// The order in which submitted requests complete.
    pub completion: CompletionOrder,
    /// Size of the file system in bytes. Space is allocated in pages of 4 KiB.
    pub capacity: u64,
    /// Maximum number of unsynced changes of a file. Beyond it, the older half becomes durable,
    /// just as a kernel writes back old dirty pages.
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

/// A handle of a simulated directory. Clones share all state, including the record of a failed
/// directory sync (D4). [`SimDirectory::reopen`] returns a handle without that record.
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

    /// Returns another handle of the same directory, as if another process had opened it. An
    /// earlier failed sync of the directory does not affect this handle.
    #[must_use]
    pub fn reopen(&self) -> SimDirectory {
        SimDirectory {
            shared: Arc::clone(&self.shared),
            failed_syncs: self.shared.world.lock().failed_syncs,
        }
    }

    /// Makes every later operation fail with [`Error::Crashed`](crate::Error::Crashed). Images can
    /// still be taken, and show the state at the time of the crash.
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

    /// Returns the number of operations started so far that change the device: writes, syncs (of
    /// files, mapped ranges and the directory), extensions, allocations, truncations, holes,
    /// creations, renames and removals. Reads do not count.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.world.lock().operations
    }

    /// Returns a hash of all operations in order, which is the same for the same seed and the same
    /// calls (S3).
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.world.lock().trace
    }

    /// Returns a hash of all names, lengths and bytes that a process sees, including stores through
    /// mappings. Equal directories have equal hashes, and holes count as zeros. The cost is
    /// proportional to the number of files rather than to the number of bytes.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        let mut world = self.shared.world.lock();
        world.notice_all();
        world.content_hash()
    }

    /// Plans a fault in addition to those planned earlier.
    pub fn inject(&self, fault: InjectedFault) {
        self.shared.world.lock().faults.inject(fault);
    }

    pub fn clear_faults(&self) {
        self.shared.world.lock().faults.clear();
    }

    /// Returns the number of calls that planned faults have hit.
    #[must_use]
    pub fn faults_hit(&self) -> u64 {
        self.shared.world.lock().faults.hits()
    }

    /// Sets the size of the file system in bytes. If it is less than the space in use, the disk is
    /// full.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.world.lock().options.capacity = bytes;
    }

    /// Sets the machine's boot id. An image after a power failure can be given the previous boot's
    /// id, like a device that is reconnected. A running machine can be given a new id, like a
    /// container that is restarted.
    pub fn set_boot_id(&self, boot: BootId) {
        self.shared.world.lock().boot = boot;
    }

    /// Returns the number of bytes allocated to files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.world.lock().used()
    }

    /// Returns the number of requests that were submitted but are not complete.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.world.lock().flights.len()
    }

    /// Sets the clock to which all later reads and writes are charged. It runs in virtual time,
    /// which starts at [`SimDirectory::now_ns`]. Images have no clock.
    pub fn set_clock(&self, clock: Box<dyn CostClock>) {
        self.shared.world.lock().time.clock = Some(clock);
    }

    /// Returns the virtual time in nanoseconds. Waiting for a request advances it to that request's
    /// completion time. Polling while no request is due advances it to the next completion time.
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
