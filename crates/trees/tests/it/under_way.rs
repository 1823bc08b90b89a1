//! An unfinished ingest into a tree: layers of random messages, compared with a reference.

use crate::history::History;
use crate::world::Workload;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_dictionary::contract::BulkIngest as _;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::LayerIngest;
use alluvium_storage::Result;
use alluvium_trees::tiered::TieredTree;

/// An ingest and its expected contents. Layer `n` has the sequence number `n + 1`.
pub(crate) struct UnderWay {
    ingest: LayerIngest<TieredTree>,
    own: History,
}

impl UnderWay {
    pub(crate) fn new(ingest: LayerIngest<TieredTree>) -> UnderWay {
        UnderWay {
            ingest,
            own: History::default(),
        }
    }

    fn newest(&self) -> SequenceNumber {
        self.ingest.layers() + 1
    }

    /// Writes a layer with either random messages for keys from `key_of`, or a range delete.
    pub(crate) fn write_layer(
        &mut self,
        random: &mut fastrand::Rng,
        workload: &Workload,
        now_ms: u64,
        key_of: impl Fn(u32) -> Vec<u8>,
    ) -> Result<()> {
        let newest = self.newest();
        if random.u32(..8) == 0 {
            for _ in 0..random.u32(1..4) {
                let (one, other) = (random.u32(..workload.keys), random.u32(..workload.keys));
                let (start, end) = (key_of(one.min(other)), key_of(one.max(other)));
                self.ingest.delete_range(&start, &end);
                self.own.delete_range(&start, &end, newest);
            }
            return self.ingest.end_layer();
        }
        let stride = 1 + random.u32(..workload.keys.div_ceil(500));
        let mut number = random.u32(..workload.keys);
        for _ in 0..random.usize(..1500) {
            if number >= workload.keys {
                break;
            }
            let key = key_of(number);
            let draw = random.u32(..100);
            let kind = match draw {
                0..4 => MessageKind::TimedDelete,
                draw if draw < workload.deletes => MessageKind::Delete,
                draw if draw < workload.deletes + workload.merges => MessageKind::Merge,
                _ => MessageKind::Put,
            };
            let operand = match kind {
                MessageKind::Delete | MessageKind::TimedDelete => Vec::new(),
                MessageKind::Merge => vec![random.u8(..); 3],
                MessageKind::Put if random.u32(..1000) < workload.long_values => vec![random.u8(..); 20_000],
                MessageKind::Put => vec![random.u8(..); random.usize(..120)],
            };
            let expires_ms = match kind {
                MessageKind::Put if number.is_multiple_of(50) => now_ms + 100,
                MessageKind::TimedDelete => now_ms + 1 + u64::from(number % 200),
                _ => 0,
            };
            let message = Message {
                sequence: 0,
                kind,
                expires_ms,
                operand: &operand,
            };
            self.ingest.push(&key, message)?;
            self.own.add(&key, newest, kind, expires_ms, &operand);
            number += 1 + random.u32(..stride);
        }
        self.ingest.end_layer()
    }

    /// Drops some of the newest layers, or none.
    pub(crate) fn take_back(&mut self, random: &mut fastrand::Rng) {
        let layers = random.u64(..=self.ingest.layers());
        self.ingest.keep(layers);
        self.own.cut(layers);
    }

    /// Compares the messages for a key with the reference.
    pub(crate) fn compare(&self, key: &[u8], now_ms: u64) -> Result<()> {
        let mut gather = LookupState::new(MAX_SEQUENCE, now_ms, Some(&AppendOperator));
        self.ingest.gather(LookupKey::new(key), &mut gather)?;
        self.agrees(key, now_ms, gather);
        Ok(())
    }

    fn agrees(&self, key: &[u8], now_ms: u64, gather: LookupState<'_>) {
        let says_something = !gather.is_untouched();
        assert_eq!(says_something, self.own.touches(key), "{key:?}");
        assert_eq!(
            gather.finish(),
            self.own.read(key, MAX_SEQUENCE, now_ms),
            "{key:?}"
        );
    }

    /// Compares a walk over a range with the reference.
    pub(crate) fn compare_walk(
        &self,
        range: &KeyRange,
        direction: MergeDirection,
        now_ms: u64,
    ) -> Result<()> {
        let mut expected: Vec<Vec<u8>> = self.own.keys().filter(|key| range.contains(key)).collect();
        if direction == MergeDirection::Backward {
            expected.reverse();
        }
        let mut walk = self.ingest.walk(range, direction);
        for key in &expected {
            let mut gather = LookupState::new(MAX_SEQUENCE, now_ms, Some(&AppendOperator));
            assert_eq!(walk.next(&mut gather)?, Some(&key[..]));
            self.agrees(key, now_ms, gather);
            assert_eq!(walk.is_deleted(key), self.own.is_range_deleted(key));
        }
        assert_eq!(
            walk.next(&mut LookupState::new(MAX_SEQUENCE, now_ms, Some(&AppendOperator)))?,
            None
        );
        Ok(())
    }

    /// Attaches the ingest to its tree as the commits after `last`. Returns the number of commits.
    pub(crate) fn attach(self, last: SequenceNumber, history: &mut History) -> Result<u64> {
        let layers = self.ingest.layers();
        self.ingest.attach(last + 1)?;
        history.append(self.own, last);
        Ok(layers)
    }
}
