//! Changes a map, by flushing memtable slices into it and by rewriting it as a whole.

use super::{MapInner, MapRecord, MapRecords, OrderedMap};
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::merge::{FoldRule, MessageFolder, OlderData};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The flush of a memtable slice into a map.
#[derive(Debug)]
pub struct MapIncorporation {
    pub(super) map: OrderedMap,
    pub(super) share: MemtableSlice,
}

impl MapIncorporation {
    /// Folds the slice's messages into the map, and publishes the new version.
    pub(super) fn publish(&self) {
        let share = &self.share;
        assert!(
            share.cut >= self.map.version().stamp.cut,
            "shares come in commit order"
        );
        self.map.change(Some(share.cut), |keys| {
            let mut touched: BTreeSet<Arc<[u8]>> = BTreeSet::new();
            let mut cursor = share.first();
            while let Some(key) = cursor.key() {
                touched.insert(key.into());
                share.next(&mut cursor);
            }
            if share.memtable.has_range_deletes() {
                let covered = |key: &&Arc<[u8]>| {
                    share.contains(key) && share.memtable.range_deleted(key, MAX_SEQUENCE).is_some()
                };
                touched.extend(keys.keys().filter(covered).cloned());
            }
            let rule = self.map.shared.home.horizon.rule(OlderData::None);
            for key in touched {
                let newer = newest_first(&share.memtable, &key, &rule);
                self.map.shared.fold(keys, &key, &newer, false);
            }
        });
    }
}

/// Returns a memtable's messages for a key, from newest to oldest. A range delete that covers the
/// key is returned as a delete of the key (P2). Sequence numbers form bands: a reader sees either
/// all or none of the messages whose numbers are in one band. Of the range deletes in one band,
/// only the newest is returned.
pub(crate) fn newest_first<'m>(memtable: &'m Memtable, key: &[u8], rule: &FoldRule) -> Vec<Message<'m>> {
    let mut messages: Vec<Message<'m>> = memtable.get(LookupKey::new(key), MAX_SEQUENCE).collect();
    let mut at = MAX_SEQUENCE;
    while let Some(sequence) = memtable.range_deleted(key, at) {
        assert!(sequence <= at, "a reader sees no later delete");
        messages.push(Message::delete(sequence));
        at = rule.below_band_of(sequence);
    }
    messages.sort_by_key(|message| std::cmp::Reverse(message.sequence));
    debug_assert!(
        messages.is_sorted_by(|newer, older| newer.sequence > older.sequence),
        "each message has a number of its own"
    );
    messages
}

impl MapInner {
    /// Folds the messages in `newer` into a key's existing messages. Keeps only the messages that
    /// readers need.
    pub(super) fn fold(
        &self,
        keys: &mut MapRecords,
        key: &Arc<[u8]>,
        newer: &[Message<'_>],
        asks_filters: bool,
    ) {
        let rules = self.home.schema.rules(key);
        let rule = self.home.horizon.rule(OlderData::None);
        let mut folder = MessageFolder::new(&rule, rules.operator.as_deref());
        if let Some(filter) = rules.filter.as_deref().filter(|_| asks_filters) {
            folder = folder.filtered(filter, &key[self.home.schema.prefix_len(key)..]);
        }
        let older = keys.get(key).cloned();
        let older = older
            .iter()
            .flat_map(|entries| entries.iter().map(MapRecord::message));
        let mut left = Vec::new();
        folder.fold(
            newer.iter().copied().chain(older),
            |_| None,
            |folded| {
                left.push(MapRecord {
                    sequence: folded.sequence,
                    kind: folded.kind,
                    expires_ms: folded.expires_ms,
                    operand: folded.operand.into(),
                });
            },
        );
        debug_assert!(
            left.is_sorted_by(|newer, older| newer.sequence >= older.sequence),
            "messages of a key are kept newest first"
        );
        if left.is_empty() {
            keys.remove(key);
        } else {
            keys.insert(Arc::clone(key), left.into());
        }
    }
}

/// A rewrite of the whole map, which drops obsolete messages and applies compaction filters.
#[derive(Debug)]
pub struct MapRewrite {
    pub(super) map: OrderedMap,
}

impl MapRewrite {
    pub(super) fn run(&self) -> StepProgress {
        let shared = &self.map.shared;
        let asks_filters = shared.home.horizon.asks_filters();
        self.map.change(None, |keys| {
            let all: Vec<Arc<[u8]>> = keys.keys().cloned().collect();
            let before = all.len();
            for key in all {
                shared.fold(keys, &key, &[], asks_filters);
            }
            assert!(keys.len() <= before, "a rewrite adds no key");
        });
        StepProgress::Done
    }
}

impl OrderedMap {
    /// Starts a rewrite if one has been requested or enough values have expired. Returns `None`
    /// otherwise.
    pub(super) fn rewrite_due(&self) -> Option<MapRewrite> {
        let is_wanted = self.shared.is_stale.swap(false, Ordering::AcqRel);
        let is_due = is_wanted || self.has_expired();
        is_due.then(|| MapRewrite { map: self.clone() })
    }

    /// Returns whether enough values have expired to justify a rewrite. A rewrite can drop expired
    /// values only from commits up to the horizon, so the result is `false` until the horizon has
    /// reached the cut (the sequence number up to which the current version contains all commits).
    pub(super) fn has_expired(&self) -> bool {
        let version = self.shared.versions.peek();
        if version.stale_from_ms == u64::MAX {
            return false;
        }
        let rule = self.shared.home.horizon.rule(OlderData::None);
        let knows_all = rule
            .readers
            .last()
            .is_some_and(|newest| *newest >= version.stamp.cut);
        knows_all && version.stale_from_ms <= rule.now_ms
    }
}
