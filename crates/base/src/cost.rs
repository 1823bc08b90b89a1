//! The interface of cost clocks, which compute how long an I/O takes. The crate `model` implements
//! the interface, and the simulated and throttled devices call it for each I/O.

use thiserror::Error;

/// One device access, described by everything that its cost depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Number that identifies the file. Two files never share a block.
    pub file: u64,
    /// Offset of the first accessed byte in the file.
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

/// The error for two accesses to the same block in the same step, at least one of which was a
/// write. PDAM allows concurrent reads but requires exclusive writes (CREW; Bender et al. 2021,
/// Definition 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("two accesses to block {block} of file {file} in the same device step, at least one of them a write")]
pub struct CostFault {
    /// Number that identifies the file, as in [`DeviceAccess::file`].
    pub file: u64,
    /// Number of the block within the file.
    pub block: u64,
}

/// A clock that computes the simulated time of accesses. All times are nanoseconds since the clock
/// started.
///
/// The caller reports each access and the time at which it is issued, in issue order. The clock
/// returns the time at which the access completes. An implementation keeps whatever state it needs,
/// such as the number of accesses in the current step, or the time until which the disk arm is
/// busy. An idle device saves up no capacity: idle time does not make later accesses faster.
pub trait CostClock: Send {
    /// Adds an access that is issued at `now_ns`. Returns its completion time, which is never
    /// earlier than `now_ns`.
    ///
    /// # Errors
    /// [`CostFault`] if a conflicting access is in flight and the model forbids that.
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault>;
}
