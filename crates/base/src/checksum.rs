//! The one checksum of the store: XXH3 with 64 bits.

use twox_hash::XxHash3_64;

/// The checksum of `bytes`: XXH3-64 with seed 0.
///
/// A 64-bit checksum lets one damaged block in 2⁶⁴ pass. Whatever must also be bound to a *place* (a log record
/// to its segment and position) uses [`seeded`].
///
/// ```
/// assert_eq!(alluvium_base::checksum(b""), 0x2d06_8005_38d3_94c2);
/// assert_ne!(alluvium_base::checksum(b"a"), alluvium_base::checksum(b"b"));
/// ```
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The checksum of `bytes` under a seed, so that equal bytes at another place have another checksum.
///
/// ```
/// use alluvium_base::checksum::seeded;
/// assert_ne!(seeded(1, b"record"), seeded(2, b"record"));
/// ```
#[must_use]
pub fn seeded(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}
