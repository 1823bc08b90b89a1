//! Consistency check of a filter's bytes, with a separate check for each rule.

use super::build::ListedPageWriter;
use super::filter::ListedFilter;
use super::shape::BUCKETS;
use crate::Result;
use crate::packed::{PackedViolation, wrong_checksum};
use std::ops::Deref;

impl<B: Deref<Target = [u8]>> ListedFilter<B> {
    /// Returns every violation of the format, or nothing if the filter is valid. Checks that the
    /// checksum is correct; that the fingerprints of each list are ascending and belong to the
    /// list's bucket (F14); that there are no more fingerprints than hashes; and that writing the
    /// fingerprints again produces the same bytes (F15).
    #[must_use]
    pub fn check(&self) -> Vec<PackedViolation> {
        let mut found: Vec<PackedViolation> = wrong_checksum(&self.bytes).into_iter().collect();
        let mut again = vec![0; self.bytes.len()];
        match self.written_again(&mut again, &mut found) {
            Ok(()) if found.is_empty() && again != *self.bytes => {
                found.push(PackedViolation::of_all(
                    "writing the same fingerprints gives other bytes",
                ));
            }
            Ok(()) => (),
            Err(error) => found.push(PackedViolation::of_all(error.to_string())),
        }
        found
    }

    fn written_again(&self, again: &mut [u8], found: &mut Vec<PackedViolation>) -> Result<()> {
        let shape = self.header.shape;
        let mut pages = ListedPageWriter::new(self.header, again)?;
        let mut fingerprints = 0;
        for page in 0..self.header.pages {
            let number = self.header.first + page;
            for bucket in 0..BUCKETS {
                let base = shape.base(number, bucket);
                let mut list = self.header.list(&self.bytes, page, bucket)?;
                while let Some(within) = list.read()? {
                    let fingerprint = base + within;
                    if within >= shape.bucket_range() || fingerprint >= shape.universe() {
                        let what =
                            format!("fingerprint {within} lies beyond the end of bucket {bucket} (F14)");
                        let part = Some(("page", u64::from(number)));
                        found.push(PackedViolation { part, what });
                        return Ok(());
                    }
                    fingerprints += u64::from(pages.push(fingerprint)?);
                }
            }
        }
        if fingerprints > shape.hashes {
            let what = format!("{fingerprints} fingerprints, but only {} hashes", shape.hashes);
            found.push(PackedViolation::of_all(what));
        }
        pages.finish().map(|_| ())
    }
}
