//! Estimates the memory that merging runs needs. The memory is reserved before the merge starts, so
//! that the caches shrink in time.

use crate::run::ReadConcurrency;
use alluvium_base::DeviceProfile;

/// `READING` is the size of one read buffer of an input run, in bytes. `WRITING` is the maximum
/// total size of all write buffers of the merge, in bytes.
const READING: u64 = 256 << 10;
const WRITING: u64 = 5 << 20;
/// Maximum number of extra bytes read per input run: the parts of its first and last leaf that are
/// outside of the merged key range.
const LEAVES: u64 = 2 * (64 << 10);
/// Memory of one range delete in bytes. This includes the list in which the range deletes of
/// several runs are combined, and the list of the resulting run.
const DELETE: u64 = 64;

/// Maximum number of bytes by which the write buffers may exceed the size of the input, because
/// some buffers are only partly filled.
const FILLING: u64 = 2 << 20;

/// Returns the memory in bytes that is needed to merge `runs` runs, which have `bytes` bytes,
/// `records` records and `deletes` range deletes in total. The size of the read buffers is limited
/// to the size of the input. In a small store, a larger reservation would shrink the caches so far
/// that evicted nodes would have to be read again after the merge.
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
