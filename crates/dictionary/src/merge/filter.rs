//! Compaction filters, with which a user decides whether a compaction keeps, removes or replaces a
//! value.

use std::fmt;

/// A value on which a compaction filter has to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterCandidate<'a> {
    /// The key, without the prefix of its keyspace.
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Expiry time of the value in milliseconds of the caller's clock, or 0 if it never expires.
    pub expires_ms: u64,
    /// The current time in milliseconds of the same clock.
    pub now_ms: u64,
}

/// What a compaction does with a value, as decided by a [`CompactionFilter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// Keep the value and its expiry time.
    Keep,
    /// Remove the key, as a delete does.
    Remove,
    /// Replace the value and keep the expiry time.
    Replace(Vec<u8>),
}

/// A user's filter, which compactions apply to values. A compaction may apply it to the same value
/// once on each level of a tree or not at all, and to different values in any order. The verdict
/// should therefore depend only on the candidate. Invariant G5 lists the values to which the filter
/// is applied.
///
/// ```
/// use alluvium_dictionary::merge::{FilterCandidate, CompactionFilter, FilterVerdict};
/// /// Keeps a day of values that begin with the second in which they were written.
/// #[derive(Debug)]
/// struct OneDay;
/// impl CompactionFilter for OneDay {
///     fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict {
///         let Some(written_s) = candidate.value.first_chunk() else { return FilterVerdict::Keep };
///         let old = u32::from_be_bytes(*written_s) as u64 + 86_400 <= candidate.now_ms / 1000;
///         if old { FilterVerdict::Remove } else { FilterVerdict::Keep }
///     }
/// }
/// let value = 100u32.to_be_bytes();
/// let candidate = FilterCandidate { key: b"k", value: &value, expires_ms: 0, now_ms: 200_000 };
/// assert_eq!(OneDay.decide(&candidate), FilterVerdict::Keep);
/// assert_eq!(OneDay.decide(&FilterCandidate { now_ms: 86_500_000, ..candidate }), FilterVerdict::Remove);
/// ```
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// Decides what a compaction does with the value of a put.
    fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict;
}
