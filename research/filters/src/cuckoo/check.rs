//! Checks the invariants of an encoded filter, each rule separately.

use super::filter::CuckooFilter;
use super::format::{checksums, is_zero_behind, tags};
use super::shape::{CuckooVariant, SLOTS};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooViolation {
    /// The bucket that violates the rule, if the rule concerns a single bucket.
    pub bucket: Option<u32>,
    /// The expected and the actual value.
    pub what: String,
}

impl fmt::Display for CuckooViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bucket) = self.bucket {
            write!(f, "bucket {bucket}: ")?;
        }
        write!(f, "{}", self.what)
    }
}

impl CuckooFilter<'_> {
    /// Returns every violation, or an empty list for a sound filter. The rules: the checksum
    /// matches; the number of tags equals the header's count; every tag names a bucket; the bits
    /// after the last slot are zero.
    #[must_use]
    pub fn check(&self) -> Vec<CuckooViolation> {
        let mut found = Vec::new();
        let mut add = |bucket, what| found.push(CuckooViolation { bucket, what });
        if let Some((stored, computed)) = checksums(self.bytes)
            && stored != computed
        {
            add(None, format!("checksum {stored:016x} should be {computed:016x}"));
        }
        let shape = &self.header.shape;
        let mut used = 0;
        for bucket in 0..shape.buckets {
            let tags = tags(self.bytes, shape, bucket);
            for slot in 0..SLOTS {
                let tag = tags >> (slot * shape.tag_bits) & ((1 << shape.tag_bits) - 1);
                used += u32::from(tag != 0);
                if shape.variant == CuckooVariant::Alternate && tag > u64::from(shape.buckets) {
                    add(Some(bucket), format!("tag {tag} names no bucket"));
                }
            }
        }
        if used != self.header.entries {
            let counted = self.header.entries;
            add(
                None,
                format!("the header counts {counted} slots in use, the tags {used}"),
            );
        }
        if !is_zero_behind(self.bytes, shape) {
            add(None, "bits are set behind the last slot".to_owned());
        }
        found
    }
}
