//! The checksum that the whole store uses: 64-bit XXH3.

use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Returns the checksum of `bytes`: XXH3-64 with seed 0.
///
/// A damaged block goes undetected with probability 2⁻⁶⁴. To detect data at the wrong *position* as
/// well, such as a log record in another segment or at another offset, use [`seeded`] instead.
///
/// ```
/// assert_eq!(alluvium_base::checksum(b""), 0x2d06_8005_38d3_94c2);
/// assert_ne!(alluvium_base::checksum(b"a"), alluvium_base::checksum(b"b"));
/// ```
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Returns the checksum of `bytes` under `seed`. With a seed derived from the position, the same
/// bytes have a different checksum at every position.
///
/// ```
/// use alluvium_base::checksum::seeded;
/// assert_ne!(seeded(1, b"record"), seeded(2, b"record"));
/// ```
#[must_use]
pub fn seeded(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Returns the seeded checksum of the concatenation of two slices, without concatenating them.
///
/// ```
/// use alluvium_base::checksum::{seeded, seeded_parts};
/// assert_eq!(seeded_parts(1, [b"rec", b"ord"]), seeded(1, b"record"));
/// ```
#[must_use]
#[inline]
pub fn seeded_parts(seed: u64, [first, second]: [&[u8]; 2]) -> u64 {
    if second.is_empty() {
        return seeded(seed, first);
    }
    let mut hasher = XxHash3_64::with_seed(seed);
    hasher.write(first);
    hasher.write(second);
    hasher.finish()
}
