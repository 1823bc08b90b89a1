//! What must hold of an index's bytes, each rule checked by itself.

use super::build::group_log;
use super::format::{Start, checksums};
use super::index::{Index, not_a_trie};
use std::fmt;

/// A rule that an index breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The bucket, if the rule is about one.
    pub bucket: Option<u64>,
    /// What should be, and what is.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bucket) = self.bucket {
            write!(f, "bucket {bucket}: ")?;
        }
        write!(f, "{}", self.what)
    }
}

impl Index<'_> {
    /// Returns every rule that the index breaks; nothing when it is sound: the checksum; places
    /// of buckets that rise from zero, in groups as large as can be; a trie for every bucket
    /// that ends where the next begins; zeros behind the last.
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut add = |bucket, what| found.push(Violation { bucket, what });
        if let Some((stored, computed)) = checksums(self.bytes)
            && stored != computed
        {
            add(None, format!("checksum {stored:016x} should be {computed:016x}"));
        }
        let mut starts = Vec::new();
        for bucket in 0..self.buckets() {
            let part = match self.part(bucket) {
                Ok(part) => part,
                Err(error) => {
                    add(Some(bucket), error.to_string());
                    continue;
                }
            };
            starts.push(Start {
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
            add(None, "bits are set behind the last trie".to_owned());
        }
        found
    }
}
