//! What a check of a dictionary has found, and what it has read.

use crate::read::Amounts;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, Result};
use std::collections::HashMap;

/// How thoroughly a dictionary is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Its shape in memory, and who uses which extent: nothing is read.
    Trunk,
    /// Everything that a reader could reach as well.
    Everything,
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Bytes that were read.
    pub done_bytes: u64,
    /// Bytes that will be, about.
    pub total_bytes: u64,
}

/// What was found by a check, and what it has read for that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong, a sentence each: the first thousand.
    pub found: Vec<String>,
    /// How much more is wrong.
    pub unlisted: u64,
    /// The first sentence that told of a further tier that cannot be read: whether what lies there
    /// is wrong is not known.
    pub unread: Option<String>,
    /// What was read.
    pub read: Amounts,
}

/// How many findings are kept: a wrecked store has one for each of its nodes.
const MOST_FOUND: usize = 1000;

impl Findings {
    /// Adds what was found elsewhere in the same store.
    pub fn add(&mut self, other: Findings) {
        self.found.extend(other.found);
        self.unlisted += other.unlisted;
        self.unread = self.unread.take().or(other.unread);
        self.read += other.read;
        self.bound();
    }

    /// Keeps the first thousand and counts the rest, and keeps what tells of a tier that cannot be
    /// read apart: that is no damage.
    pub fn bound(&mut self) {
        let unread = &mut self.unread;
        self.found.retain(|found| {
            let is_wrong = !Error::tells_of_unreadable_tier(found);
            if !is_wrong {
                unread.get_or_insert_with(|| found.clone());
            }
            is_wrong
        });
        self.unlisted += self.found.len().saturating_sub(MOST_FOUND) as u64;
        self.found.truncate(MOST_FOUND);
    }

    /// Tells how far a check has come that will read about `total_bytes` bytes.
    ///
    /// # Errors
    /// What `tell` returns.
    pub fn tell_progress(
        &mut self,
        total_bytes: u64,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<()> {
        self.bound();
        let done_bytes = self.read.bytes();
        tell(Checked {
            done_bytes,
            total_bytes: total_bytes.max(done_bytes),
        })
    }

    /// Returns how much is wrong.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.found.len() as u64 + self.unlisted
    }

    /// Returns what is wrong or was not read, and a last sentence for what is not listed.
    #[must_use]
    pub fn into_sentences(self) -> Vec<String> {
        let mut found = self.found;
        found.extend(self.unread);
        if self.unlisted > 0 {
            found.push(format!("and {} findings more", self.unlisted));
        }
        found
    }
}

/// What was found of an open dictionary, and the extents that it uses, each with how often.
#[derive(Debug, Default)]
pub struct Examined {
    /// What is wrong, and what was read.
    pub findings: Findings,
    /// The extents, for the store's own check.
    pub reachable: HashMap<Extent, u32>,
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_storage::tiers::Access;

    #[test]
    fn of_many_findings_the_first_are_kept_and_the_rest_is_counted() {
        let mut findings = Findings::default();
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
        assert_eq!((&*said[999], &*said[1000]), ("999", "and 2000 findings more"));
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
        let mut findings = Findings::default();
        for offset in 0..2 * MOST_FOUND {
            findings.found.push(fails(Access::Reading, offset));
        }
        findings.found.push(fails(Access::Writing, 7));
        findings.bound();
        let mut all = Findings::default();
        all.add(findings);
        assert_eq!(
            (all.count(), &all.found[..]),
            (1, &[fails(Access::Writing, 7)][..])
        );
        assert_eq!(all.unread, Some(fails(Access::Reading, 0)));
        assert_eq!(all.into_sentences().len(), 2);
    }
}
