//! Point lookups that wait for the device: one key, and many.

use super::{At, Begun, Moment};
use crate::Result;
use crate::catalog::Definition;
use crate::engine::Engine;
use crate::engine::queue::Slot;
use crate::engine::readers::Reader;
use crate::format::TreeKey;
use alluvium_dictionary::contract::Reader as _;
use alluvium_dictionary::found::Found;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use smallvec::SmallVec;
use std::sync::Arc;

/// How many keys of a batch the processor is asked for before they are looked up.
const AHEAD: usize = 8;

impl Engine {
    /// Returns the value of a key of this keyspace.
    pub(crate) fn get(&self, key: &[u8], definition: &Definition, at: At) -> Result<Option<Found>> {
        let key = Key::new(key);
        let rules = &definition.rules;
        loop {
            let moment = self.moment(at);
            let slots = self.queue.slots();
            let reader = self.dictionaries.reader(definition.structure);
            self.is_open()?;
            if self.is_forgotten(&moment) {
                continue;
            }
            let gather = Gather::new(moment.sequence, moment.now_ms, rules.operator.as_deref());
            let mut begun = self.begin(gather.holding(), key, &moment, &slots, reader.cut(), rules);
            reader.gather(key, &mut begun.gather)?;
            return self.finish(begun, key, &moment);
        }
    }

    /// Returns the values of many keys of this keyspace, in their order.
    pub(crate) fn multi_get(
        &self,
        keys: &[TreeKey],
        definition: &Definition,
        at: At,
    ) -> Result<Vec<Option<Found>>> {
        let gather = |reader: &Reader<'_>, keys: &[Key<'_>], gathers: &mut [Gather<'_>]| {
            reader.gather_many(keys, gathers)?;
            Ok(true)
        };
        let found = self.read_many(keys, definition, at, gather)?;
        Ok(found.expect("everything is found where the device is waited for"))
    }

    /// As [`Engine::multi_get`] if none of the keys needs the device; `None` otherwise.
    pub(crate) fn multi_get_in_memory(
        &self,
        keys: &[TreeKey],
        definition: &Definition,
        at: At,
    ) -> Result<Option<Vec<Option<Found>>>> {
        let gather = |reader: &Reader<'_>, keys: &[Key<'_>], gathers: &mut [Gather<'_>]| {
            Ok(reader.gather_many_in_memory(keys, gathers)?)
        };
        self.read_many(keys, definition, at, gather)
    }

    /// Reads many keys. `gather` asks the dictionary, and returns whether everything was found.
    fn read_many(
        &self,
        keys: &[TreeKey],
        definition: &Definition,
        at: At,
        gather: impl Fn(&Reader<'_>, &[Key<'_>], &mut [Gather<'_>]) -> Result<bool>,
    ) -> Result<Option<Vec<Option<Found>>>> {
        loop {
            let moment = self.moment(at);
            let slots = self.queue.slots();
            let reader = self.dictionaries.reader(definition.structure);
            self.is_open()?;
            if self.is_forgotten(&moment) {
                continue;
            }
            let (keys, begun) = self.begin_many(keys, &moment, &slots, &reader, definition);
            let offers: SmallVec<[bool; 64]> = begun.iter().map(|one| one.offers).collect();
            let mut gathers: Vec<Gather<'_>> = begun.into_iter().map(|one| one.gather).collect();
            if !gather(&reader, &keys, &mut gathers)? {
                return Ok(None);
            }
            let begun = gathers.into_iter().zip(offers);
            let begun = begun.map(|(gather, offers)| Begun { gather, offers });
            let answers = begun
                .zip(keys)
                .map(|(begun, key)| self.finish(begun, key, &moment));
            return answers.collect::<Result<_>>().map(Some);
        }
    }

    /// Hashes keys and begins their lookups. While it feeds one, the processor brings what others
    /// need.
    fn begin_many<'k, 'op>(
        &self,
        names: &'k [TreeKey],
        moment: &Moment,
        slots: &[Arc<Slot>],
        reader: &Reader<'_>,
        definition: &'op Definition,
    ) -> (SmallVec<[Key<'k>; 64]>, Vec<Begun<'op>>) {
        let (cut, rules) = (reader.cut(), &definition.rules);
        let above: SmallVec<[_; 4]> = slots.iter().filter(|slot| slot.base() >= cut).collect();
        let mut keys: SmallVec<[Key<'k>; 64]> = SmallVec::new();
        let mut begun = Vec::with_capacity(names.len());
        for index in 0..names.len() + AHEAD {
            // What a key needs first, what another needs next, and what has been brought meanwhile.
            if let Some(name) = names.get(index) {
                let key = Key::new(name);
                above.iter().for_each(|slot| slot.memtable.prefetch(key));
                self.records.prefetch(key);
                keys.push(key);
            }
            if let Some(&next) = index.checked_sub(AHEAD / 2).and_then(|next| keys.get(next)) {
                above.iter().for_each(|slot| slot.memtable.prefetch_leaf(next));
                self.records.prefetch_record(next);
            }
            if let Some(&ready) = index.checked_sub(AHEAD).and_then(|ready| keys.get(ready)) {
                let operator = rules.operator.as_deref();
                let gather = Gather::new(moment.sequence, moment.now_ms, operator).holding();
                begun.push(self.begin(gather, ready, moment, slots, cut, rules));
            }
        }
        (keys, begun)
    }
}
