//! Point reads: memtables newest first, then the tree.

use super::Engine;
use crate::Result;
use alluvium_base::Sequence;
use alluvium_base::message::LAST;
use alluvium_trees::merge::Operator;
use alluvium_trees::tiered::{Answer, Gather};

/// Where a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// At what everybody sees when he begins.
    Now,
    /// At a place that is kept for him.
    Kept(Sequence),
    /// At whatever is in the memtables: for a writer who holds the locks of the keys that he reads.
    Newest,
}

impl Engine {
    /// The value of a key of the tree.
    pub(crate) fn get(&self, key: &[u8], operator: Option<&dyn Operator>, at: At) -> Result<Answer> {
        let now_ms = self.now_ms();
        loop {
            let place = self.place(at);
            let mut gather = Gather::new(place, now_ms, operator);
            let slots = self.queue.slots();
            let mut reader = self.tree.reader();
            self.is_open()?;
            if self.is_forgotten(at, place) {
                continue;
            }
            for slot in slots.iter().filter(|slot| slot.base() >= reader.cut()) {
                gather.range_deleted(slot.memtable.range_deleted(key, place));
                for message in slot.memtable.get(key, place) {
                    if gather.message(&message).is_break() {
                        break;
                    }
                }
                if gather.is_decided() {
                    return Ok(gather.finish());
                }
            }
            reader.gather(key, &mut gather)?;
            return Ok(gather.finish());
        }
    }

    /// The values of many keys of the tree, each with its merge operator, in their order.
    pub(crate) fn multi_get(&self, keys: &[(&[u8], Option<&dyn Operator>)], at: At) -> Result<Vec<Answer>> {
        let now_ms = self.now_ms();
        loop {
            let place = self.place(at);
            let slots = self.queue.slots();
            let mut reader = self.tree.reader();
            self.is_open()?;
            if self.is_forgotten(at, place) {
                continue;
            }
            let mut gathers: Vec<Gather<'_>> = keys
                .iter()
                .map(|(_, operator)| Gather::new(place, now_ms, *operator))
                .collect();
            for slot in slots.iter().filter(|slot| slot.base() >= reader.cut()) {
                for ((key, _), gather) in keys.iter().zip(&mut gathers) {
                    if gather.is_decided() {
                        continue;
                    }
                    gather.range_deleted(slot.memtable.range_deleted(key, place));
                    for message in slot.memtable.get(key, place) {
                        if gather.message(&message).is_break() {
                            break;
                        }
                    }
                }
            }
            let names: Vec<&[u8]> = keys.iter().map(|(key, _)| *key).collect();
            reader.gather_many(&names, &mut gathers)?;
            return Ok(gathers.into_iter().map(Gather::finish).collect());
        }
    }

    fn place(&self, at: At) -> Sequence {
        match at {
            At::Now => self.visible.at(),
            At::Kept(place) => place,
            At::Newest => LAST,
        }
    }

    /// Whether what the reader took a place for may have been folded away since: somebody has begun to fold up to a later place (E3). He
    /// takes a new one, then. A place that is kept is never forgotten.
    fn is_forgotten(&self, at: At, place: Sequence) -> bool {
        at == At::Now && self.tree.horizon().sequence() > place
    }
}
