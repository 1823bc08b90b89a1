//! What must hold of a filter's bytes, each rule checked by itself.

use super::build::Pages;
use super::filter::Filter;
use super::format::checksums;
use super::shape::BUCKETS;
use crate::Result;
use std::fmt;
use std::ops::Deref;

/// A rule that a filter breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The page, if the rule is about one.
    pub page: Option<u32>,
    /// What should be, and what is.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(page) = self.page {
            write!(f, "page {page}: ")?;
        }
        write!(f, "{}", self.what)
    }
}

impl<B: Deref<Target = [u8]>> Filter<B> {
    /// Returns every rule that the filter breaks; nothing when it is sound: the checksum; lists
    /// whose fingerprints rise, are of their bucket (F14) and no more than its hashes; and that
    /// writing them again gives the same bytes (F15).
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        if let Some((stored, computed)) = checksums(&self.bytes)
            && stored != computed
        {
            let what = format!("checksum {stored:016x} should be {computed:016x}");
            found.push(Violation { page: None, what });
        }
        let mut again = vec![0; self.bytes.len()];
        match self.written_again(&mut again, &mut found) {
            Ok(()) if found.is_empty() && again != *self.bytes => {
                let what = "writing the same fingerprints gives other bytes".to_owned();
                found.push(Violation { page: None, what });
            }
            Ok(()) => (),
            Err(error) => found.push(Violation {
                page: None,
                what: error.to_string(),
            }),
        }
        found
    }

    fn written_again(&self, again: &mut [u8], found: &mut Vec<Violation>) -> Result<()> {
        let shape = self.header.shape;
        let mut pages = Pages::new(self.header, again)?;
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
                            format!("a fingerprint {within} of bucket {bucket}, which ends before (F14)");
                        let page = Some(number);
                        found.push(Violation { page, what });
                        return Ok(());
                    }
                    fingerprints += u64::from(pages.push(fingerprint)?);
                }
            }
        }
        if fingerprints > shape.hashes {
            let what = format!("{fingerprints} fingerprints of {} hashes", shape.hashes);
            found.push(Violation { page: None, what });
        }
        pages.finish().map(|_| ())
    }
}
