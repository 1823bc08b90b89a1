//! The directories of a store, in tier order.

use super::MAX_TIERS;
use crate::{Error, Result};
use alluvium_device::Directory;
use std::sync::Arc;

/// The directories of a store, one for each tier, in tier order. The first also holds the
/// superblock, the extent map and the log.
///
/// A single directory can be converted into this type, for a store with only one tier.
///
/// ```
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_storage::tiers::TierDirectories;
/// use std::sync::Arc;
/// let fast = Arc::new(MemoryDirectory::new());
/// let large = Arc::new(MemoryDirectory::new());
/// let both = TierDirectories::from(fast).and(large);
/// assert_eq!(both.count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct TierDirectories {
    /// The directory of each tier, in tier order. There is at least one.
    all: Vec<Arc<dyn Directory>>,
}

impl TierDirectories {
    /// Appends the directory of the next tier.
    #[must_use]
    pub fn and(mut self, next: Arc<dyn Directory>) -> TierDirectories {
        self.all.push(next);
        self
    }

    /// Replaces the directory of one tier.
    pub(crate) fn with(mut self, tier: u8, directory: Arc<dyn Directory>) -> TierDirectories {
        let place = self.all.get_mut(usize::from(tier));
        *place.expect("there is such a tier (T1)") = directory;
        self
    }

    /// Returns only the first `count` directories.
    pub(crate) fn first_ones(&self, count: usize) -> TierDirectories {
        debug_assert!(count > 0, "a store has a directory (T1)");
        TierDirectories {
            all: self.iter().take(count).cloned().collect(),
        }
    }

    /// Replaces each directory with the result of `change`.
    ///
    /// # Errors
    /// The first error that `change` returns.
    pub fn map(
        &self,
        change: impl FnMut(&Arc<dyn Directory>) -> alluvium_device::Result<Arc<dyn Directory>>,
    ) -> Result<TierDirectories> {
        let all = self.all.iter().map(change);
        Ok(TierDirectories {
            all: all.collect::<alluvium_device::Result<_>>()?,
        })
    }

    /// Returns the first directory, which holds tier 0, the superblock, the extent map and the log.
    #[must_use]
    pub fn first(&self) -> &Arc<dyn Directory> {
        self.all.first().expect("a store has a directory (T1)")
    }

    /// Returns the directory of a tier, or `None` if there is no such tier.
    #[must_use]
    pub fn get(&self, tier: u8) -> Option<&Arc<dyn Directory>> {
        self.all.get(usize::from(tier))
    }

    /// Returns the number of directories.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the directories in tier order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Directory>> {
        self.all.iter()
    }

    /// Returns the directories of tiers 1 and above, each with its tier number.
    pub(crate) fn further(&self) -> impl Iterator<Item = (u8, &dyn Directory)> {
        debug_assert!(!self.all.is_empty(), "a store has a directory (T1)");
        let numbered = self.all.iter().enumerate().skip(1);
        numbered.map(|(tier, directory)| (tier as u8, &**directory))
    }

    /// Checks that a store can use these directories.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there are more directories than the maximum number of tiers, or if a
    /// directory occurs twice.
    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |why| Err(Error::BadOption { option: "tiers", why });
        if self.count() > MAX_TIERS {
            return bad(format!(
                "{} directories were given, but a store has at most {MAX_TIERS}",
                self.count()
            ));
        }
        for (tier, directory) in self.all.iter().enumerate() {
            let is_same = |other: &Arc<dyn Directory>| Arc::ptr_eq(other, directory);
            if let Some(earlier) = self.all[..tier].iter().position(is_same) {
                return bad(format!(
                    "{} was given for tier {earlier} and for tier {tier}: give each tier a directory of its own",
                    directory.describe()
                ));
            }
        }
        Ok(())
    }

    /// Checks that there are as many directories as the store has tiers.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the numbers differ.
    pub(crate) fn require_count(&self, tiers: u8) -> Result<()> {
        if self.count() == usize::from(tiers) {
            return Ok(());
        }
        Err(Error::BadOption {
            option: "tiers",
            why: format!(
                "the store in {} has {tiers} tiers, but {} directories were given: give the directory of \
                each tier, in the order of the tiers",
                self.first().describe(),
                self.count()
            ),
        })
    }
}

impl From<Arc<dyn Directory>> for TierDirectories {
    fn from(first: Arc<dyn Directory>) -> TierDirectories {
        TierDirectories { all: vec![first] }
    }
}

impl From<&Arc<dyn Directory>> for TierDirectories {
    fn from(first: &Arc<dyn Directory>) -> TierDirectories {
        TierDirectories::from(Arc::clone(first))
    }
}

impl From<&TierDirectories> for TierDirectories {
    fn from(all: &TierDirectories) -> TierDirectories {
        all.clone()
    }
}

impl<D: Directory + 'static> From<Arc<D>> for TierDirectories {
    fn from(first: Arc<D>) -> TierDirectories {
        TierDirectories { all: vec![first] }
    }
}
