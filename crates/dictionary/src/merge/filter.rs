//! Compaction filters: a user's decision about values that were not overwritten.

use std::fmt;

/// A value that a filter is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its key, without what names the keyspace.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds of the caller's clock; 0 means never.
    pub expires_ms: u64,
    /// The moment at which it is asked, by the same clock.
    pub now_ms: u64,
}

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as it is.
    Keep,
    /// The key is deleted.
    Remove,
    /// The key has this value instead; when it expires does not change.
    Replace(Vec<u8>),
}

/// Decides what becomes of values whenever a compaction meets them: once on each level of a tree,
/// or never, in no order. So its answers should hang on nothing but what it is asked about. What it
/// may be asked about is invariant G5.
///
/// ```
/// use alluvium_dictionary::merge::{Candidate, CompactionFilter, Verdict};
/// /// Keeps a day of values that begin with the second in which they were written.
/// #[derive(Debug)]
/// struct OneDay;
/// impl CompactionFilter for OneDay {
///     fn decide(&self, candidate: &Candidate<'_>) -> Verdict {
///         let Some(written_s) = candidate.value.first_chunk() else { return Verdict::Keep };
///         let old = u32::from_be_bytes(*written_s) as u64 + 86_400 <= candidate.now_ms / 1000;
///         if old { Verdict::Remove } else { Verdict::Keep }
///     }
/// }
/// let value = 100u32.to_be_bytes();
/// let candidate = Candidate { key: b"k", value: &value, expires_ms: 0, now_ms: 200_000 };
/// assert_eq!(OneDay.decide(&candidate), Verdict::Keep);
/// assert_eq!(OneDay.decide(&Candidate { now_ms: 86_500_000, ..candidate }), Verdict::Remove);
/// ```
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// Returns what becomes of a value.
    fn decide(&self, candidate: &Candidate<'_>) -> Verdict;
}
