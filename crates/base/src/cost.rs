//! The cost clock: the contract for charging the time of an I/O. The crate `model` implements it;
//! the simulated and throttled devices charge it.

use thiserror::Error;

/// One device access, as a cost model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Number of the file. Distinct files never share a block.
    pub file: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length of the access in bytes.
    pub len: u64,
    /// Whether the access reads or writes.
    pub kind: AccessKind,
}

/// The direction of an [`DeviceAccess`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Bytes move from the device to memory.
    Read,
    /// Bytes move from memory to the device.
    Write,
}

/// Two accesses conflicted on one block in one step, and at least one was a write. PDAM allows
/// concurrent reads and exclusive writes (CREW; Bender et al. 2021, Definition 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("two accesses to block {block} of file {file} in one step of the device, one of them a write")]
pub struct CostFault {
    /// Number of the file, as in [`DeviceAccess::file`].
    pub file: u64,
    /// Number of the block within the file.
    pub block: u64,
}

/// Charges simulated time for accesses. All times are nanoseconds since the clock started.
///
/// The caller submits accesses in order, each with its issue time; the clock returns its completion
/// time. An implementation keeps the state it needs (the step being filled, the time at which the
/// disk arm becomes free). Idle time is never credited to later accesses.
pub trait CostClock: Send {
    /// Charges one access issued at `now_ns` and returns when it completes (`≥ now_ns`).
    ///
    /// # Errors
    /// [`CostFault`] when the model forbids the access while a conflicting one is in flight.
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault>;
}
