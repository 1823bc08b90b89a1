//! The memory of a running merge of runs. It is reserved before the merge starts, so that the
//! caches shrink accordingly.

use crate::run::ReadConcurrency;
use alluvium_base::DeviceProfile;

/// Size of a read buffer of an input run, and of all write buffers, in bytes.
const READING: u64 = 256 << 10;
const WRITING: u64 = 5 << 20;
/// Parts of the first and last leaf of a run that are read although they are outside of the range.
const LEAVES: u64 = 2 * (64 << 10);
/// Memory of a range delete, both while the deletes of several runs are combined and in the
/// resulting run.
const DELETE: u64 = 64;

/// Bytes that partly filled write buffers occupy in addition to the bytes of the input.
const FILLING: u64 = 2 << 20;

/// Returns the memory of a merge of `runs` runs with these numbers of records and range deletes,
/// `bytes` bytes in total, on a device. Reads are bounded by the size of the input, because the
/// caches of a small store shrink by the result, and evicted nodes must be read again afterwards.
pub(crate) fn merge_bytes(
    device: &DeviceProfile,
    runs: usize,
    bytes: u64,
    records: u64,
    deletes: u64,
) -> u64 {
    let windows = ReadConcurrency::of(device).windows;
    let reading = ((runs * windows) as u64 * READING).min(bytes.saturating_add(runs as u64 * LEAVES));
    let writing = WRITING.min(bytes.saturating_add(FILLING));
    reading + writing + records * size_of::<u64>() as u64 + deletes * DELETE
}
