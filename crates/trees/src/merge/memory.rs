//! Estimates the memory that merging runs needs. It is reserved before the merge starts, so that
//! the caches shrink in time.

use crate::run::ReadConcurrency;
use alluvium_base::DeviceProfile;

/// `READING` is the size of one read buffer in bytes; each input run has read buffers of its own.
/// `WRITING` is the maximum total size in bytes of all write buffers of the merge.
const READING: u64 = 256 << 10;
const WRITING: u64 = 5 << 20;
/// Maximum number of bytes read per input run although they are outside of the merged key range, in
/// its first and last leaf.
const LEAVES: u64 = 2 * (64 << 10);
/// Memory of one range delete in bytes, in the list that combines the range deletes of several runs
/// and in the list of the resulting run.
const DELETE: u64 = 64;

/// Some write buffers are only partly filled, so together they may exceed the size of the input by
/// at most this many bytes.
const FILLING: u64 = 2 << 20;

/// Estimates the memory in bytes that merging `runs` runs needs, which have `bytes` bytes,
/// `records` records and `deletes` range deletes in total. The read buffers count at most as much
/// as the size of the input. In a small store, a larger reservation would shrink the caches so far
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
