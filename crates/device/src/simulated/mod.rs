//! A simulated machine: a directory whose every crash, fault and delay is drawn from one seed.
//!
//! *Knows*: which bytes, lengths and names are durable, which a crash may lose, and in which
//! states; which requests are in flight; what a cost clock charges; what faults were planned.
//!
//! *Does not know*: what the bytes mean; threads (it is as deterministic as its callers are).
//!
//! *Read in this order*: [`SimDirectory`] and [`SimOptions`] here, [`Survival`] (`image`), then
//! `content` (pages that versions share), `file` (durable, pending, current), `names`, `world`,
//! `handle` and `flight` (requests), `mapping`, `faults`, `corrupt`, `clock`, `hook`.
//!
//! Invariants:
//!
//! - **S1** A file is a durable version and the changes since, in the order of their completion;
//!   applied in that order they give what a process sees. A sync that was submitted at some moment
//!   moves the changes before that moment over.
//! - **S2** An image is the durable version and a part of the changes: each sector of each write,
//!   each change of a length, of a hole, of a name alone. It never holds anything else.
//! - **S3** The same seed and the same calls give the same images, faults, orders and the same
//!   [`trace_hash`](SimDirectory::trace_hash). Images and hooks change no fault, order or trace; of
//!   a mapped file they only add to the versions that may survive, those of the moments at which
//!   they looked.
//! - **S4** An image costs what changed since the last syncs, not what is stored.
//! - **S5** Nothing that a hook does to images, and nothing that is done to an image, touches the
//!   world it came from.
//!
//! ```
//! use alluvium_base::Purpose;
//! use alluvium_device::simulated::{SimDirectory, Survival};
//! use alluvium_device::{Buffer, Directory, FileOptions};
//! let directory = SimDirectory::new(7);
//! let file = directory.create("log", FileOptions::DIRECT)?;
//! file.grow(4096)?;
//! file.sync(Purpose::Log)?;
//! directory.sync()?;
//! file.write_at(0, Buffer::padded(b"not synced"), Purpose::Log)?;
//!
//! let after_power_loss = directory.image(Survival::None, 1).open("log", FileOptions::DIRECT)?;
//! assert_eq!(after_power_loss.read_at(0, 512, Purpose::Log)?[0], 0);
//! let after_kill = directory.image(Survival::Process, 1).open("log", FileOptions::DIRECT)?;
//! assert_eq!(&after_kill.read_at(0, 512, Purpose::Log)?[..10], b"not synced");
//! # Ok::<(), alluvium_device::Error>(())
//! ```

mod clock;
mod content;
mod corrupt;
mod directory;
mod faults;
mod file;
mod flight;
mod handle;
mod hook;
mod image;
mod mapping;
mod names;
#[cfg(test)]
mod tests;
mod world;

pub use corrupt::Corruption;
pub use faults::{Failure, Fault, Lasting};
pub use hook::CrashPoint;
pub use image::Survival;

use crate::{BootId, Counters};
use alluvium_base::cost::CostClock;
use hook::Hook;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use world::World;

/// When submitted requests complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// In the order of submission: without a cost clock at once, with one as time passes.
    InOrder,
    /// When polled or waited for, in an order drawn from the seed (with a cost clock: among those
    /// due together).
    Shuffled,
}

/// What a simulated directory is made with.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Everything that is left open is drawn from it.
    pub seed: u64,
    /// When submitted requests complete.
    pub completion: Completion,
    /// The size of the file system in bytes; space is allocated in pages of 4 KiB.
    pub capacity: u64,
    /// How many changes of one file may wait for a sync; beyond that the older half becomes durable
    /// by itself, as a kernel writes back what has been dirty for long.
    pub pending_limit: usize,
}

impl SimOptions {
    /// Requests complete at once, a disk of 16 TiB, at most 65,536 changes of a file without a
    /// sync.
    #[must_use]
    pub fn new(seed: u64) -> SimOptions {
        SimOptions {
            seed,
            completion: Completion::InOrder,
            capacity: 16 * alluvium_base::TIB,
            pending_limit: 1 << 16,
        }
    }
}

/// A handle on a simulated directory. Clones share everything, also the memory of a failed sync of
/// the directory (D4): [`SimDirectory::reopen`] gives a handle that has forgotten.
#[derive(Clone)]
pub struct SimDirectory {
    shared: Arc<Shared>,
    failed_syncs: u64,
}

struct Shared {
    world: Mutex<World>,
    counters: Counters,
    hook: Hook,
    hooked: AtomicBool,
}

impl SimDirectory {
    /// Creates an empty directory with the options of [`SimOptions::new`].
    #[must_use]
    pub fn new(seed: u64) -> SimDirectory {
        SimDirectory::with(SimOptions::new(seed))
    }

    /// Returns an empty directory.
    #[must_use]
    pub fn with(options: SimOptions) -> SimDirectory {
        SimDirectory::of(World::new(options))
    }

    fn of(world: World) -> SimDirectory {
        SimDirectory {
            shared: Arc::new(Shared {
                world: Mutex::new(world),
                counters: Counters::new(),
                hook: Hook::default(),
                hooked: AtomicBool::new(false),
            }),
            failed_syncs: 0,
        }
    }

    /// Returns another handle on the same directory, as a process gets it that opens the directory
    /// afresh: an earlier failed sync of the directory no longer counts.
    #[must_use]
    pub fn reopen(&self) -> SimDirectory {
        SimDirectory {
            shared: Arc::clone(&self.shared),
            failed_syncs: self.shared.world.lock().failed_syncs,
        }
    }

    /// From now on every operation fails with [`Error::Crashed`](crate::Error::Crashed). Images can
    /// still be taken: they are of this moment.
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

    /// Returns how many operations began that change the device: writes, syncs (of files, mapped
    /// ranges and the directory), growth, allocation, truncation, holes, creates, renames, removes.
    /// Reads do not count.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.world.lock().operations
    }

    /// Returns a sum of everything that was done, in order: equal for equal seeds and equal calls
    /// (S3).
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.world.lock().trace
    }

    /// Returns a sum of all names, lengths and bytes that a process sees; equal directories have
    /// equal sums. It costs a step per file, not per byte. A hole equals zeros; stores through
    /// mappings count.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        let mut world = self.shared.world.lock();
        world.notice_all();
        world.content_hash()
    }

    /// Plans a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.world.lock().faults.inject(fault);
    }

    /// Forgets all planned faults.
    pub fn clear_faults(&self) {
        self.shared.world.lock().faults.clear();
    }

    /// Returns how many calls a planned fault has hit.
    #[must_use]
    pub fn faults_hit(&self) -> u64 {
        self.shared.world.lock().faults.hits()
    }

    /// Sets the size of the file system in bytes; smaller than what is in use means full.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.world.lock().options.capacity = bytes;
    }

    /// From now on the machine says that it is in this boot: an image of a loss of power can be
    /// given the boot that came before, as a device has that comes back, and a running machine
    /// another one, as a container has that starts again.
    pub fn set_boot_id(&self, boot: BootId) {
        self.shared.world.lock().boot = boot;
    }

    /// Returns the bytes allocated to files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.world.lock().used()
    }

    /// Returns how many requests are submitted and not complete.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.world.lock().flights.len()
    }

    /// Charges every later read and write to this clock, in virtual time that begins at
    /// [`SimDirectory::now_ns`]. Images have no clock.
    pub fn set_clock(&self, clock: Box<dyn CostClock>) {
        self.shared.world.lock().time.clock = Some(clock);
    }

    /// Returns the virtual time in nanoseconds. Waiting for a request moves it to the request's
    /// completion; a poll that finds nothing due moves it to the next completion.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.world.lock().time.now_ns
    }

    /// Lets virtual time pass.
    pub fn advance(&self, ns: u64) {
        self.shared.world.lock().time.now_ns += ns;
    }
}

impl std::fmt::Debug for SimDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimDirectory").finish_non_exhaustive()
    }
}
