//! Point reads: memtables newest first, then the record cache, then the tree.

use super::Engine;
use super::readers::Reader;
use crate::Result;
use crate::catalog::Definition;
use crate::format::TreeKey;
use alluvium_base::message::LAST;
use alluvium_base::{Message, Sequence};
use alluvium_dictionary::contract::Reader as _;
use alluvium_dictionary::found::Found;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::rules::KeyspaceRules;
use smallvec::SmallVec;

/// How many keys of a batch the processor is asked for before they are looked up.
const AHEAD: usize = 8;

/// Where a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// At what is visible when the read begins.
    Now,
    /// At a place that is pinned for the reader.
    Kept(Sequence),
    /// At whatever is in the memtables: for a writer that holds the locks of the keys that it
    /// reads.
    Newest,
}

impl Engine {
    /// The value of a key of this keyspace.
    pub(crate) fn get(&self, key: &[u8], definition: &Definition, at: At) -> Result<Option<Found>> {
        let rules = &definition.rules;
        let now_ms = self.now_ms();
        loop {
            let place = self.place(at);
            let mut gather = Gather::new(place, now_ms, rules.operator.as_deref()).holding();
            let slots = self.queue.slots();
            let mut reader = self.dictionaries.reader(definition.structure);
            self.is_open()?;
            if self.is_forgotten(at, place) {
                continue;
            }
            for slot in slots.iter().filter(|slot| slot.base() >= reader.cut()) {
                gather.memtable(&slot.memtable, key);
                if gather.is_decided() {
                    return self.answer(gather, key);
                }
            }
            let asks = is_kept(rules, at);
            let is_untouched = gather.is_untouched();
            let mut value = Vec::new();
            if asks
                && self
                    .records
                    .get(key, seen(&gather, place, reader.cut()), &mut value)
            {
                if is_untouched {
                    return Ok(Some(value.into()));
                }
                // What the tree says is older than all that memtables say.
                let _ = gather.message(&Message::put(0, &value));
                return self.answer(gather, key);
            }
            reader.gather(key, &mut gather)?;
            let offers = asks && is_untouched && !gather.expires();
            let answer = self.answer(gather, key)?;
            if let Some(value) = answer.as_ref().filter(|value| offers && !value.is_in_page()) {
                self.records.offer(key, value, place);
            }
            return Ok(answer);
        }
    }

    /// The values of many keys of this keyspace, in their order.
    pub(crate) fn multi_get(
        &self,
        keys: &[TreeKey],
        definition: &Definition,
        at: At,
    ) -> Result<Vec<Option<Found>>> {
        let gather = |reader: &mut Reader<'_>, keys: &[&[u8]], gathers: &mut [Gather<'_>]| {
            reader.gather_many(keys, gathers)?;
            Ok(true)
        };
        let found = self.read_many(keys, definition, at, gather)?;
        Ok(found.expect("everything is found where the device is waited for"))
    }

    /// The same if none of them needs the device; none otherwise.
    pub(crate) fn multi_get_in_memory(
        &self,
        keys: &[TreeKey],
        definition: &Definition,
        at: At,
    ) -> Result<Option<Vec<Option<Found>>>> {
        let gather = |reader: &mut Reader<'_>, keys: &[&[u8]], gathers: &mut [Gather<'_>]| {
            Ok(reader.gather_many_in_memory(keys, gathers)?)
        };
        self.read_many(keys, definition, at, gather)
    }

    /// Reads many keys, with what the tree says by `gather`, if that has found everything.
    fn read_many(
        &self,
        keys: &[TreeKey],
        definition: &Definition,
        at: At,
        gather: impl Fn(&mut Reader<'_>, &[&[u8]], &mut [Gather<'_>]) -> Result<bool>,
    ) -> Result<Option<Vec<Option<Found>>>> {
        let rules = &definition.rules;
        let now_ms = self.now_ms();
        loop {
            let place = self.place(at);
            let slots = self.queue.slots();
            let mut reader = self.dictionaries.reader(definition.structure);
            self.is_open()?;
            if self.is_forgotten(at, place) {
                continue;
            }
            let cut = reader.cut();
            let slots: SmallVec<[_; 4]> = slots.iter().filter(|slot| slot.base() >= cut).collect();
            let mut gathers = Vec::with_capacity(keys.len());
            let mut missed: SmallVec<[usize; 64]> = SmallVec::new();
            let mut hashes: SmallVec<[u64; 64]> = SmallVec::new();
            let mut value = Vec::new();
            for key in 0..keys.len() + AHEAD {
                // What a key needs first, what another needs next, and what has been brought
                // meanwhile.
                if let Some(first) = keys.get(key) {
                    slots.iter().for_each(|slot| slot.memtable.prefetch(first));
                    hashes.push(self.records.prefetch(first));
                }
                if let Some(next) = key.checked_sub(AHEAD / 2)
                    && let (Some(&hash), Some(next)) = (hashes.get(next), keys.get(next))
                {
                    slots.iter().for_each(|slot| slot.memtable.prefetch_leaf(next));
                    self.records.prefetch_record(hash);
                }
                let Some(key) = key.checked_sub(AHEAD).map(|ready| &keys[ready]) else {
                    continue;
                };
                let mut gather = Gather::new(place, now_ms, rules.operator.as_deref()).holding();
                slots.iter().for_each(|slot| gather.memtable(&slot.memtable, key));
                if !gather.is_decided() && is_kept(rules, at) {
                    value.clear();
                    if self.records.get(key, seen(&gather, place, cut), &mut value) {
                        let _ = gather.message(&Message::put(0, &value));
                    } else if gather.is_untouched() {
                        missed.push(gathers.len());
                    }
                }
                gathers.push(gather);
            }
            let names: SmallVec<[&[u8]; 64]> = keys.iter().map(|key| &key[..]).collect();
            if !gather(&mut reader, &names, &mut gathers)? {
                return Ok(None);
            }
            missed.retain(|&mut index| !gathers[index].expires());
            let answers = gathers.into_iter().zip(keys);
            let answers: Vec<Option<Found>> = answers
                .map(|(gather, key)| self.answer(gather, key))
                .collect::<Result<_>>()?;
            for index in missed {
                if let Some(value) = answers[index].as_ref().filter(|value| !value.is_in_page()) {
                    self.records.offer(names[index], value, place);
                }
            }
            return Ok(Some(answers));
        }
    }

    /// What was found of a key.
    pub(super) fn answer(&self, gather: Gather<'_>, key: &[u8]) -> Result<Option<Found>> {
        gather
            .found()
            .map_err(|bad| self.catalog.named(bad.under_operands_of(key)))
    }

    pub(super) fn place(&self, at: At) -> Sequence {
        match at {
            At::Now => self.visible.at(),
            At::Kept(place) => place,
            At::Newest => LAST,
        }
    }

    /// Returns whether what the reader needs at its place may have been folded away since: a
    /// compaction has begun to fold up to a later place (E3). Then the reader takes a new place. A
    /// place that is pinned is never forgotten.
    pub(super) fn is_forgotten(&self, at: At, place: Sequence) -> bool {
        at == At::Now && self.dictionaries.horizon().sequence() > place
    }
}

/// Whether what the tree says about a keyspace's keys changes by commits only, for a reader of the
/// latest version.
pub(super) fn is_kept(rules: &KeyspaceRules, at: At) -> bool {
    at == At::Now && rules.filter.is_none()
}

/// Returns up to where the reader has found, in memtables, all there is about the key above its
/// version. That is its place when it found nothing, and its version's end when it found something
/// that older messages are folded into.
pub(super) fn seen(gather: &Gather<'_>, place: Sequence, cut: Sequence) -> Sequence {
    if gather.is_untouched() {
        place
    } else {
        place.min(cut)
    }
}
