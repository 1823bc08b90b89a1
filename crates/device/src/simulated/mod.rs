//! A directory of a simulated machine. All its crashes, faults and delays are derived from one
//! seed.
//!
//! *Scope*: which bytes, lengths and names are durable, which of them a crash may lose, and in
//! which combinations; the requests in flight; the charges of a cost clock; the planned faults.
//!
//! *Must not depend on*: the meaning of the bytes; threads (it is as deterministic as its callers).
//!
//! Invariants:
//!
//! - **S1** A file consists of a durable version and of the later changes in the order of their
//!   completion. A process sees the durable version with all changes applied in this order. A sync
//!   makes the changes durable that had completed before the sync was submitted.
//! - **S2** A crash image consists of the durable version and a subset of the changes. Each sector
//!   of a write, and each change of a length, a hole or a name, is a separate element of this
//!   subset. An image never contains anything else.
//! - **S3** The same seed and the same calls give the same images, faults, orders and the same
//!   [`trace_hash`](SimDirectory::trace_hash). Images and hooks change no fault, order or trace;
//!   for a mapped file they only add versions that may survive, namely those at the time of the
//!   image or hook.
//! - **S4** The cost of an image depends on the number of changes since the last syncs, and not on
//!   the amount of data stored.
//! - **S5** The original world is changed neither by the operations of a hook on images nor by any
//!   operation on an image.
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
    /// Requests complete in the order of their submission. Without a cost clock they complete
    /// immediately; with a cost clock they complete as time passes.
    InOrder,
    /// When polled or waited for, in an order drawn from the seed (with a cost clock: among
    /// requests due at the same time).
    Shuffled,
}

/// The options of a simulated directory.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// The order in which submitted requests complete.
    pub completion: CompletionOrder,
    /// Size of the file system in bytes. Its space is allocated in pages of 4 KiB.
    pub capacity: u64,
    /// Maximum number of changes of a file that are not synced. If there are more, the older half
    /// of them becomes durable, in the same way as a kernel writes back old dirty pages.
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

/// A handle of a simulated directory. Clones share all state. This includes the record that a sync
/// of the directory has failed (D4); [`SimDirectory::reopen`] returns a handle without that record.
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
    /// still be taken; they show the state at the time of the crash.
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

    /// Returns the number of operations that were started and that change the device: writes, syncs
    /// (of files, mapped ranges and the directory), extensions, allocations, truncations, holes,
    /// creations, renames and removals. Reads are not included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.world.lock().operations
    }

    /// Returns a hash of all operations in their order. It is equal for equal seeds and equal calls
    /// (S3).
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.world.lock().trace
    }

    /// Returns a hash of all names, lengths and bytes that a process sees, including stores through
    /// mappings. Equal directories have equal hashes, and a hole is equal to zeros. The cost is
    /// proportional to the number of files and not to the number of bytes.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        let mut world = self.shared.world.lock();
        world.notice_all();
        world.content_hash()
    }

    /// Plans a fault. Faults that were planned earlier remain planned.
    pub fn inject(&self, fault: InjectedFault) {
        self.shared.world.lock().faults.inject(fault);
    }

    pub fn clear_faults(&self) {
        self.shared.world.lock().faults.clear();
    }

    /// Returns the number of calls in which a planned fault has occurred.
    #[must_use]
    pub fn faults_hit(&self) -> u64 {
        self.shared.world.lock().faults.hits()
    }

    /// Sets the size of the file system in bytes. If the new size is less than the space in use,
    /// the disk is full.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.world.lock().options.capacity = bytes;
    }

    /// Sets the boot id of the machine. An image of a power loss can be given the id of the
    /// previous boot, like a device that is reconnected. A running machine can be given a new id,
    /// like a container that is restarted.
    pub fn set_boot_id(&self, boot: BootId) {
        self.shared.world.lock().boot = boot;
    }

    /// Returns the number of bytes that are allocated to files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.world.lock().used()
    }

    /// Returns the number of requests that were submitted and are not complete.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.world.lock().flights.len()
    }

    /// Sets the clock to which all later reads and writes are charged. It runs in virtual time,
    /// which starts at [`SimDirectory::now_ns`]. Images have no clock.
    pub fn set_clock(&self, clock: Box<dyn CostClock>) {
        self.shared.world.lock().time.clock = Some(clock);
    }

    /// Returns the virtual time in nanoseconds. Waiting for a request advances it to the completion
    /// time of that request. A poll while no request is due advances it to the next completion
    /// time.
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
