//! The assignment of keys to buckets, and the number of vertices per bucket.

/// The maximum number of keys in a bucket.
pub const MAX_BUCKET_KEYS: u32 = 256;

/// The average number of keys in a bucket: six standard deviations below [`MAX_BUCKET_KEYS`].
pub const DEFAULT_KEYS_PER_BUCKET: u32 = 176;

/// The minimum and maximum length of a key in bytes.
pub(super) const KEY_BYTES: std::ops::RangeInclusive<u32> = 8..=64;

/// The maximum number of buckets.
pub(super) const MAX_BUCKETS: u64 = 1 << 32;

/// Returns the number of buckets for a number of keys.
///
/// ```
/// assert_eq!(research_filters::perfect::buckets(1_000_000), 5682);
/// ```
#[must_use]
pub fn buckets(keys: u64) -> u64 {
    let each = u64::from(DEFAULT_KEYS_PER_BUCKET);
    keys.div_ceil(each).clamp(1, MAX_BUCKETS)
}

/// Returns the number of vertices in each third of a bucket: 1.23 vertices per key in total, the
/// threshold below which large random graphs fail, plus six more because small graphs fail more
/// often.
#[inline]
pub(super) fn third(keys: u32) -> u32 {
    if keys == 0 {
        0
    } else {
        (41 * keys).div_ceil(100) + 2
    }
}
