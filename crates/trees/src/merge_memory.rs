//! The memory that a merge of runs takes while it is under way. It is counted before the merge
//! begins, so that the caches give way to it.

use crate::run::Depth;
use alluvium_base::DeviceProfile;

/// A buffer of a run that a merge reads, and those for what it writes.
const READING: u64 = 256 << 10;
const WRITING: u64 = 5 << 20;
/// Of the leaves that a run's part begins and ends with, what lies outside of it.
const LEAVES: u64 = 2 * (64 << 10);
/// What a range delete takes while the deletes of several runs are put together, and in the run
/// that is made.
const DELETE: u64 = 64;

/// Of what it writes, buffers that are not full yet.
const FILLING: u64 = 2 << 20;

/// Returns the memory of a merge of `runs` runs with this many records and range deletes, `bytes`
/// in all, on a device. Reads are no longer than what they are of: the caches of a small store give
/// way to so much, and what they drop is read again afterwards.
pub(crate) fn merge_bytes(
    device: &DeviceProfile,
    runs: usize,
    bytes: u64,
    records: u64,
    deletes: u64,
) -> u64 {
    let windows = Depth::of(device).windows;
    let reading = ((runs * windows) as u64 * READING).min(bytes.saturating_add(runs as u64 * LEAVES));
    let writing = WRITING.min(bytes.saturating_add(FILLING));
    reading + writing + records * size_of::<u64>() as u64 + deletes * DELETE
}
