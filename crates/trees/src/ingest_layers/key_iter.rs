//! Iterates over the keys in the layers of an ingest.

use super::lookup::{gather_in, hand_over};
use super::{IngestRunLayers, LayerRun};
use crate::run::{CursorAccess, RunRecordCursor};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{BlockingFetch, unwrap_ready};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::{MergeDirection, MergingIter, SortedSource};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// An iterator over the keys in a range that have messages in the layers of an ingest.
pub(crate) struct LayerWalk {
    store: Arc<Store>,
    range: KeyRange,
    direction: MergeDirection,
    /// Each layer's sequence number and runs, from the newest to the oldest layer. The runs ascend.
    layers: Vec<(SequenceNumber, Vec<Arc<LayerRun>>)>,
    deletes: Arc<RangeTombstoneIndex>,
    /// The merge of all layers at the current position; `None` before the first key and after an
    /// error.
    merged: Option<MergingIter<LayerCursor>>,
    /// The key that was last returned; `None` before the first one.
    last: Option<Vec<u8>>,
}

/// A cursor on a layer. The layer's runs do not overlap, so it visits them one after another.
struct LayerCursor {
    sequence: SequenceNumber,
    /// The cursors of the runs that have not been visited yet.
    cursors: std::vec::IntoIter<RunRecordCursor>,
    current: Option<RunRecordCursor>,
}

impl fmt::Debug for LayerWalk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerWalk")
            .field("range", &self.range)
            .field("direction", &self.direction)
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}

/// Returns an iterator over the keys in `range` that have messages in `layers`.
pub(crate) fn walk(layers: &IngestRunLayers, range: &KeyRange, direction: MergeDirection) -> LayerWalk {
    let mut all = Vec::new();
    for (sequence, pieces) in layers.layers().rev() {
        let is_met = |piece: &&Arc<LayerRun>| range.overlaps(piece.run.low(), piece.run.high());
        let runs: Vec<Arc<LayerRun>> = pieces.iter().filter(is_met).cloned().collect();
        if !runs.is_empty() {
            all.push((sequence, runs));
        }
    }
    LayerWalk {
        store: Arc::clone(&layers.writer().how.store),
        range: range.clone(),
        direction,
        layers: all,
        deletes: Arc::clone(layers.deletes()),
        merged: None,
        last: None,
    }
}

impl LayerCursor {
    fn start(&mut self) -> Result<()> {
        while self.current.as_ref().is_none_or(|cursor| cursor.key().is_none()) {
            self.current = self.cursors.next();
            match &mut self.current {
                Some(cursor) => cursor.start()?,
                None => break,
            }
        }
        Ok(())
    }
}

impl SortedSource for LayerCursor {
    type Error = Error;

    fn key(&self) -> Option<&[u8]> {
        self.current.as_ref()?.key()
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.current {
            cursor.pass_key()?;
        }
        self.start()
    }
}

impl LayerWalk {
    /// Returns the part of the range after the key that was last returned.
    fn left(&self) -> KeyRange {
        let Some(last) = &self.last else {
            return self.range.clone();
        };
        match self.direction {
            MergeDirection::Forward => {
                let behind = [&last[..], &[0]].concat();
                KeyRange::new(&behind, self.range.high.as_deref())
            }
            MergeDirection::Backward => KeyRange::new(&self.range.low, Some(last)),
        }
    }

    fn begin(&self) -> Result<MergingIter<LayerCursor>> {
        let left = self.left();
        let mut sources = Vec::with_capacity(self.layers.len());
        for (sequence, runs) in &self.layers {
            let cursors = runs.iter().map(|piece| {
                piece
                    .run
                    .cursor(&self.store, left.clone(), self.direction, CursorAccess::Cached)
            });
            let mut cursors: Vec<RunRecordCursor> = cursors.collect();
            if self.direction == MergeDirection::Backward {
                cursors.reverse();
            }
            let mut cursor = LayerCursor {
                sequence: *sequence,
                cursors: cursors.into_iter(),
                current: None,
            };
            cursor.start()?;
            sources.push(cursor);
        }
        Ok(MergingIter::new(sources, self.direction))
    }

    fn go_on(&mut self, gather: &mut LookupState<'_>) -> Result<bool> {
        let merged = match &mut self.merged {
            Some(merged) => merged,
            None => {
                let begun = self.begin()?;
                self.merged.insert(begun)
            }
        };
        let Some(winner) = merged.winner() else {
            return Ok(false);
        };
        let mut key = self.last.take().unwrap_or_default();
        key.clear();
        key.extend_from_slice(merged.source(winner).key().expect("a winner stands at a key"));
        let deleted = self.deletes.covering(&key, MAX_SEQUENCE);
        gather.range_deleted(deleted);
        let guard = self.store.epochs().pin();
        let from = BlockingFetch {
            cache: self.store.cache(),
            guard: &guard,
            purpose: Purpose::Scan,
        };
        let mut handed = Ok(());
        while let Some(winner) = merged.winner()
            && merged.source(winner).key() == Some(&key[..])
        {
            let source = merged.source(winner);
            let cursor = source.current.as_ref().expect("it stands at a key");
            if !gather.is_decided() && deleted.is_none_or(|deleted| source.sequence > deleted) {
                handed = unwrap_ready(hand_over(cursor.record(), source.sequence, &from, gather)).map(drop);
            }
            handed = handed.and_then(|()| merged.advance());
            if handed.is_err() {
                break;
            }
        }
        debug_assert!(self.range.contains(&key), "a walk stays in its range");
        self.last = Some(key);
        handed?;
        gather.end_at(deleted);
        Ok(true)
    }
}

impl contract::IngestKeyScan for LayerWalk {
    fn next(&mut self, gather: &mut LookupState<'_>) -> Result<Option<&[u8]>> {
        let before = self.last.clone();
        match self.go_on(gather) {
            Ok(true) => Ok(self.last.as_deref()),
            Ok(false) => Ok(None),
            Err(error) => {
                self.merged = None;
                self.last = before;
                Err(error)
            }
        }
    }

    fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()> {
        let layers = self
            .layers
            .iter()
            .map(|(sequence, pieces)| (*sequence, &pieces[..]));
        gather_in(&self.store, layers, &self.deletes, key, gather)
    }

    fn is_deleted(&self, key: &[u8]) -> bool {
        self.deletes.covering(key, MAX_SEQUENCE).is_some()
    }
}
