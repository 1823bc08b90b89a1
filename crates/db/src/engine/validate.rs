//! Validation of transactions. It checks whether commits after a given sequence number have written
//! to the keys and ranges that a transaction has accessed (its access set).
//!
//! Memtables store the sequence number of every write. If they do not contain all commits after the
//! given sequence number, the dictionary is searched as well. For a key, the dictionary returns the
//! sequence number of its newest message. For a range, its contents as of the given sequence number
//! are compared with its current contents.
//!
//! ```text
//!   commit order   ────┬───────────────┬─────────────────────────►
//!                    place          oldest base            newest
//!                      │◄ dictionary ─►│◄───── memtables ─────►│
//! ```
//!
//! The given sequence number is pinned, so merges treat it as that of a reader. If a key has
//! messages with greater sequence numbers, a merge therefore keeps at least one of them (G2 of
//! `dictionary/merge`) and does not set its sequence number to zero (G4). Otherwise validation
//! could miss a commit.
//!
//! The caller holds the locks of the access set. A writer applies its commit to the memtables
//! before it releases its locks, so the memtables contain every conflicting commit. Reading from a
//! dictionary takes a while, during which other writers would have to wait for the locks. A
//! transaction whose read position the memtables no longer reach back to is therefore validated in
//! two steps: first without locks, up to a recent sequence number, and then with locks, only for
//! later commits.

use super::Engine;
use super::queue::MemtableSlot;
use crate::error::{Error, Result};
use crate::locking::access_set::AccessSet;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::options::kind::DictionaryPlace;
use crate::schema::catalog::KeyspaceDefinition;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of separate operands of a key that validation examines in a dictionary. If there
/// are more, the key is considered replaced.
const MOST_OPERANDS: usize = 16;

#[derive(Debug)]
pub(crate) struct WriteConflict {
    pub(crate) definition: Arc<KeyspaceDefinition>,
    /// The written key as a dictionary key, or the lower bound of a written range.
    pub(crate) key: Vec<u8>,
}

/// The writes of a transaction, among which validation looks up the writes of other commits.
pub(crate) trait OwnWrites {
    /// Returns whether the transaction writes to this key.
    fn has_key(&self, key: &[u8], definition: &KeyspaceDefinition) -> Result<bool>;

    /// Returns whether the transaction writes to a key of this range.
    fn has_key_in(&self, range: &KeyRange, definition: &KeyspaceDefinition) -> Result<bool>;
}

/// How to validate a range if the writes to it may be in a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeValidation {
    /// By value: the range is valid if readers see the same keys and values as before.
    ByValue {
        /// The time that readers compare to expiry times, in milliseconds since 1970.
        now_ms: u64,
    },
    /// By writes: the range is valid if none of its keys was written. If the memtables cannot tell,
    /// it is considered invalid.
    ByWrites,
}

/// A sequence number up to which no commit has written to the access set. Dropping this releases
/// the pin, if the number was pinned.
#[derive(Debug)]
pub(crate) struct ValidatedSnapshot<'e> {
    engine: &'e Engine,
    place: SequenceNumber,
    is_pinned: bool,
}

impl ValidatedSnapshot<'_> {
    pub(crate) fn place(&self) -> SequenceNumber {
        self.place
    }
}

impl Drop for ValidatedSnapshot<'_> {
    fn drop(&mut self) {
        if self.is_pinned {
            self.engine.close_snapshot(self.place);
        }
    }
}

/// The commits above a pinned sequence number.
pub(crate) struct LaterCommits<'e> {
    engine: &'e Engine,
    place: SequenceNumber,
    /// Sequence number at which range scans read the current contents.
    newest: SequenceNumber,
    slots: Arc<Vec<Arc<MemtableSlot>>>,
    /// Whether the memtables contain all commits above `place`.
    are_in_memory: bool,
}

impl Engine {
    /// Searches the commits above the pinned sequence number `place` for one that has written to
    /// the access set. Returns the conflict, if there is one.
    pub(crate) fn written_above(
        &self,
        place: SequenceNumber,
        footprint: &AccessSet,
        ranges: RangeValidation,
    ) -> Result<Option<WriteConflict>> {
        self.above(place, MAX_SEQUENCE).find_conflict(footprint, ranges)
    }

    /// Validates an access set without holding locks. Returns a recent sequence number such that no
    /// commit above `place` and up to this number has written to the access set, or the conflict if
    /// one has. If the memtables contain all commits above `place`, returns `place` itself, because
    /// later validation under locks is then cheap.
    pub(crate) fn validate_without_locks(
        &self,
        place: SequenceNumber,
        footprint: &AccessSet,
        ranges: RangeValidation,
    ) -> Result<std::result::Result<ValidatedSnapshot<'_>, WriteConflict>> {
        let mut recent = ValidatedSnapshot {
            engine: self,
            place,
            is_pinned: false,
        };
        if self.above(place, MAX_SEQUENCE).are_in_memory {
            return Ok(Ok(recent));
        }
        recent.place = self.open_snapshot();
        recent.is_pinned = true;
        let met = self.above(place, recent.place).find_conflict(footprint, ranges)?;
        Ok(met.map_or(Ok(recent), Err))
    }

    /// Returns whether any commit above the pinned sequence number `place` has written to a key.
    pub(crate) fn is_written_above(
        &self,
        place: SequenceNumber,
        key: &[u8],
        dictionary: DictionaryPlace,
    ) -> Result<bool> {
        self.above(place, MAX_SEQUENCE).has_key(key, dictionary)
    }

    /// Returns whether any commit above the pinned sequence number `place` has put or deleted a
    /// key.
    pub(crate) fn is_replaced_above(
        &self,
        place: SequenceNumber,
        key: &[u8],
        definition: &KeyspaceDefinition,
    ) -> Result<bool> {
        self.above(place, MAX_SEQUENCE).has_replacement(key, definition)
    }

    /// Returns whether any commit above the pinned sequence number `place` may have written to a
    /// range.
    pub(crate) fn is_range_written_above(
        &self,
        place: SequenceNumber,
        range: &KeyRange,
        dictionary: DictionaryPlace,
    ) -> Result<bool> {
        let above = self.above(place, MAX_SEQUENCE);
        above.has_range(range, dictionary, RangeValidation::ByWrites)
    }

    /// Returns whether no commit has a sequence number above `place`.
    pub(crate) fn is_newest(&self, place: SequenceNumber) -> bool {
        self.queue.last() <= place
    }

    /// Searches all commits above the pinned sequence number `place` for one that wrote to a key of
    /// `own`. `ranges` contain these keys. Returns `None` if the keys of flushed commits are not
    /// known, so that only a search for each key of `own` can tell.
    pub(crate) fn find_write_above<'r>(
        &self,
        place: SequenceNumber,
        ranges: impl Iterator<Item = (&'r Arc<KeyspaceDefinition>, KeyRange)> + Clone,
        own: &dyn OwnWrites,
    ) -> Result<Option<Option<WriteConflict>>> {
        // First the memtables: a memtable that is flushed meanwhile leaves its keys in the record.
        let in_memory = self.above(place, MAX_SEQUENCE).find_write(ranges.clone(), own)?;
        if in_memory.is_some() {
            return Ok(Some(in_memory));
        }
        self.committed_keys.find_conflict(place, ranges, own)
    }

    /// Returns the commits above `place`, or `None` if the memtables do not contain all of them.
    /// The memtables stay readable even if they are flushed in the meantime.
    pub(crate) fn commits_in_memory(&self, place: SequenceNumber) -> Option<LaterCommits<'_>> {
        let above = self.above(place, MAX_SEQUENCE);
        above.are_in_memory.then_some(above)
    }

    fn above(&self, place: SequenceNumber, newest: SequenceNumber) -> LaterCommits<'_> {
        let slots = arc_swap::Guard::into_inner(self.queue.slots());
        let oldest = slots.last().expect("there is always one");
        let place = place + u64::from(is_planted(IsolationFault::FirstCommitIsNotSeen));
        LaterCommits {
            engine: self,
            place,
            newest,
            are_in_memory: oldest.base() <= place || is_planted(IsolationFault::DictionaryIsNotAsked),
            slots,
        }
    }
}

impl LaterCommits<'_> {
    /// Returns a sequence number up to which these memtables contain every commit, because all of
    /// those commits have been applied and flushed.
    pub(crate) fn flushed(&self) -> SequenceNumber {
        let newest = self.slots.first().expect("there is always one");
        let cut = newest.cut().unwrap_or_else(|| newest.base());
        cut.min(self.engine.dictionaries.cut())
    }

    /// Searches these commits, as far as they are in memtables, for a write to a key of `own`.
    /// `ranges` contain these keys. Returns the conflict, if there is one.
    pub(crate) fn find_write<'r>(
        &self,
        ranges: impl Iterator<Item = (&'r Arc<KeyspaceDefinition>, KeyRange)>,
        own: &dyn OwnWrites,
    ) -> Result<Option<WriteConflict>> {
        for (definition, range) in ranges {
            let met = |key: &[u8]| WriteConflict {
                definition: Arc::clone(definition),
                key: key.to_vec(),
            };
            for memtable in self.memtables() {
                for deleted in self.deleted_parts(memtable, &range) {
                    if own.has_key_in(&deleted, definition)? {
                        return Ok(Some(met(&deleted.low)));
                    }
                }
                let mut written = Ok(None);
                visit_written(memtable, &range, self.place, |key| {
                    match own.has_key(key, definition) {
                        Ok(true) => written = Ok(Some(met(key))),
                        Ok(false) => return ControlFlow::Continue(()),
                        Err(error) => written = Err(error),
                    }
                    ControlFlow::Break(())
                });
                if let Some(met) = written? {
                    return Ok(Some(met));
                }
            }
        }
        Ok(None)
    }

    /// Returns the parts of `range` that these commits deleted by range deletes in `memtable`.
    fn deleted_parts(&self, memtable: &Memtable, range: &KeyRange) -> Vec<KeyRange> {
        let deletes = memtable.deletes();
        let Some(deletes) = deletes.filter(|deletes| deletes.touch_above(range, self.place)) else {
            return Vec::new();
        };
        let mut parts = Vec::new();
        deletes.each(|start, end, sequence| {
            let part = range.intersect(&KeyRange::new(start, Some(end)));
            if sequence > self.place && !part.is_empty() {
                parts.push(part);
            }
        });
        parts
    }

    /// Returns a conflict between these commits and the access set, if there is one.
    pub(crate) fn find_conflict(
        &self,
        footprint: &AccessSet,
        ranges: RangeValidation,
    ) -> Result<Option<WriteConflict>> {
        for space in footprint.spaces() {
            let dictionary = space.definition.dictionary();
            let met = |key: &[u8]| {
                Ok(Some(WriteConflict {
                    definition: Arc::clone(&space.definition),
                    key: key.to_vec(),
                }))
            };
            let points = space
                .points()
                .filter(|_| !is_planted(IsolationFault::PointsAreNotValidated));
            for point in points {
                if self.has_key(point, dictionary)? {
                    return met(point);
                }
            }
            let merges = space
                .merges()
                .filter(|_| !is_planted(IsolationFault::MergesIgnoreReplacements));
            for key in merges {
                if self.has_replacement(key, &space.definition)? {
                    return met(key);
                }
            }
            let all = space
                .ranges()
                .filter(|_| !is_planted(IsolationFault::RangesAreNotValidated));
            for range in all {
                if self.has_range(&range, dictionary, ranges)? {
                    return met(&range.low);
                }
            }
        }
        Ok(None)
    }

    /// Returns the memtables that contain at least one of these commits.
    fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        let newer = self
            .slots
            .iter()
            .filter(|slot| slot.cut().is_none_or(|cut| cut > self.place));
        newer.map(|slot| &*slot.memtable)
    }

    fn has_key(&self, key: &[u8], dictionary: DictionaryPlace) -> Result<bool> {
        let named = LookupKey::new(key);
        let in_memory = self.memtables().any(|memtable| {
            let newest = memtable.get(named, MAX_SEQUENCE).next();
            let newest = newest.map(|message| message.sequence);
            let deleted = memtable.range_deleted(key, MAX_SEQUENCE);
            let deleted = deleted.filter(|_| !is_planted(IsolationFault::RangeDeletesAreNotSeen));
            newest.max(deleted) > Some(self.place)
        });
        if in_memory || self.are_in_memory {
            return Ok(in_memory);
        }
        let reader = self.engine.dictionaries.reader(dictionary);
        // Pass no merge operator, so that the search stops at the newest message.
        let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
        reader.gather(named, &mut gather)?;
        Ok(gather.newest() > self.place)
    }

    /// Returns whether one of these commits has put or deleted a key, or deletes it at a later
    /// time. Merges do not count. If a timed delete of an older commit is in the dictionary, the
    /// answer is yes, because merges above it may have become part of it.
    ///
    /// When a dictionary merge folds operands into a put or a delete, the result has the newest
    /// operand's sequence number. A message that consists only of operands therefore contains no
    /// put or delete above the pinned `place`.
    fn has_replacement(&self, key: &[u8], definition: &KeyspaceDefinition) -> Result<bool> {
        let named = LookupKey::new(key);
        let in_memory = self.memtables().any(|memtable| {
            let messages = memtable.get(named, MAX_SEQUENCE);
            let mut later = messages.take_while(|message| message.sequence > self.place);
            memtable.range_deleted(key, MAX_SEQUENCE) > Some(self.place)
                || later.any(|message| message.kind != MessageKind::Merge)
        });
        if in_memory || self.are_in_memory {
            return Ok(in_memory);
        }
        let reader = self.engine.dictionaries.reader(definition.dictionary());
        let mut at = MAX_SEQUENCE;
        for _ in 0..MOST_OPERANDS {
            let mut any = LookupState::new(at, 0, None);
            reader.gather(named, &mut any)?;
            let newest = any.newest();
            if newest <= self.place {
                return Ok(false);
            }
            let mut operands = LookupState::new(at, 0, definition.rules.operator.as_deref());
            reader.gather(named, &mut operands)?;
            if !operands.known.has_operands() || operands.known.has_timed_deletes() {
                return Ok(true);
            }
            at = newest - 1;
        }
        Ok(true)
    }

    fn has_range(
        &self,
        range: &KeyRange,
        dictionary: DictionaryPlace,
        asked: RangeValidation,
    ) -> Result<bool> {
        if self.memtables().any(|memtable| self.is_written(memtable, range)) {
            return Ok(true);
        }
        if self.are_in_memory {
            return Ok(false);
        }
        match asked {
            RangeValidation::ByWrites => Ok(true),
            RangeValidation::ByValue { now_ms } => self.range_differs(range, dictionary, now_ms),
        }
    }

    fn is_written(&self, memtable: &Memtable, range: &KeyRange) -> bool {
        if memtable
            .deletes()
            .is_some_and(|deletes| deletes.touch_above(range, self.place))
            && !is_planted(IsolationFault::RangeDeletesAreNotSeen)
        {
            return true;
        }
        let mut is_written = false;
        visit_written(memtable, range, self.place, |_| {
            is_written = true;
            ControlFlow::Break(())
        });
        is_written
    }

    /// Returns whether a reader of the range sees different keys or values now than at `place`.
    fn range_differs(&self, range: &KeyRange, dictionary: DictionaryPlace, now_ms: u64) -> Result<bool> {
        let scan = |at| {
            self.engine
                .scan_by_clock(dictionary, range.clone(), MergeDirection::Forward, at, now_ms)
        };
        let (mut then, mut now) = (scan(self.place), scan(self.newest));
        loop {
            let (one, other) = match (then.next(), now.next()) {
                (Ok(one), Ok(other)) => (one, other),
                (Err(error), _) | (_, Err(error)) => {
                    // The merge operator fails now, although the earlier read succeeded, so the
                    // value has changed.
                    return match self.engine.catalog.named(error) {
                        Error::BadBase { .. } => Ok(true),
                        other => Err(other),
                    };
                }
            };
            if one != other {
                return Ok(true);
            }
            if one.is_none() {
                return Ok(false);
            }
        }
    }
}

/// Calls `visit` for each key in the range that a commit above `place` has written to, until
/// `visit` breaks.
fn visit_written(
    memtable: &Memtable,
    range: &KeyRange,
    place: SequenceNumber,
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) {
    let mut cursor = memtable.cursor();
    cursor.seek(&range.low);
    while let Some(key) = cursor.key().filter(|key| range.contains(key)) {
        let newest = cursor.versions(MAX_SEQUENCE).next();
        if newest.is_some_and(|newest| newest.sequence > place) && visit(key).is_break() {
            return;
        }
        cursor.next();
    }
}
