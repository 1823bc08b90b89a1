//! The interface of cost clocks, which compute how much time I/Os take. The crate `model`
//! implements it, and the simulated and throttled devices call it for each I/O.

use thiserror::Error;

/// A device access, described by the properties on which its cost depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Number that identifies the file. Different files have no block in common.
    pub file: u64,
    /// Offset in the file of the first byte that is accessed.
    pub offset: u64,
    /// Length of the access in bytes.
    pub len: u64,
    /// Whether the access is a read or a write.
    pub kind: AccessKind,
}

/// Whether an access is a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// The access transfers bytes from the device to memory.
    Read,
    /// The access transfers bytes from memory to the device.
    Write,
}

/// The error that two accesses to the same block occurred in the same step, at least one of which
/// was a write. PDAM allows concurrent reads and exclusive writes (CREW; Bender et al. 2021,
/// Definition 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("two accesses to block {block} of file {file} in one step of the device, one of them a write")]
pub struct CostFault {
    /// Number that identifies the file, as in [`DeviceAccess::file`].
    pub file: u64,
    /// Number of the block within the file.
    pub block: u64,
}

/// A clock that computes the simulated time of accesses. All times are nanoseconds since the clock
/// started.
///
/// The caller passes each access with the time at which it is issued, in the order of issue. The
/// clock returns the time at which the access completes. An implementation keeps the state that it
/// needs for this, such as the number of accesses in the current step, or the time until which the
/// disk arm is busy. Time in which the device is idle does not make later accesses faster.
pub trait CostClock: Send {
    /// Adds an access that is issued at the time `now_ns`. Returns the time at which it completes,
    /// which is not earlier than `now_ns`.
    ///
    /// # Errors
    /// [`CostFault`] if a conflicting access is in flight and the model forbids that.
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault>;
}
