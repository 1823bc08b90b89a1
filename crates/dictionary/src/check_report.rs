//! Results of a check of a dictionary.

use crate::read::CheckReadTotals;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, Result};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckLevel {
    /// Checks the structure in memory and the use of extents, without reading data.
    Trunk,
    /// Also reads and checks all data that a reader could reach.
    Everything,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    pub done_bytes: u64,
    /// Approximate total number of bytes to read.
    pub total_bytes: u64,
}

/// Errors found by a check, and the amount of data read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckFindings {
    /// Descriptions of the errors; at most the first thousand.
    pub found: Vec<String>,
    /// Number of errors that are not listed in `found`.
    pub unlisted: u64,
    /// The first message about a tier that cannot be read. Data on such a tier is unchecked, not
    /// damaged.
    pub unread: Option<String>,
    pub read: CheckReadTotals,
}

/// Maximum number of errors listed. A destroyed store may have one per node.
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

    /// Truncates the list to the first thousand errors and counts the rest. Moves messages about
    /// unreadable tiers, which are not damage, to `unread`.
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

    /// Reports the progress of a check that will read about `total_bytes` bytes.
    ///
    /// # Errors
    /// Errors of `tell`.
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

    /// Returns the number of errors.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.found.len() as u64 + self.unlisted
    }

    /// Returns the descriptions of all errors and unread data, and a final sentence about unlisted
    /// errors.
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

/// Findings of an open dictionary, and the reference count of each extent that it uses.
#[derive(Debug, Default)]
pub struct StructureCheckReport {
    /// Errors found, and amount of data read.
    pub findings: CheckFindings,
    /// Extents and their reference counts, for the store's own check.
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
