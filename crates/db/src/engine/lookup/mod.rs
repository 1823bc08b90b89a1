//! Point lookups: memtables newest first, then the record cache, then the keyspace's dictionary.
//!
//! *Knows*: in which order a key's messages are asked for, at which sequence number, and which
//! answers the record cache may keep.
//!
//! *Does not know*: how a dictionary finds a key, and who waits for the device.
//!
//! *Read in this order*: this file (the steps), `waiting.rs` (lookups that wait for the device, one
//! or many), `polled.rs` (lookups that do not).
//!
//! # One lookup
//!
//! Every lookup takes the same steps, whatever drives it. [`Engine::begin`] takes the first two,
//! [`Engine::finish`] the last.
//!
//! ```text
//!   moment      the sequence number, the list of memtables, the dictionary's state: in this order (E2)
//!   memtables   newest first                                   decided -> answer
//!   records     the record cache, for readers of the newest    hit     -> answer
//!   dictionary  waits, or is polled until it is decided        decided -> offer, answer
//!   offer       the record cache may keep the value
//!   answer      operands are folded
//! ```
//!
//! A key is hashed once, when its lookup begins; memtables, record cache and dictionary take its
//! hash from there.

mod polled;
mod waiting;

pub(crate) use polled::Polled;

use super::Engine;
use super::queue::Slot;
use crate::Result;
use alluvium_base::Sequence;
use alluvium_base::message::LAST;
use alluvium_dictionary::found::Found;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::rules::KeyspaceRules;
use std::sync::Arc;

/// Where a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// At what is visible when the read begins.
    Now,
    /// At a sequence number that is pinned for the reader.
    Kept(Sequence),
    /// At whatever is in the memtables: for a writer that holds the locks of the keys that it
    /// reads.
    Newest,
}

/// As of when a lookup reads.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: At,
    /// The newest commit that it sees.
    sequence: Sequence,
    /// Puts that expire at or before this time are gone, in milliseconds since 1970.
    now_ms: u64,
}

impl Moment {
    /// The same moment by another clock.
    fn by_clock(self, now_ms: u64) -> Moment {
        Moment { now_ms, ..self }
    }
}

impl Engine {
    /// Returns the moment at which a read begins now.
    fn moment(&self, at: At) -> Moment {
        let sequence = match at {
            At::Now => self.visible.at(),
            At::Kept(sequence) => sequence,
            At::Newest => LAST,
        };
        Moment {
            at,
            sequence,
            now_ms: self.now_ms(),
        }
    }

    /// Returns whether what the reader needs may have been folded away since: a compaction has
    /// begun to fold up to a later sequence number (E3). Then the reader takes a new moment. What
    /// is pinned is never forgotten.
    fn is_forgotten(&self, moment: &Moment) -> bool {
        moment.at == At::Now && self.dictionaries.horizon().sequence() > moment.sequence
    }

    /// Feeds a lookup with what memtables and the record cache say. The memtables that the
    /// dictionary's state has, by its `cut`, are left out. Returns whether the record cache is to
    /// be offered what the dictionary says.
    #[inline]
    fn begin(
        &self,
        gather: &mut Gather<'_>,
        key: Key<'_>,
        moment: &Moment,
        slots: &[Arc<Slot>],
        cut: Sequence,
        rules: &KeyspaceRules,
    ) -> bool {
        for slot in slots.iter().filter(|slot| slot.base() >= cut) {
            gather.memtable(&slot.memtable, key);
            if gather.is_decided() {
                return false;
            }
        }
        // What the dictionary says of other keys, or to other readers, changes without commits.
        if moment.at != At::Now || rules.filter.is_some() {
            return false;
        }
        // Up to where there is nothing more about the key above the dictionary's state: to the end
        // of that state, if something was found that older messages are folded into.
        let is_untouched = gather.is_untouched();
        let seen = match is_untouched {
            true => moment.sequence,
            false => moment.sequence.min(cut),
        };
        let is_cached = gather.cached(|value| self.records.get(key, seen, value));
        is_untouched && !is_cached
    }

    /// Returns the answer of a lookup that is decided or has no more to be fed, and offers it to
    /// the record cache if `offers`. `reads` says for how many nodes the lookup has waited, if that
    /// is known of it alone.
    #[inline]
    fn finish(
        &self,
        gather: Gather<'_>,
        offers: bool,
        key: Key<'_>,
        moment: &Moment,
        reads: Option<u64>,
    ) -> Result<Option<Found>> {
        let offers = offers && !gather.expires() && !gather.leaves_out_long_values();
        let answer = gather
            .found()
            .map_err(|bad| self.catalog.named(bad.under_operands_of(key.bytes())))?;
        if let Some(value) = answer.as_ref().filter(|value| offers && !value.is_in_page()) {
            self.records.offer(key, value, moment.sequence);
        }
        let found = answer.as_deref().map(<[u8]>::len);
        if let Some(reads) = reads {
            self.tallies.looked_up(found.is_some(), reads);
        }
        self.watches.looked_up(key, found, moment.now_ms);
        Ok(answer)
    }
}
