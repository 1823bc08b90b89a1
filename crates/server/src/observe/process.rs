//! Measurements that the operating system provides about this process and the machine. If a
//! measurement is not available, it is zero or `None`.

use alluvium_device::machine;

pub(crate) use alluvium_device::machine::{ProcessorTime, kernel};

/// Returns the size of the resident memory of this process in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    machine::memory_of_process("VmRSS")
}

/// Returns the memory in bytes that this process can use. It is the memory of the machine or the
/// limit of its container, whichever is smaller.
pub(crate) fn system_bytes() -> Option<u64> {
    let parts = [machine::memory(), machine::container_memory()];
    parts.into_iter().flatten().min()
}

/// Returns the processor time that this process has consumed since it started.
pub(crate) fn processor_time() -> ProcessorTime {
    machine::processor_time().unwrap_or_default()
}
