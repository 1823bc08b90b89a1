//! Consistency check of a trie index's bytes, with a separate check for each rule.

use super::build::group_log;
use super::format::BucketOffset;
use super::index::{TrieIndex, not_a_trie};
use crate::packed::{PackedViolation, wrong_checksum};

impl TrieIndex<'_> {
    /// Returns every violation of the format, or nothing if the index is valid. Checks that the
    /// checksum is correct; that the positions of buckets ascend from zero and groups are as large
    /// as possible; that the trie of every bucket ends where the next one begins; and that only
    /// zeros follow the last trie.
    #[must_use]
    pub fn check(&self) -> Vec<PackedViolation> {
        let mut found: Vec<PackedViolation> = wrong_checksum(self.bytes).into_iter().collect();
        let mut add = |bucket: Option<u64>, what| {
            let part = bucket.map(|bucket| ("bucket", bucket));
            found.push(PackedViolation { part, what });
        };
        let mut starts = Vec::new();
        for bucket in 0..self.buckets() {
            let part = match self.part(bucket) {
                Ok(part) => part,
                Err(error) => {
                    add(Some(bucket), error.to_string());
                    continue;
                }
            };
            starts.push(BucketOffset {
                bit: part.bit,
                item: part.item,
            });
            let into_block = (part.item % u64::from(self.header.shape.block_items)) as u32;
            let mut walk = self.walk(&part);
            match walk.skip(part.keys, into_block, 0) {
                Err(bad) => add(Some(bucket), not_a_trie(bucket, bad).to_string()),
                Ok(()) if walk.at != part.end => add(
                    Some(bucket),
                    format!("the trie ends at bit {}, its bucket at bit {}", walk.at, part.end),
                ),
                Ok(()) => {}
            }
        }
        if let Some(start) = starts.first().filter(|start| start.bit != 0 || start.item != 0) {
            add(Some(0), format!("{start:?} should be at zero"));
        }
        let is_rising = starts.is_sorted_by_key(|start| (start.bit, start.item));
        if is_rising && starts.len() as u64 == self.buckets() && group_log(&starts) != self.header.group_log {
            let (should, is) = (group_log(&starts), self.header.group_log);
            add(None, format!("groups of 2^{is} buckets should have 2^{should}"));
        }
        if !self.header.is_zero_behind(self.bytes) {
            add(None, "bits are set after the last trie".to_owned());
        }
        found
    }
}
