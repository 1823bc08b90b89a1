//! Lookups in layers.

use super::{Layer, Layers, Piece};
use alluvium_base::message::LAST;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::fetch::Blocking;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::record::Record;
use alluvium_dictionary::values::fetch_value;
use alluvium_storage::store::Store;
use alluvium_storage::{Guard, Result};
use std::task::Poll;

impl Layers {
    /// Hands what ended layers say of a key to `gather`, newest first. Layer `n` has the sequence
    /// number `n + 1` there.
    ///
    /// # Errors
    /// As the device says; damage.
    pub(crate) fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        let store = &self.how.store;
        let deleted = self.deletes.covering(key.bytes(), LAST);
        gather.range_deleted(deleted);
        let guard = store.epochs().pin();
        for (sequence, layer) in (1..=self.len()).rev().zip(self.layers.iter().rev()) {
            if gather.is_decided() || deleted > Some(sequence) {
                break;
            }
            for piece in layer.pieces_at(key.bytes()) {
                piece.gather(key, sequence, store, &guard, gather)?;
            }
        }
        gather.end_at(deleted);
        Ok(())
    }
}

/// Hands a record to `gather`, as one of a layer with a number.
pub(super) fn hand_over(
    record: Record<'_>,
    sequence: Sequence,
    from: &Blocking<'_>,
    gather: &mut Gather<'_>,
) -> Poll<Result<std::ops::ControlFlow<()>>> {
    let record = Record { sequence, ..record };
    let operator = gather.operator;
    gather.known.record(&record, operator, |pointer, room| {
        fetch_value(from, pointer, room)
    })
}

impl Layer {
    /// Returns the runs that a key may be in: one at most has it (Y2). There are several only where
    /// keys are long and begin alike, because bounds of runs are rounded then.
    fn pieces_at(&self, key: &[u8]) -> impl Iterator<Item = &Piece> {
        let behind = self.pieces.partition_point(|piece| piece.built.run.low() <= key);
        let before = self.pieces[..behind].iter().rev();
        before.take_while(move |piece| key <= piece.built.run.high())
    }
}

impl Piece {
    fn gather(
        &self,
        key: Key<'_>,
        sequence: Sequence,
        store: &Store,
        guard: &Guard,
        gather: &mut Gather<'_>,
    ) -> Result<()> {
        let cache = store.cache();
        let hits = self.maplet.maplet.lookup(key.hash(), cache, guard)?;
        if hits.as_slice().is_empty() {
            return Ok(());
        }
        let from = Blocking {
            cache,
            guard,
            purpose: Purpose::Lookup,
        };
        let run = &self.built.run;
        run.find(key.bytes(), LAST, cache, guard, Purpose::Lookup, |record| {
            alluvium_dictionary::fetch::found(hand_over(record, sequence, &from, gather))
        })
    }
}
