//! Checks the invariants of an encoded index, each rule separately.

use super::format::checksums;
use super::index::{PerfectHashIndex, used_before};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfectHashViolation {
    /// The bucket that violates the rule, if the rule concerns a single bucket.
    pub bucket: Option<u64>,
    /// The expected and the actual value.
    pub what: String,
}

impl fmt::Display for PerfectHashViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bucket) = self.bucket {
            write!(f, "bucket {bucket}: ")?;
        }
        write!(f, "{}", self.what)
    }
}

impl PerfectHashIndex<'_> {
    /// Returns every violation, or an empty list for a sound index. The rules: the checksum
    /// matches; the positions of buckets ascend from zero; the number of vertices with a value
    /// equals the number of keys (P2); the bits after the last vertex are zero. The position of
    /// each key cannot be checked without the keys.
    #[must_use]
    pub fn check(&self) -> Vec<PerfectHashViolation> {
        let mut found = Vec::new();
        let mut add = |bucket, what| found.push(PerfectHashViolation { bucket, what });
        if let Some((stored, computed)) = checksums(self.bytes)
            && stored != computed
        {
            add(None, format!("checksum {stored:016x} should be {computed:016x}"));
        }
        for bucket in 0..self.buckets() {
            match self.part(bucket) {
                Ok(part) => {
                    let used = used_before(self.stream(), part.bit, 3 * part.third);
                    if used != part.keys {
                        let keys = part.keys;
                        add(
                            Some(bucket),
                            format!("{used} vertices have a value, for {keys} keys"),
                        );
                    }
                    if bucket == 0 && (part.bit, part.item) != (0, 0) {
                        add(
                            Some(0),
                            format!("it begins at bit {}, key {}", part.bit, part.item),
                        );
                    }
                }
                Err(error) => add(Some(bucket), error.to_string()),
            }
        }
        if !self.header.is_zero_behind(self.bytes) {
            add(None, "bits are set behind the last vertex".to_owned());
        }
        found
    }
}
