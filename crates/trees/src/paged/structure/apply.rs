//! Applies memtables, ingests and rewrites to the pages. Each is applied in slices of a few keys.

use super::format::{self, PageValue, PagedEntry};
use super::messages::MessagePlace;
use super::{AnyTree, PagedDictionary, PagedWriterState};
use crate::map::{MemoryLayer, MemoryLayerTarget, newest_first};
use crate::paged::buffer::PageBuffer;
use crate::paged::error::key_too_long;
use crate::paged::read::{PagedTreeScan, ScanBounds};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_dictionary::contract::{self, StepProgress};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::merge::{FoldRule, MessageFolder, OlderData};
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::{Error, Result};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of keys in one slice. Readers wait while a slice is applied.
const SLICE: usize = 32;
/// Maximum number of pages that a slice may allocate, apart from pages for long values.
const SPARE: u64 = 256;
/// Approximate size of a message in bytes, not counting its key and value.
const MESSAGE_BYTES: usize = 32;

/// Whether compaction filters are consulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterMode {
    Asked,
    Silent,
}

/// Merges key ranges that overlap or touch. The result covers the same keys.
pub(super) fn joined(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_by(|one, other| one.low.cmp(&other.low));
    let mut joined: Vec<KeyRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.high.as_ref().is_none_or(|high| *high >= range.low) => {
                let is_longer = match (&last.high, &range.high) {
                    (None, _) => false,
                    (Some(_), None) => true,
                    (Some(high), Some(other)) => other > high,
                };
                if is_longer {
                    last.high = range.high;
                }
            }
            _ => joined.push(range),
        }
    }
    debug_assert!(joined.is_sorted_by(|one, other| one.low < other.low));
    joined
}

/// A slice of a memtable that is being written into the pages.
#[derive(Debug)]
pub(super) struct PagedIncorporation {
    pub(super) paged: PagedDictionary,
    pub(super) share: MemtableSlice,
    /// The space class, which determines how much of the space reserve may be used.
    pub(super) class: AllocationClass,
}

/// A rewrite of the whole tree, which drops obsolete messages and applies compaction filters.
#[derive(Debug)]
pub(super) struct PagedRewrite {
    paged: PagedDictionary,
    /// The first key that has not been rewritten yet.
    at: Vec<u8>,
    filters: FilterMode,
}

impl PagedDictionary {
    /// Merges a key's messages, which must be ordered from newest to oldest, and returns what
    /// remains of them in the same order. A remaining message has its own sequence number or that
    /// of the newest message merged into it, so no two have the same number (PV2).
    fn folded(
        &self,
        key: &[u8],
        messages: &[Message<'_>],
        rule: &FoldRule,
        filters: FilterMode,
    ) -> Vec<PagedEntry> {
        let home = &self.shared.home;
        let rules = home.schema.rules(key);
        let mut folder = MessageFolder::new(rule, rules.operator.as_deref());
        if let Some(filter) = rules.filter.as_deref().filter(|_| filters == FilterMode::Asked) {
            folder = folder.filtered(filter, &key[home.schema.prefix_len(key)..]);
        }
        let mut seen = messages.iter().map(|message| message.sequence);
        let newest_hidden = seen.find(|sequence| *sequence <= rule.horizon).unwrap_or(0);
        let mut left: Vec<PagedEntry> = Vec::new();
        folder.fold(
            messages.iter().copied(),
            |_| None,
            |folded| {
                let own = folded.number.and_then(|number| messages.get(number));
                left.push(PagedEntry {
                    // The folder returns sequence number 0 for a key's oldest remaining message.
                    sequence: match folded.sequence {
                        0 => own.map_or(newest_hidden, |message| message.sequence),
                        sequence => sequence,
                    },
                    kind: folded.kind,
                    expires_ms: folded.expires_ms,
                    operand: folded.operand.into(),
                });
            },
        );
        assert!(
            left.is_sorted_by(|newer, older| newer.sequence > older.sequence),
            "messages of a key are newest first (PV2)"
        );
        left
    }

    /// Returns the messages that the pages hold for a key, up to the sequence number of the last
    /// complete change (the cut).
    fn older(&self, key: &[u8]) -> Result<Vec<PagedEntry>> {
        let mut value = Vec::new();
        if !self.core().get(key, &mut value)? {
            return Ok(Vec::new());
        }
        let mut entries = self.entries(&value)?;
        // Messages above the cut are left over from a failed change, which will be applied again.
        entries.retain(|entry| entry.sequence <= self.at());
        Ok(entries)
    }

    /// Adds newer messages to those that the pages hold for a key (PV3).
    pub(super) fn put_before(&self, key: &[u8], newer: &[Message<'_>], rule: &FoldRule) -> Result<()> {
        let above = FoldRule {
            older: OlderData::Elsewhere,
            ..rule.clone()
        };
        let mut left = self.folded(key, newer, &above, FilterMode::Silent);
        let hides = left
            .last()
            .is_some_and(|last| !last.kind.needs_older() && last.sequence <= rule.horizon);
        if hides {
            left.pop_if(|last| last.kind == MessageKind::Delete);
        } else {
            let older = self.older(key)?;
            let messages: Vec<Message<'_>> = older.iter().map(PagedEntry::message).collect();
            left.extend(self.folded(key, &messages, rule, FilterMode::Silent));
        }
        self.keep(key, &left)
    }

    /// Replaces the messages that the pages hold for a key by `entries`.
    fn keep(&self, key: &[u8], entries: &[PagedEntry]) -> Result<()> {
        if entries.is_empty() {
            return self.shared.tree.write(key, None);
        }
        let expire = entries.iter().filter(|entry| entry.expires_ms > 0);
        expire.for_each(|entry| self.shared.expiring.note(entry.expires_ms));
        let messages = format::encode(entries);
        let here = PageValue::Inline(&messages).encode();
        if here.len() <= self.core().shape.value_limit {
            return self.shared.tree.write(key, Some(&here));
        }
        let buffer = &self.core().buffer;
        let pages = messages.len() / buffer.content_bytes().saturating_sub(format::APART_HEADER).max(1);
        buffer.reserve(pages as u64 + 1)?;
        let value = self.write_out(&messages)?;
        self.shared
            .tree
            .write(key, Some(&value))
            .inspect_err(|_| self.shared.dropped.0.lock().extend(MessagePlace::of(&value)))
    }

    /// Applies a change to each of the keys. The keys are processed in slices, and readers wait
    /// while a slice is applied (PV1).
    pub(super) fn in_slices<K>(
        &self,
        writer: &mut PagedWriterState,
        keys: &[K],
        mut change: impl FnMut(&K) -> Result<()>,
    ) -> Result<()> {
        for slice in keys.chunks(SLICE) {
            // Reserve space first, so that a full disk is noticed before any part of the slice is
            // applied.
            let space = self.core().buffer.reserve_all(SPARE);
            let applied = space.and_then(|()| {
                writer.is_current = false;
                let _alone = self.shared.gate.write();
                self.shared.state.fetch_add(1, Ordering::AcqRel);
                for key in slice {
                    // Pages that cannot be written to the file occupy memory, and readers need some
                    // of that memory.
                    self.core().buffer.writable()?;
                    change(key)?;
                }
                self.free_dropped()
            });
            self.poison_on_error(applied)?;
        }
        Ok(())
    }

    /// Moves all buffered messages for keys from `low` (inclusive) to `high` (exclusive) to their
    /// leaves, in slices.
    fn settle(&self, writer: &mut PagedWriterState, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let AnyTree::Beps(tree) = &self.shared.tree else {
            return Ok(());
        };
        let mut at = Some(low.to_vec());
        while let Some(mut from) = at.take() {
            let space = self.core().buffer.reserve_all(SPARE);
            let moved = space.and_then(|()| {
                writer.is_current = false;
                let _alone = self.shared.gate.write();
                self.shared.state.fetch_add(1, Ordering::AcqRel);
                for _ in 0..SLICE {
                    match tree.drain_at(&from)? {
                        Some(next) if high.is_none_or(|high| &next[..] < high) => from = next,
                        _ => return self.free_dropped().map(|()| None),
                    }
                }
                self.free_dropped().map(|()| Some(from))
            });
            at = self.poison_on_error(moved)?;
        }
        Ok(())
    }

    /// Returns the first `most` keys of a range that are in the pages, or all of them if there are
    /// fewer.
    fn keys_within(&self, range: &KeyRange, most: usize) -> Result<Vec<Vec<u8>>> {
        let bounds = ScanBounds {
            from: Some(range.low.to_vec()),
            below: range.high.as_ref().map(|high| high.to_vec()),
        };
        let scan = PagedTreeScan::new(self.core(), bounds);
        scan.take(most).map(|pair| Ok(pair?.0)).collect()
    }

    /// Returns an error if any of the keys is too long for a node. Nothing is changed.
    fn require_fitting<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let limit = self.core().shape.key_limit;
        match keys.find(|key| key.len() > limit) {
            None => Ok(()),
            Some(key) => Err(key_too_long(key.len(), limit)),
        }
    }

    /// Requests a rewrite if so much was deleted since the last one that a rewrite may free pages.
    /// Returns whether it requested one. Without a rewrite, deletes would remain in inner nodes,
    /// and the deleted values would keep their pages.
    pub fn want_deletes_applied(&self) -> bool {
        let shared = &self.shared;
        let counted = self.statistics();
        let enough = (counted.pages - counted.free) / 8 + 1;
        let is_due = shared.deletes.load(Ordering::Relaxed) >= enough;
        if is_due {
            shared.is_stale.store(true, Ordering::Release);
        }
        is_due
    }

    /// Starts a rewrite if one has been requested or if enough values have expired. Returns `None`
    /// otherwise.
    pub(super) fn rewrite_due(&self) -> Option<PagedRewrite> {
        let shared = &self.shared;
        let rule = shared.home.horizon.rule(OlderData::None);
        let counted = self.statistics();
        let have_expired = shared
            .expiring
            .is_due(rule.now_ms, rule.horizon, counted.pages - counted.free);
        let is_due = shared.is_stale.swap(false, Ordering::AcqRel) || have_expired;
        if is_due {
            shared.deletes.store(0, Ordering::Relaxed);
        }
        is_due.then(|| PagedRewrite {
            paged: self.clone(),
            at: Vec::new(),
            filters: match self.shared.home.horizon.asks_filters() {
                true => FilterMode::Asked,
                false => FilterMode::Silent,
            },
        })
    }
}

impl PagedDictionary {
    /// Returns the number of pages, and of page images, that a change of this space class must
    /// leave for other classes. With this reserve, a full disk is noticed while there is still
    /// space for acknowledged writes and for deletes.
    fn left_by(&self, class: AllocationClass) -> u64 {
        let counted = self.statistics();
        let frames = self.core().buffer.frames().unwrap_or_default() as u64;
        let reserve = (2 * SPARE + frames / 2).min((counted.pages - counted.free) / 8);
        match class {
            AllocationClass::Normal => reserve,
            AllocationClass::Essential => reserve / 2,
            AllocationClass::Unblocking => reserve / 4,
            AllocationClass::Freeing => 0,
        }
    }
}

impl PagedIncorporation {
    /// Returns the maximum number of pages that the slice of the memtable may need.
    fn wanted(&self) -> u64 {
        let core = self.paged.core();
        let (content, inline) = (core.buffer.content_bytes(), core.shape.value_limit);
        let slot = MESSAGE_BYTES + core.shape.key_limit + inline;
        let (mut pages, mut bytes) = (0, 0);
        let mut cursor = self.share.first();
        while cursor.key().is_some() {
            for message in cursor
                .versions(MAX_SEQUENCE)
                .filter(|message| message.kind != MessageKind::Delete)
            {
                let len = message.operand.len();
                match len {
                    _ if len <= inline => bytes += 2 * slot as u64,
                    _ if len <= content / 2 => bytes += (2 * slot + 2 * len) as u64,
                    _ => pages += 1 + len.div_ceil(content) as u64,
                }
            }
            self.share.next(&mut cursor);
        }
        pages + bytes.div_ceil(content as u64)
    }

    /// Returns the keys that the slice of the memtable changes, in ascending order.
    fn touched(&self) -> Result<Vec<Vec<u8>>> {
        let share = &self.share;
        let mut touched: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut cursor = share.first();
        while let Some(key) = cursor.key() {
            touched.insert(key.to_vec());
            share.next(&mut cursor);
        }
        if share.memtable.has_range_deletes() {
            let mut ranges = Vec::new();
            share.range_deletes().finish().each(|start, end, _| {
                ranges.push(KeyRange::new(start, Some(end)));
            });
            for range in &joined(ranges) {
                let covered = self
                    .paged
                    .poison_on_error(self.paged.keys_within(range, usize::MAX))?;
                touched.extend(covered);
            }
        }
        Ok(touched.into_iter().collect())
    }
}

impl contract::MemtableIncorporation for PagedIncorporation {
    fn poll(&mut self, _records: usize) -> Result<StepProgress> {
        let paged = &self.paged;
        // Run every check that can reject the memtable before anything is changed.
        let mut cursor = self.share.first();
        while let Some(key) = cursor.key() {
            paged.poison_on_error(paged.require_fitting([key].into_iter()))?;
            self.share.next(&mut cursor);
        }
        let pages = self.wanted();
        let left = paged.left_by(self.class);
        let buffer = &paged.core().buffer;
        let frames = buffer.frames().unwrap_or_default() as u64;
        let reserved = buffer.reserve_for(SPARE + pages + left, left.min(frames / 2));
        paged.poison_on_error(reserved)?;
        Ok(StepProgress::Done)
    }

    fn publish(&mut self) -> Result<()> {
        let paged = &self.paged;
        let mut writer = paged.shared.writer.lock();
        assert!(self.share.cut >= paged.at(), "shares come in commit order");
        let rule = paged.shared.home.horizon.rule(OlderData::None);
        let keys = self.touched()?;
        let is_begun = Cell::new(false);
        let applied = paged.in_slices(&mut writer, &keys, |key| {
            is_begun.set(true);
            let newer = newest_first(&self.share.memtable, key, &rule);
            let deletes = newer.iter().filter(|message| message.kind == MessageKind::Delete);
            paged
                .shared
                .deletes
                .fetch_add(deletes.count() as u64, Ordering::Relaxed);
            paged.put_before(key, &newer, &rule)
        });
        if let Err(error) = applied {
            if is_begun.get() || writer.stopped.is_some() {
                writer.stopped = Some(paged.repeat(&error));
            }
            return Err(error);
        }
        writer.stopped = None;
        writer.is_current &= keys.is_empty();
        paged.raise(self.share.cut);
        Ok(())
    }

    fn taken(&self) -> usize {
        self.share.memtable.len()
    }
}

/// Estimates how many pages the layers' messages may need, and how many page images must be kept
/// for the pages that they may overwrite. The estimate assumes that nodes are a quarter full, that
/// each long value needs separate pages, and that further nodes are needed above the leaves.
fn pages_for(layers: &[Arc<MemoryLayer>], content: usize, slot: usize, inline: usize) -> (u64, u64) {
    let (mut pages, mut messages) = (2 * SPARE, 0);
    for entry in layers.iter().flat_map(|layer| layer.messages.values()) {
        messages += 1;
        let len = entry.operand.len();
        if len > inline {
            pages += 1 + len.div_ceil(content) as u64;
        }
    }
    let nodes = 4 * messages * (MESSAGE_BYTES + slot) as u64;
    (
        pages + nodes.div_ceil(content as u64) + messages / 4,
        4 * messages,
    )
}

impl MemoryLayerTarget for PagedDictionary {
    fn prepare(&self, layers: &[Arc<MemoryLayer>]) -> Result<()> {
        let _writer = self.shared.writer.lock();
        let core = self.core();
        let (content, inline) = (core.buffer.content_bytes(), core.shape.value_limit);
        let (pages, images) = pages_for(layers, content, core.shape.key_limit + inline, inline);
        self.poison_on_error(core.buffer.reserve_for(pages, images))
    }

    fn attach(&self, layers: &[Arc<MemoryLayer>], first: SequenceNumber) -> Result<()> {
        let mut writer = self.shared.writer.lock();
        assert_eq!(
            self.at() + 1,
            first,
            "an ingest is attached behind all that was written before"
        );
        let keys = layers.iter().flat_map(|layer| layer.messages.keys());
        self.poison_on_error(self.require_fitting(keys.map(|key| &**key)))?;
        let rule = self.shared.home.horizon.rule(OlderData::None);
        let mut touched: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut deleted = Vec::new();
        for layer in layers {
            touched.extend(layer.messages.keys().map(|key| key.to_vec()));
            deleted.extend(layer.deleted.iter().cloned());
        }
        for range in &joined(deleted) {
            touched.extend(self.poison_on_error(self.keys_within(range, usize::MAX))?);
        }
        let keys: Vec<Vec<u8>> = touched.into_iter().collect();
        let is_begun = Cell::new(false);
        let applied = self.in_slices(&mut writer, &keys, |key| {
            is_begun.set(true);
            let mut newer = Vec::new();
            for (layer, sequence) in layers.iter().zip(first..).collect::<Vec<_>>().into_iter().rev() {
                if let Some(entry) = layer.messages.get(&key[..]) {
                    newer.push(Message {
                        sequence,
                        ..entry.message()
                    });
                } else if layer.deleted.iter().any(|range| range.contains(key)) {
                    newer.push(Message::delete(sequence));
                }
            }
            self.put_before(key, &newer, &rule)
        });
        if let Err(error) = applied {
            // Part of the ingest is in the pages but in no memtable, so only reopening the store
            // restores the state before it.
            let cause = error.to_string();
            return match is_begun.get() {
                false => Err(error),
                true => self
                    .shared
                    .home
                    .store
                    .poison_on_error(Err(Error::Poisoned { cause })),
            };
        }
        self.raise(first + (layers.len() as u64).max(1) - 1);
        Ok(())
    }
}

impl contract::MaintenanceStep for PagedRewrite {
    fn poll(&mut self, records: usize) -> Result<StepProgress> {
        let paged = self.paged.clone();
        let mut writer = paged.shared.writer.lock();
        if writer.stopped.is_some() {
            // A failed change has left messages above the cut, and must be applied again first
            // (PV3).
            return Ok(StepProgress::More);
        }
        let range = KeyRange::new(&self.at, None);
        let most = records.clamp(SLICE, 64 * SLICE);
        let keys = paged.poison_on_error(paged.keys_within(&range, most))?;
        let rule = paged.shared.home.horizon.rule(OlderData::None);
        let filters = self.filters;
        paged.in_slices(&mut writer, &keys, |key| {
            let older = paged.older(key)?;
            let messages: Vec<Message<'_>> = older.iter().map(PagedEntry::message).collect();
            let left = paged.folded(key, &messages, &rule, filters);
            match left == older {
                true => Ok(()),
                false => paged.keep(key, &left),
            }
        })?;
        let next = match keys.last() {
            Some(last) if keys.len() == most => Some([&last[..], &[0]].concat()),
            _ => None,
        };
        // A replaced value is freed only when the message that replaces it has reached the leaf.
        paged.settle(&mut writer, &self.at, next.as_deref())?;
        match next {
            Some(next) => {
                self.at = next;
                Ok(StepProgress::More)
            }
            None => Ok(StepProgress::Done),
        }
    }

    fn number(&self) -> Option<u64> {
        None
    }
}
