//! Point lookups: memtables newest first, then the record cache, then the keyspace's dictionary.
//!
//! *Scope*: the order in which a key's messages are searched, the sequence number of the read, and
//! which answers the record cache may keep.
//!
//! *Must not depend on*: how a dictionary finds a key, and who waits for the device.
//!
//! # One lookup
//!
//! Every lookup takes the same steps, whether blocking or polled. [`Engine::begin`] runs the first
//! two, [`Engine::finish`] the last.
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
//! A key is hashed once, when its lookup begins. Memtables, record cache and dictionary use this
//! hash.

mod blocking;
mod polled;

pub(crate) use polled::PolledRead;

use super::Engine;
use super::queue::MemtableSlot;
use crate::error::Result;
use alluvium_base::SequenceNumber;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::pinned_value::PinnedValue;
use alluvium_dictionary::rules::KeyspaceRules;
use std::sync::Arc;

/// The read position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPosition {
    /// The newest visible commit when the read begins.
    Now,
    /// A sequence number that is pinned for the reader.
    Pinned(SequenceNumber),
    /// Everything in the memtables: for a writer that holds the locks of the keys that it reads.
    Newest,
}

/// The sequence number and the time of a lookup.
#[derive(Clone, Copy, Debug)]
struct ReadView {
    at: ReadPosition,
    /// The newest commit that it sees.
    sequence: SequenceNumber,
    /// Puts that expire at or before this time are invisible, in milliseconds since 1970.
    now_ms: u64,
}

impl ReadView {
    /// Returns the same read view with another clock.
    fn by_clock(self, now_ms: u64) -> ReadView {
        ReadView { now_ms, ..self }
    }
}

impl Engine {
    /// Returns the view of a read that begins now.
    fn moment(&self, at: ReadPosition) -> ReadView {
        let sequence = match at {
            ReadPosition::Now => self.visible.at(),
            ReadPosition::Pinned(sequence) => sequence,
            ReadPosition::Newest => MAX_SEQUENCE,
        };
        ReadView {
            at,
            sequence,
            now_ms: self.now_ms(),
        }
    }

    /// Returns whether versions that the reader needs may have been dropped since: a compaction has
    /// begun to merge versions up to a later sequence number (E3). The reader must then take a new
    /// view. This cannot happen to pinned sequence numbers.
    fn is_forgotten(&self, moment: &ReadView) -> bool {
        moment.at == ReadPosition::Now && self.dictionaries.horizon().sequence() > moment.sequence
    }

    /// Feeds a lookup from the memtables and the record cache. Skips the memtables that are already
    /// in the dictionary's state, according to its `cut`. Returns whether the dictionary's answer
    /// shall be offered to the record cache.
    #[inline]
    fn begin(
        &self,
        gather: &mut LookupState<'_>,
        key: LookupKey<'_>,
        moment: &ReadView,
        slots: &[Arc<MemtableSlot>],
        cut: SequenceNumber,
        rules: &KeyspaceRules,
    ) -> bool {
        for slot in slots.iter().filter(|slot| slot.base() >= cut) {
            gather.memtable(&slot.memtable, key);
            if gather.is_decided() {
                return false;
            }
        }
        // The record cache answers only readers of the latest version. It keeps no records of
        // keyspaces with a compaction filter, because these change without commits.
        if moment.at != ReadPosition::Now || rules.filter.is_some() {
            return false;
        }
        // The sequence number up to which there are no further messages of the key above the
        // dictionary's state. If merges were found, this is the end of that state.
        let is_untouched = gather.is_untouched();
        let seen = match is_untouched {
            true => moment.sequence,
            false => moment.sequence.min(cut),
        };
        let is_cached = gather.cached(|value| self.records.get(key, seen, value));
        is_untouched && !is_cached
    }

    /// Returns the answer of a completed lookup, and offers it to the record cache if `offers`.
    /// `reads` is the number of nodes that the lookup has waited for, if it is known for this
    /// lookup alone.
    #[inline]
    fn finish(
        &self,
        gather: LookupState<'_>,
        offers: bool,
        key: LookupKey<'_>,
        moment: &ReadView,
        reads: Option<u64>,
    ) -> Result<Option<PinnedValue>> {
        let offers = offers && !gather.expires() && !gather.leaves_out_long_values();
        let answer = gather
            .found()
            .map_err(|bad| self.catalog.named(bad.under_operands_of(key.bytes())))?;
        if let Some(value) = answer.as_ref().filter(|value| offers && !value.is_in_page()) {
            self.records.offer(key, value, moment.sequence);
        }
        let found = answer.as_deref().map(<[u8]>::len);
        if let Some(reads) = reads {
            self.counters.looked_up(found.is_some(), reads);
        }
        self.workload_monitor.looked_up(key, found, moment.now_ms);
        Ok(answer)
    }
}
