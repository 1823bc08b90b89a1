//! How keys are split into buckets, and how many vertices a bucket has.

/// The most keys of a bucket.
pub const MAX_BUCKET_KEYS: u32 = 256;

/// Keys of a bucket on average: six standard deviations below [`MAX_BUCKET_KEYS`].
pub const DEFAULT_KEYS_PER_BUCKET: u32 = 176;

/// The fewest and the most bytes of a key.
pub(super) const KEY_BYTES: std::ops::RangeInclusive<u32> = 8..=64;

/// The most buckets.
pub(super) const MAX_BUCKETS: u64 = 1 << 32;

/// Returns into how many buckets a number of keys is split.
///
/// ```
/// assert_eq!(research_filters::perfect::buckets(1_000_000), 5682);
/// ```
#[must_use]
pub fn buckets(keys: u64) -> u64 {
    let each = u64::from(DEFAULT_KEYS_PER_BUCKET);
    keys.div_ceil(each).clamp(1, MAX_BUCKETS)
}

/// Returns how many vertices each third of a bucket has: 1.23 vertices a key altogether, below
/// which large random graphs fail, and six more, because small ones fail more often.
#[inline]
pub(super) fn third(keys: u32) -> u32 {
    if keys == 0 {
        0
    } else {
        (41 * keys).div_ceil(100) + 2
    }
}
