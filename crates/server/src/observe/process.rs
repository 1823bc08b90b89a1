//! The operating system's measurements of this process and the machine. An unavailable measurement
//! is zero or `None`.

use alluvium_device::machine;

pub(crate) use alluvium_device::machine::{ProcessorTime, kernel};

/// Returns this process's resident memory in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    machine::memory_of_process("VmRSS")
}

/// Returns the memory that this process can use in bytes: the machine's memory or the container's
/// limit, whichever is smaller.
pub(crate) fn system_bytes() -> Option<u64> {
    let parts = [machine::memory(), machine::container_memory()];
    parts.into_iter().flatten().min()
}

/// Returns this process's processor time since it started.
pub(crate) fn processor_time() -> ProcessorTime {
    machine::processor_time().unwrap_or_default()
}
