//! Looks up keys in the layers of an ingest.

use super::{IngestRunLayers, LayerRun};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::fetch::BlockingFetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::value_log::fetch_value;
use alluvium_storage::store::Store;
use alluvium_storage::{EpochGuard, Result};
use std::sync::Arc;
use std::task::Poll;

/// Passes the completed layers' messages for a key to `gather`, from newest to oldest. A message
/// gets its layer's number as its sequence number.
///
/// # Errors
/// I/O errors; an error if a run is damaged.
pub(crate) fn gather(
    layers: &IngestRunLayers,
    key: LookupKey<'_>,
    gather: &mut LookupState<'_>,
) -> Result<()> {
    let store = &layers.writer().how.store;
    gather_in(store, layers.layers().rev(), layers.deletes(), key, gather)
}

/// Like [`gather`], but for the given layers, newest first, and their range deletes.
pub(super) fn gather_in<'l>(
    store: &Store,
    layers: impl Iterator<Item = (SequenceNumber, &'l [Arc<LayerRun>])>,
    deletes: &RangeTombstoneIndex,
    key: LookupKey<'_>,
    gather: &mut LookupState<'_>,
) -> Result<()> {
    let deleted = deletes.covering(key.bytes(), MAX_SEQUENCE);
    gather.range_deleted(deleted);
    let guard = store.epochs().pin();
    for (sequence, pieces) in layers {
        if gather.is_decided() || deleted > Some(sequence) {
            break;
        }
        for piece in pieces_at(pieces, key.bytes()) {
            piece.gather(key, sequence, store, &guard, gather)?;
        }
    }
    gather.end_at(deleted);
    Ok(())
}

/// Passes a record to `gather` with its layer's sequence number.
pub(super) fn hand_over(
    record: StoredRecord<'_>,
    sequence: SequenceNumber,
    from: &BlockingFetch<'_>,
    gather: &mut LookupState<'_>,
) -> Poll<Result<std::ops::ControlFlow<()>>> {
    let record = StoredRecord { sequence, ..record };
    let operator = gather.operator;
    gather.known.record(&record, operator, |pointer, room| {
        fetch_value(from, pointer, room)
    })
}

/// Returns the runs of a layer whose key bounds include a key. At most one of them contains the key
/// (Y2). There can be several only if long keys share a long prefix, because the bounds of runs are
/// then rounded.
fn pieces_at<'l>(pieces: &'l [Arc<LayerRun>], key: &'l [u8]) -> impl Iterator<Item = &'l LayerRun> {
    let behind = pieces.partition_point(|piece| piece.run.low() <= key);
    let before = pieces[..behind].iter().rev();
    before
        .take_while(move |piece| key <= piece.run.high())
        .map(|piece| &**piece)
}

impl LayerRun {
    fn gather(
        &self,
        key: LookupKey<'_>,
        sequence: SequenceNumber,
        store: &Store,
        guard: &EpochGuard,
        gather: &mut LookupState<'_>,
    ) -> Result<()> {
        let cache = store.cache();
        let hits = self.maplet.lookup(key.hash(), cache, guard)?;
        if hits.as_slice().is_empty() {
            return Ok(());
        }
        let from = BlockingFetch {
            cache,
            guard,
            purpose: Purpose::Lookup,
        };
        let run = &self.run;
        run.find(
            key.bytes(),
            MAX_SEQUENCE,
            cache,
            guard,
            Purpose::Lookup,
            |record| alluvium_dictionary::fetch::unwrap_ready(hand_over(record, sequence, &from, gather)),
        )
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::super::{LayerOptions, LayerRunWriter};
    use super::*;
    use crate::maplet::MapletSpec;
    use crate::run::RunOptions;
    use alluvium_base::Message;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_dictionary::rules::OneKeyspace;
    use alluvium_storage::extents::AllocationClass;
    use alluvium_storage::store::StoreOptions;
    use std::sync::Arc;

    #[test]
    fn keys_that_begin_alike_for_long_are_found_in_the_run_that_has_them() {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Store::create(directory, &StoreOptions::default(), b"").unwrap();
        let mut layers = IngestRunLayers::new(LayerRunWriter::new(LayerOptions {
            store: Arc::new(store),
            schema: Arc::new(OneKeyspace::default()),
            run: RunOptions::new(Purpose::Incorporate),
            maplet: MapletSpec {
                fingerprint_bits: 12,
                purpose: Purpose::Incorporate,
                class: AllocationClass::Normal,
                tier: 0,
            },
            run_bytes: 4000,
            is_placed: false,
        }));
        let key = |number: u32| [&[b'k'; 300][..], &number.to_be_bytes()].concat();
        for number in (0..200_u32).step_by(2) {
            let value = number.to_be_bytes();
            layers.push(&key(number), Message::put(0, &value)).unwrap();
        }
        layers.end_layer().unwrap();
        assert!(layers.layers().all(|(_, pieces)| pieces.len() > 5));
        for number in 0..200 {
            let name = key(number);
            let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
            super::gather(&layers, LookupKey::new(&name), &mut gather).unwrap();
            let expected = (number % 2 == 0).then(|| number.to_be_bytes().to_vec());
            assert_eq!(gather.finish(), expected, "{number}");
        }
    }
}
