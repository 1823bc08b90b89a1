//! What the operating system says of this process and the machine. Zero or none where it says
//! nothing.

use alluvium_device::machine;

pub(crate) use alluvium_device::machine::{ProcessorTime, kernel};

/// Returns the bytes of memory that this process has.
pub(crate) fn resident_bytes() -> Option<u64> {
    machine::memory_of_process("VmRSS")
}

/// Returns the bytes of memory that this process may have: those of its container, or of the
/// machine.
pub(crate) fn system_bytes() -> Option<u64> {
    let parts = [machine::memory(), machine::container_memory()];
    parts.into_iter().flatten().min()
}

/// Returns the processor time that this process has taken.
pub(crate) fn processor_time() -> ProcessorTime {
    machine::processor_time().unwrap_or_default()
}
