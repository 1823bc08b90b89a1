//! The one checksum of the store: XXH3 with 64 bits.

use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Returns the checksum of `bytes`: XXH3-64 with seed 0.
///
/// A 64-bit checksum lets one damaged block in 2⁶⁴ pass. Whatever must also be bound to a *place*
/// (a log record to its segment and position) uses [`seeded`].
///
/// ```
/// assert_eq!(alluvium_base::checksum(b""), 0x2d06_8005_38d3_94c2);
/// assert_ne!(alluvium_base::checksum(b"a"), alluvium_base::checksum(b"b"));
/// ```
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Returns the checksum of `bytes` under a seed, so that equal bytes at another place have another
/// checksum.
///
/// ```
/// use alluvium_base::checksum::seeded;
/// assert_ne!(seeded(1, b"record"), seeded(2, b"record"));
/// ```
#[must_use]
pub fn seeded(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Returns the checksum of two parts, one behind the other, under a seed: that of both in one
/// piece, without putting them together.
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
