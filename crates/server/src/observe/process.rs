//! Figures of the operating system about this process and the machine. A figure that is not
//! available is zero or `None`.

use alluvium_device::machine;

pub(crate) use alluvium_device::machine::{ProcessorTime, kernel};

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    machine::memory_of_process("VmRSS")
}

/// Returns the memory limit of this process in bytes: the limit of its container or the memory of
/// the machine, whichever is smaller.
pub(crate) fn system_bytes() -> Option<u64> {
    let parts = [machine::memory(), machine::container_memory()];
    parts.into_iter().flatten().min()
}

/// Returns the processor time that this process has consumed.
pub(crate) fn processor_time() -> ProcessorTime {
    machine::processor_time().unwrap_or_default()
}
