//! Point lookups. A lookup searches the memtables from newest to oldest, then the record cache, and
//! then the keyspace's dictionary.
//!
//! *Scope*: the order in which a lookup searches the messages of a key, the sequence number at
//! which it reads, and which results the record cache may keep.
//!
//! *Must not depend on*: how a dictionary finds a key, and who waits for the device.
//!
//! # One lookup
//!
//! Blocking and polled lookups perform the same steps. [`Engine::begin`] performs the steps
//! `memtables` and `records`, and [`Engine::finish`] performs the steps `offer` and `answer`.
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
//! Each key is hashed once, when its lookup begins. The memtables, the record cache and the
//! dictionary all use that hash.

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

/// The sequence number at which a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPosition {
    /// Reads as of the newest commit that is visible when the read begins.
    Now,
    /// Reads as of a sequence number that is pinned for the reader.
    Pinned(SequenceNumber),
    /// Reads everything in the memtables, including commits that are not visible yet. Used by
    /// writers that hold the locks of the keys that they read.
    Newest,
}

/// The sequence number and the time as of which a lookup reads.
#[derive(Clone, Copy, Debug)]
struct ReadView {
    at: ReadPosition,
    /// Sequence number of the newest commit that the lookup sees.
    sequence: SequenceNumber,
    /// Time of the read, in milliseconds since 1970. Values that expire at or before this time are
    /// ignored.
    now_ms: u64,
}

impl ReadView {
    /// Returns the same read view, but at time `now_ms`, in milliseconds since 1970.
    fn by_clock(self, now_ms: u64) -> ReadView {
        ReadView { now_ms, ..self }
    }
}

impl Engine {
    /// Returns the view of a read that begins now at the read position `at`.
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

    /// Returns whether versions that this reader needs may have been discarded since it took its
    /// view, because a compaction has begun to merge versions up to a later sequence number (E3).
    /// The reader must then take a new view. This cannot happen to a reader at a pinned sequence
    /// number.
    fn is_forgotten(&self, moment: &ReadView) -> bool {
        moment.at == ReadPosition::Now && self.dictionaries.horizon().sequence() > moment.sequence
    }

    /// Searches the memtables and the record cache for a key. Skips memtables whose commits the
    /// dictionary already contains, according to its `cut`. Returns whether to offer the value
    /// found in the dictionary to the record cache.
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
        // The record cache can serve only readers of the latest version. It does not cache
        // keyspaces with a compaction filter, because the filter changes records without a commit.
        if moment.at != ReadPosition::Now || rules.filter.is_some() {
            return false;
        }
        // The memtables contain no other message for this key up to this sequence number. If they
        // contain merge operands for the key, this holds only up to the dictionary's `cut`.
        let is_untouched = gather.is_untouched();
        let seen = match is_untouched {
            true => moment.sequence,
            false => moment.sequence.min(cut),
        };
        let is_cached = gather.cached(|value| self.records.get(key, seen, value));
        is_untouched && !is_cached
    }

    /// Returns the result of a completed lookup, and offers it to the record cache if `offers` is
    /// true. `reads` is the number of nodes that the lookup waited for, or `None` if it is not
    /// known for this key alone.
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
