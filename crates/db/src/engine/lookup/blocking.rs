//! Blocking point lookups of a single key or of a batch of keys.

use super::{ReadPosition, ReadView};
use crate::engine::Engine;
use crate::engine::queue::MemtableSlot;
use crate::engine::readers::StructureReader;
use crate::error::Result;
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format::TreeKey;
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::contract::LookupReader as _;
use alluvium_dictionary::fetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::MergeOperator;
use alluvium_dictionary::pinned_value::PinnedValue;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// Number of keys by which a batch's prefetches run ahead of its lookups.
const AHEAD: usize = 8;

/// A batch of lookups that have already searched the memtables and the record cache.
struct LookupBatch<'k, 'op> {
    keys: SmallVec<[LookupKey<'k>; 64]>,
    gathers: Vec<LookupState<'op>>,
    /// For each key, whether to offer the value found in the dictionary to the record cache.
    offers: SmallVec<[bool; 64]>,
}

/// Creates the state of a lookup that has not searched anything yet.
fn gather_of<'op>(
    moment: &ReadView,
    operator: Option<&'op dyn MergeOperator>,
    long_values: LongValues,
) -> LookupState<'op> {
    let gather = LookupState::new(moment.sequence, moment.now_ms, operator).holding();
    let gather = match moment.at {
        ReadPosition::Now | ReadPosition::Pinned(_) => gather.remembering_folds(),
        // It sees commits that are not visible yet, and none of those before them that will be.
        ReadPosition::Newest => gather,
    };
    match long_values {
        LongValues::Read => gather,
        LongValues::LeftOut => gather.leaving_out_long_values(),
    }
}

impl Engine {
    /// Returns the value of a key, or `None` if the keyspace has no value for it.
    pub(crate) fn get(
        &self,
        key: &[u8],
        definition: &KeyspaceDefinition,
        at: ReadPosition,
    ) -> Result<Option<PinnedValue>> {
        self.get_with(key, definition, LongValues::Read, || self.moment(at), |_| {})
    }

    /// Like [`Engine::get`], but also returns the time, in milliseconds since 1970, from which on
    /// the key has no value unless something is written to it, or 0 if it keeps its value.
    pub(crate) fn get_with_expiry(
        &self,
        key: &[u8],
        definition: &KeyspaceDefinition,
        at: ReadPosition,
    ) -> Result<Option<(PinnedValue, u64)>> {
        let ends_ms = Cell::new(0);
        let inspect = |gather: &LookupState<'_>| ends_ms.set(gather.known.ends_ms());
        let found = self.get_with(key, definition, LongValues::Read, || self.moment(at), inspect)?;
        Ok(found.map(|value| (value, ends_ms.get())))
    }

    /// Returns whether a key of the keyspace has a value.
    pub(crate) fn contains(
        &self,
        key: &[u8],
        definition: &KeyspaceDefinition,
        at: ReadPosition,
    ) -> Result<bool> {
        let moment = || self.moment(at);
        let found = self.get_with(key, definition, LongValues::LeftOut, moment, |_| {})?;
        Ok(found.is_some())
    }

    /// Like [`Engine::get`], but uses `now_ms` (milliseconds since 1970) instead of the current
    /// time to decide which entries have expired.
    pub(crate) fn get_by_clock(
        &self,
        key: &[u8],
        definition: &KeyspaceDefinition,
        long_values: LongValues,
        at: ReadPosition,
        now_ms: u64,
    ) -> Result<Option<PinnedValue>> {
        let moment = || self.moment(at).by_clock(now_ms);
        self.get_with(key, definition, long_values, moment, |_| {})
    }

    /// Returns the value of a key. Calls `inspect` with what was found before the value is
    /// computed.
    #[inline]
    fn get_with(
        &self,
        key: &[u8],
        definition: &KeyspaceDefinition,
        long_values: LongValues,
        moment: impl Fn() -> ReadView,
        inspect: impl Fn(&LookupState<'_>),
    ) -> Result<Option<PinnedValue>> {
        let key = LookupKey::new(key);
        let rules = &definition.rules;
        let before = fetch::waited();
        loop {
            let moment = moment();
            let slots = self.queue.slots();
            let reader = self.dictionaries.reader(definition.dictionary());
            self.is_open()?;
            if self.is_forgotten(&moment) {
                continue;
            }
            let operator = rules.operator.as_deref();
            let mut gather = gather_of(&moment, operator, long_values);
            let offers = self.begin(&mut gather, key, &moment, &slots, reader.cut(), rules);
            if !gather.is_decided() {
                reader.gather(key, &mut gather)?;
            }
            inspect(&gather);
            let reads = fetch::waited().wrapping_sub(before);
            return self.finish(gather, offers, key, &moment, Some(reads));
        }
    }

    /// Returns the values of many keys of a keyspace, in the order of `keys`.
    pub(crate) fn multi_get(
        &self,
        keys: &[TreeKey],
        definition: &KeyspaceDefinition,
        at: ReadPosition,
    ) -> Result<Vec<Option<PinnedValue>>> {
        let gather =
            |reader: &StructureReader<'_>, keys: &[LookupKey<'_>], gathers: &mut [LookupState<'_>]| {
                reader.gather_many(keys, gathers)?;
                Ok(true)
            };
        let moment = || self.moment(at);
        let found = self.read_many(keys, definition, LongValues::Read, moment, gather)?;
        Ok(found.expect("everything is found where the device is waited for"))
    }

    /// Like [`Engine::multi_get`], but does not read long values. Returns an empty value in place
    /// of each.
    pub(crate) fn multi_get_without_long_values(
        &self,
        keys: &[TreeKey],
        definition: &KeyspaceDefinition,
        at: ReadPosition,
    ) -> Result<Vec<Option<PinnedValue>>> {
        let gather =
            |reader: &StructureReader<'_>, keys: &[LookupKey<'_>], gathers: &mut [LookupState<'_>]| {
                reader.gather_many(keys, gathers)?;
                Ok(true)
            };
        let moment = || self.moment(at);
        let found = self.read_many(keys, definition, LongValues::LeftOut, moment, gather)?;
        Ok(found.expect("everything is found where the device is waited for"))
    }

    /// Like [`Engine::multi_get`], but uses `now_ms` (milliseconds since 1970) instead of the
    /// current time to decide which entries have expired.
    pub(crate) fn multi_get_by_clock(
        &self,
        keys: &[TreeKey],
        definition: &KeyspaceDefinition,
        at: ReadPosition,
        now_ms: u64,
    ) -> Result<Vec<Option<PinnedValue>>> {
        let gather =
            |reader: &StructureReader<'_>, keys: &[LookupKey<'_>], gathers: &mut [LookupState<'_>]| {
                reader.gather_many(keys, gathers)?;
                Ok(true)
            };
        let moment = || self.moment(at).by_clock(now_ms);
        let found = self.read_many(keys, definition, LongValues::Read, moment, gather)?;
        Ok(found.expect("everything is found where the device is waited for"))
    }

    /// Like [`Engine::multi_get`], but never reads from the device. Returns `None` if any key
    /// cannot be looked up from memory alone.
    pub(crate) fn multi_get_in_memory(
        &self,
        keys: &[TreeKey],
        definition: &KeyspaceDefinition,
        at: ReadPosition,
    ) -> Result<Option<Vec<Option<PinnedValue>>>> {
        let gather =
            |reader: &StructureReader<'_>, keys: &[LookupKey<'_>], gathers: &mut [LookupState<'_>]| {
                Ok(reader.gather_many_in_memory(keys, gathers)?)
            };
        let moment = || self.moment(at);
        self.read_many(keys, definition, LongValues::Read, moment, gather)
    }

    /// Reads many keys, using `gather` to search the dictionary for them. If `gather` returns
    /// false, the read is abandoned and returns `None`.
    fn read_many(
        &self,
        keys: &[TreeKey],
        definition: &KeyspaceDefinition,
        long_values: LongValues,
        moment: impl Fn() -> ReadView,
        gather: impl Fn(&StructureReader<'_>, &[LookupKey<'_>], &mut [LookupState<'_>]) -> Result<bool>,
    ) -> Result<Option<Vec<Option<PinnedValue>>>> {
        loop {
            let moment = moment();
            let slots = self.queue.slots();
            let reader = self.dictionaries.reader(definition.dictionary());
            self.is_open()?;
            if self.is_forgotten(&moment) {
                continue;
            }
            let LookupBatch {
                keys,
                mut gathers,
                offers,
            } = self.begin_many((keys, long_values), &moment, &slots, &reader, definition);
            if !gather(&reader, &keys, &mut gathers)? {
                return Ok(None);
            }
            let begun = gathers.into_iter().zip(offers).zip(keys);
            let answers =
                begun.map(|((gather, offers), key)| self.finish(gather, offers, key, &moment, None));
            return answers.collect::<Result<_>>().map(Some);
        }
    }

    /// Hashes the keys and searches the memtables and the record cache for each. While searching
    /// for one key, prefetches the memory that the following keys need.
    fn begin_many<'k, 'op>(
        &self,
        (names, long_values): (&'k [TreeKey], LongValues),
        moment: &ReadView,
        slots: &[Arc<MemtableSlot>],
        reader: &StructureReader<'_>,
        definition: &'op KeyspaceDefinition,
    ) -> LookupBatch<'k, 'op> {
        let (cut, rules) = (reader.cut(), &definition.rules);
        let above: SmallVec<[_; 4]> = slots.iter().filter(|slot| slot.base() >= cut).collect();
        let mut begun = LookupBatch {
            keys: SmallVec::new(),
            gathers: Vec::with_capacity(names.len()),
            offers: SmallVec::new(),
        };
        for index in 0..names.len() + AHEAD {
            // Each iteration works on three keys. It issues the first prefetch for a new key and
            // the second prefetch for an earlier key, and looks up a key whose memory has arrived.
            if let Some(name) = names.get(index) {
                let key = LookupKey::new(name);
                above.iter().for_each(|slot| slot.memtable.prefetch(key));
                self.records.prefetch(key);
                begun.keys.push(key);
            }
            if let Some(&next) = index.checked_sub(AHEAD / 2).and_then(|next| begun.keys.get(next)) {
                above.iter().for_each(|slot| slot.memtable.prefetch_leaf(next));
                self.records.prefetch_record(next);
            }
            if let Some(&ready) = index.checked_sub(AHEAD).and_then(|ready| begun.keys.get(ready)) {
                let operator = rules.operator.as_deref();
                let mut gather = gather_of(moment, operator, long_values);
                let offers = self.begin(&mut gather, ready, moment, slots, cut, rules);
                begun.gathers.push(gather);
                begun.offers.push(offers);
            }
        }
        begun
    }
}
