//! How a merge processes records: it collects the records of one hash after another from all
//! sources, and folds the messages of each key.

use super::TAKEN_OVER;
use crate::hashed::options::HashedOptions;
use crate::hashed::routing;
use crate::hashed::rules::RulesCache;
use crate::hashed::run::{HashRecordBuffer, HashRunBuilder, HashRunCursor, RunMessage};
use crate::hashed::state::HashStoreAge;
use crate::hashed::trees::LeafWriter;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message as Said, SequenceNumber};
use alluvium_dictionary::merge::{FoldRule, FoldedMessage, MessageFolder, OlderData};
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_storage::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::sync::Arc;

/// Number of records that a slice is charged for copying entries from the old filter.
const COUNTED: usize = 64;

/// The sources, output and options of a merge.
#[derive(Debug)]
pub(super) struct HashMerger {
    /// Cursors over the input runs, newest run first.
    pub(super) sources: Vec<HashRunCursor>,
    /// Priority queue of the unfinished sources: the next hash of each, and its index. The lowest
    /// hash comes first and, among equal hashes, the newest source.
    pub(super) heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Range deletes of each source, newest source first.
    pub(super) deletes: Vec<Arc<RangeTombstoneIndex>>,
    pub(super) options: HashedOptions,
    /// Only for a join of hash stores: the age below which each part already contains the hash
    /// stores, and the age of each source.
    pub(super) taken: Option<(Vec<HashStoreAge>, Vec<HashStoreAge>)>,
    pub(super) rule: FoldRule,
    pub(super) rules: RulesCache,
    pub(super) asks_filters: bool,
    pub(super) builder: HashRunBuilder,
    pub(super) filter: Option<Box<routing::RoutingFilterBuilder>>,
    /// In a bundle of trees, the list of the new run's hashes.
    pub(super) leaf: Option<Box<LeafWriter>>,
    /// Buffer for the records with the current hash.
    pub(super) group: HashRecordBuffer,
}

impl HashMerger {
    /// Merges the records with the next hash. Returns the number of records to charge to the slice,
    /// or `None` at the end of all sources.
    pub(super) fn next(&mut self) -> Result<Option<usize>> {
        let Some(&Reverse((hash, _))) = self.heads.peek() else {
            return Ok(None);
        };
        if let Some(filter) = &mut self.filter
            && !filter.advance(hash, TAKEN_OVER)?
        {
            return Ok(Some(COUNTED));
        }
        let mut group = std::mem::take(&mut self.group);
        group.clear();
        self.take_into(&mut group, hash)?;
        // The buffer holds records of newer sources before those of older ones, so a stable sort by
        // key leaves the messages of each key newest first.
        if group.count() > 1 {
            group.sort_by_key();
        }
        let (mut first, taken) = (0, group.count());
        while first < taken {
            let end = group.end_of_key(first);
            self.fold(hash, &group, first..end)?;
            first = end;
        }
        self.group = group;
        Ok(Some(taken))
    }

    /// Collects the records with `hash` from all sources, newest source first. A join skips records
    /// that their part already contains.
    fn take_into(&mut self, group: &mut HashRecordBuffer, hash: u64) -> Result<()> {
        let part = self.options.part_of(hash);
        while let Some(mut head) = self.heads.peek_mut()
            && head.0.0 == hash
        {
            let number = head.0.1;
            let source = &mut self.sources[number];
            let taken = self.taken.as_ref();
            let is_taken = taken.is_some_and(|(upto, ages)| ages[number] < upto[part]);
            while source.hash() == Some(hash) {
                match is_taken {
                    true => source.skip()?,
                    false => source.take_into(group)?,
                }
            }
            match source.hash() {
                Some(next) => head.0.0 = next,
                None => drop(PeekMut::pop(head)),
            }
        }
        Ok(())
    }

    /// Folds the messages of one key, which are the records `numbers` of `group`, and writes the
    /// remaining messages.
    fn fold(&mut self, hash: u64, group: &HashRecordBuffer, numbers: Range<usize>) -> Result<()> {
        let Some(record) = group.get(numbers.start) else {
            return Ok(());
        };
        let key = record.key;
        let rules = self.rules.of(key);
        let mut folder = MessageFolder::new(&self.rule, rules.operator.as_deref());
        if let Some(filter) = rules.filter.as_deref().filter(|_| self.asks_filters) {
            folder = folder.filtered(filter, self.rules.user_key(key));
        }
        let messages = group.messages(numbers);
        debug_assert!(
            messages
                .clone()
                .is_sorted_by(|newer, older| newer.sequence >= older.sequence),
            "messages of a key come newest first"
        );
        let is_oldest = self.rule.older == OlderData::None;
        let ranges = || self.deletes.iter().filter(|deletes| !deletes.is_empty());
        // If there is older data, the run inherits the range deletes, and only records that they
        // hide are dropped.
        let deleted = |at| match is_oldest {
            true => None,
            false => ranges().filter_map(|deletes| deletes.covering(key, at)).max(),
        };
        let (builder, filter, mut pushed) = (&mut self.builder, &mut self.filter, Ok(()));
        let leaf = &mut self.leaf;
        let push = |folded: FoldedMessage<'_>| {
            if pushed.is_ok() {
                let message = RunMessage {
                    sequence: folded.sequence,
                    kind: folded.kind,
                    expires_ms: folded.expires_ms,
                    operand: folded.operand,
                };
                let previous = filter.as_mut().map_or(Ok(None), |filter| filter.push(hash));
                let listed = leaf.as_mut().map_or(Ok(()), |leaf| leaf.push(hash));
                pushed = listed
                    .and(previous)
                    .and_then(|previous| builder.push_after(previous, hash, key, message, &rules));
            }
        };
        match is_oldest && ranges().next().is_some() {
            false => folder.fold(messages, deleted, push),
            true => {
                let horizon = self.rule.horizon;
                let deletes = ranges().flat_map(|deletes| covering(deletes, key, horizon));
                let mut all: Vec<Said<'_>> = messages.chain(deletes.map(Said::delete)).collect();
                all.sort_by_key(|message| Reverse(message.sequence));
                folder.fold(all, deleted, push);
            }
        }
        pushed
    }
}

/// Returns the sequence numbers of the range deletes that cover a key, newest first, up to the
/// first one that every reader sees.
fn covering(
    deletes: &RangeTombstoneIndex,
    key: &[u8],
    horizon: SequenceNumber,
) -> impl Iterator<Item = SequenceNumber> {
    let mut at = Some(MAX_SEQUENCE);
    std::iter::from_fn(move || {
        let sequence = deletes.covering(key, at?)?;
        at = (sequence > horizon).then(|| sequence - 1);
        Some(sequence)
    })
}
