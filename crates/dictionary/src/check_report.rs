//! The results of a dictionary consistency check.

use crate::read::CheckReadTotals;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, Result};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckLevel {
    /// Checks the in-memory structure and the use of extents, without reading data from the device.
    Trunk,
    /// Also reads and checks all data that a lookup or a scan could reach.
    Everything,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    pub done_bytes: u64,
    /// Approximate total number of bytes that the check will read.
    pub total_bytes: u64,
}

/// The errors that a check has found, and how much data it has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckFindings {
    /// Descriptions of the first thousand errors.
    pub found: Vec<String>,
    /// Number of errors beyond those in `found`.
    pub unlisted: u64,
    /// The first message about a tier that cannot be read. Data on such a tier is unchecked, but
    /// not considered damaged.
    pub unread: Option<String>,
    pub read: CheckReadTotals,
}

/// Maximum number of errors that are listed individually. Without a limit, checking a destroyed
/// store could list an error for each node.
const MOST_FOUND: usize = 1000;

impl CheckFindings {
    /// Adds the findings of another check of the same store.
    pub fn add(&mut self, other: CheckFindings) {
        self.found.extend(other.found);
        self.unlisted += other.unlisted;
        self.unread = self.unread.take().or(other.unread);
        self.read += other.read;
        self.bound();
    }

    /// Keeps only the first thousand errors and counts the rest in `unlisted`. A message about an
    /// unreadable tier is not damage: the first one is moved to `unread`, and the others are
    /// dropped.
    pub fn bound(&mut self) {
        let unread = &mut self.unread;
        self.found.retain(|found| {
            let is_wrong = !Error::reports_unreadable_tier(found);
            if !is_wrong {
                unread.get_or_insert_with(|| found.clone());
            }
            is_wrong
        });
        self.unlisted += self.found.len().saturating_sub(MOST_FOUND) as u64;
        self.found.truncate(MOST_FOUND);
    }

    /// Reports the progress of a check to `tell`. `total_bytes` is the approximate number of bytes
    /// that the check will read.
    ///
    /// # Errors
    /// Errors returned by `tell`.
    pub fn tell_progress(
        &mut self,
        total_bytes: u64,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<()> {
        self.bound();
        let done_bytes = self.read.bytes();
        tell(CheckProgress {
            done_bytes,
            total_bytes: total_bytes.max(done_bytes),
        })
    }

    /// Returns the number of errors found, including unlisted ones.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.found.len() as u64 + self.unlisted
    }

    /// Returns the descriptions of the listed errors, followed by the message about unreadable data
    /// and by a sentence with the number of unlisted errors, if any.
    #[must_use]
    pub fn into_sentences(self) -> Vec<String> {
        let mut found = self.found;
        found.extend(self.unread);
        if self.unlisted > 0 {
            found.push(format!("and {} more findings", self.unlisted));
        }
        found
    }
}

/// The result of checking an open dictionary: the errors found, and the reference count of every
/// extent.
#[derive(Debug, Default)]
pub struct StructureCheckReport {
    /// The errors found and the amount of data read.
    pub findings: CheckFindings,
    /// The extents that the dictionary uses and their reference counts, which the store compares
    /// with its own allocation state.
    pub reachable: HashMap<Extent, u32>,
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_storage::tiers::FailedAccess;

    #[test]
    fn of_many_findings_the_first_are_kept_and_the_rest_is_counted() {
        let mut findings = CheckFindings::default();
        for number in 0..3 * MOST_FOUND as u64 {
            findings.found.push(number.to_string());
            if number % 7 == 0 {
                findings.bound();
            }
        }
        findings.bound();
        assert_eq!(findings.count(), 3 * MOST_FOUND as u64);
        assert_eq!(findings.unlisted, 2 * MOST_FOUND as u64);
        let said = findings.into_sentences();
        assert_eq!(said.len(), MOST_FOUND + 1);
        assert_eq!((&*said[999], &*said[1000]), ("999", "and 2000 more findings"));
    }

    #[test]
    fn what_a_failing_tier_says_is_kept_apart_and_hides_no_damage() {
        let fails = |access, offset: usize| {
            let error = Error::TierFails {
                tier: 1,
                directory: "/large".to_owned(),
                access,
                cause: format!("reading tier-1.data at {offset}"),
            };
            format!("run of somewhere, leaf {offset}: {error}")
        };
        let mut findings = CheckFindings::default();
        for offset in 0..2 * MOST_FOUND {
            findings.found.push(fails(FailedAccess::Reading, offset));
        }
        findings.found.push(fails(FailedAccess::Writing, 7));
        findings.bound();
        let mut all = CheckFindings::default();
        all.add(findings);
        assert_eq!(
            (all.count(), &all.found[..]),
            (1, &[fails(FailedAccess::Writing, 7)][..])
        );
        assert_eq!(all.unread, Some(fails(FailedAccess::Reading, 0)));
        assert_eq!(all.into_sentences().len(), 2);
    }
}
