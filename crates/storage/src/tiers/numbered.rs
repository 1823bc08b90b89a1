//! A collection with one value per tier, to which values can be added.

use super::MAX_TIERS;
use std::sync::OnceLock;

/// One value per tier, in tier order. A value can be added while other threads read.
#[derive(Clone, Debug)]
pub(crate) struct TierArray<T> {
    values: [OnceLock<T>; MAX_TIERS],
}

impl<T> Default for TierArray<T> {
    fn default() -> TierArray<T> {
        TierArray {
            values: [const { OnceLock::new() }; MAX_TIERS],
        }
    }
}

impl<T> TierArray<T> {
    /// Adds the value of the next tier. Two threads must not call this at the same time.
    ///
    /// # Panics
    /// If the collection already has [`MAX_TIERS`] values.
    pub(crate) fn push(&self, value: T) {
        let mut next = self.values.iter().skip_while(|value| value.get().is_some());
        let next = next.next().expect("a store has no more tiers (T1)");
        assert!(next.set(value).is_ok(), "tiers are added one after the other");
    }

    pub(crate) fn get(&self, tier: usize) -> Option<&T> {
        self.values.get(tier)?.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map_while(OnceLock::get)
    }
}

impl<T> FromIterator<T> for TierArray<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> TierArray<T> {
        let all = TierArray::default();
        values.into_iter().for_each(|value| all.push(value));
        all
    }
}
