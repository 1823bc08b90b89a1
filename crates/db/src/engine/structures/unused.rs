//! Dictionaries that no keyspace uses any more.
//!
//! ```text
//!   dropped    a commit drops the last keyspace of a dictionary and deletes its keys
//!   unused     a checkpoint contains that commit: the keyspace has no dictionary any more
//!   emptied    no reader sees the time before the commit: a compaction drops all records
//!   unlisted   the next checkpoint does not list the empty dictionary
//! ```
//!
//! The dictionary stays in memory until the store is closed, for readers that began before the
//! drop. A new keyspace with the same options uses it again.

use super::DictionarySet;
use crate::options::kind::DictionaryPlace;
use crate::schema::format::KeyspaceId;
use alluvium_base::SequenceNumber;
use std::collections::BTreeMap;

/// The dropped keyspaces that still have a dictionary, and the dictionaries that lost their last
/// keyspace.
#[derive(Debug, Default)]
pub(super) struct UnusedDictionaries {
    /// The dropped keyspaces, each with a sequence number that no write to it exceeds.
    dropped: BTreeMap<KeyspaceId, SequenceNumber>,
    /// The dictionaries that have lost keyspaces, each with a sequence number that no write to
    /// these keyspaces exceeds.
    emptied: BTreeMap<DictionaryPlace, SequenceNumber>,
}

impl DictionarySet {
    /// Records that a keyspace was dropped, or was not created after all. No write to it may have a
    /// sequence number above `last`.
    pub(crate) fn note_dropped(&self, keyspace: KeyspaceId, last: SequenceNumber) {
        self.unused.lock().dropped.insert(keyspace, last);
    }

    /// Records that a keyspace exists.
    pub(super) fn note_placed(&self, keyspace: KeyspaceId) {
        self.unused.lock().dropped.remove(&keyspace);
    }

    /// Records the keyspaces for which `is_there` returns false as dropped, when the store is
    /// opened. `last` is the sequence number of the last commit.
    pub(in crate::engine) fn note_missing(
        &mut self,
        is_there: impl Fn(KeyspaceId) -> bool,
        last: SequenceNumber,
    ) {
        let several: Vec<DictionaryPlace> = self
            .all()
            .map(|(place, _)| place)
            .filter(|place| place.structure.has_several())
            .collect();
        let (placed, unused) = (self.placed.get_mut(), self.unused.get_mut());
        let missing = placed.keys().filter(|&&keyspace| !is_there(keyspace));
        unused.dropped.extend(missing.map(|&keyspace| (keyspace, last)));
        let is_used = |place: &DictionaryPlace| placed.values().any(|of| of == place);
        let others = several.into_iter().filter(|place| !is_used(place));
        unused.emptied.extend(others.map(|place| (place, last)));
    }

    /// Takes dropped keyspaces out of their dictionaries, which contain every commit up to `at`.
    /// The caller must hold the lock `publishing`.
    pub(super) fn forget_dropped(&self, at: SequenceNumber) {
        let (mut placed, mut unused) = (self.placed.write(), self.unused.lock());
        let UnusedDictionaries { dropped, emptied } = &mut *unused;
        dropped.retain(|keyspace, last| {
            if *last > at {
                return true;
            }
            let place = placed.get(keyspace).copied();
            if let Some(place) = place.filter(|place| place.structure.has_several()) {
                placed.remove(keyspace);
                let latest = emptied.entry(place).or_default();
                *latest = (*latest).max(*last);
            }
            false
        });
    }

    /// Returns whether a generation must list a dictionary: whether a keyspace uses it or it has
    /// data.
    pub(super) fn is_listed(&self, place: DictionaryPlace) -> bool {
        !place.structure.has_several() || self.is_used(place) || !self.is_empty(place)
    }

    fn is_used(&self, place: DictionaryPlace) -> bool {
        self.placed.read().values().any(|of| *of == place)
    }

    fn is_empty(&self, place: DictionaryPlace) -> bool {
        self.get(place).is_none_or(|structure| structure.is_empty())
    }

    /// Requests compactions of the unused dictionaries whose data no reader can see any more.
    pub(in crate::engine) fn empty_unused(&self) -> alluvium_storage::Result<()> {
        let horizon = self.horizon().sequence();
        // Release the lock first, because `is_used` takes another one.
        let emptied = self.unused.lock().emptied.clone();
        for (place, last) in emptied {
            if self.is_used(place) || self.is_empty(place) {
                self.unused.lock().emptied.remove(&place);
            } else if last <= horizon {
                self.of(place).compact_part(&[])?;
            }
        }
        Ok(())
    }
}
