//! The cost clock: what an I/O costs, as a contract. `model` implements it; a simulated or
//! throttled device charges it.

use thiserror::Error;

/// One access to a device, as a cost model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which file of the device is accessed: distinct files never share a block.
    pub file: u64,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// Whether the bytes are read or written.
    pub kind: AccessKind,
}

/// The direction of an [`Access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Bytes come from the device.
    Read,
    /// Bytes go to the device.
    Write,
}

/// Two accesses met on one block in one step, and one of them was a write (PDAM is CREW: concurrent
/// read, exclusive write; Bender et al. 2021, Definition 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("two accesses to block {block} of file {file} in one step of the device, one of them a write")]
pub struct CostFault {
    /// The file, as in [`Access::file`].
    pub file: u64,
    /// The block's number within the file.
    pub block: u64,
}

/// Charges simulated time for accesses. All times are nanoseconds since the clock began.
///
/// The caller submits accesses in order, each with the time at which it was issued; the clock
/// answers when it is done. An implementation keeps whatever state it needs (the step being filled,
/// the moment the arm is free), and never banks what an idle device did not do.
pub trait CostClock: Send {
    /// Charges one access issued at `now_ns` and returns when it completes (`≥ now_ns`).
    ///
    /// # Errors
    /// A [`CostFault`] when the model forbids the access beside one already under way.
    fn charge(&mut self, now_ns: u64, access: &Access) -> Result<u64, CostFault>;
}
