//! Merges adjacent layers of an ingest into one layer.
//!
//! The merge writes the result in pieces, in key order. Each piece is a run of its own, which
//! bounds the memory for the hashes of its keys. Leaves whose keys are in no other layer are
//! adopted, so that data written in key order is not written again.

use super::layer_run::ProvisionalExtent;
use super::{LayerOptions, LayerRun, LayerRunWriter};
use crate::maplet::{MapletMergeProgress, MapletMerger, MapletSource};
use crate::merge::gather::ValueGathering;
use crate::merge::memory::merge_bytes;
use crate::merge::runs::{RunMergePlan, RunMerger, RunSource};
use crate::merge::stitch::{FilterSource, StitchInput, StitchPolicy, StitchRules, threshold};
use crate::run::{BuiltRun, RunOptions};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, Purpose, SequenceNumber};
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::merge::{FoldRule, OlderData};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{LayerGroup, LayerMerge, LayerWriter, MergedLayers};
use alluvium_storage::Result;
use std::sync::Arc;

/// A piece ends once it has this many keys from copied records. This bounds the memory for their
/// hashes to 4 MiB.
const MOST_KEYS: usize = 512 << 10;

/// Maximum number of input runs that are open at the same time, besides those that contain the
/// first key of the piece. This bounds the memory for read buffers.
const MOST_OPEN: usize = 4;

/// Number of further merges that each record is expected to go through. The estimate determines how
/// many consecutive leaves it takes to adopt them.
const LATER_MERGES: u64 = 2;

/// A run with the number of its layer.
type NumberedRun = (SequenceNumber, Arc<LayerRun>);

/// A merge of layers, in progress.
#[derive(Debug)]
pub struct LayerRunMerge {
    how: LayerOptions,
    group: LayerGroup<LayerRun>,
    /// The extents of all inputs, sorted.
    inherited: Vec<Arc<ProvisionalExtent>>,
    /// The first key of the next piece; `None` after the last piece.
    next: Option<Vec<u8>>,
    phase: MergePhase,
    written: Vec<LayerRun>,
    /// Writes the operands that cannot be folded into the messages of their keys.
    operands: LayerRunWriter,
    written_operands: Vec<LayerRun>,
    memory_bytes: u64,
}

#[derive(Debug)]
enum MergePhase {
    /// The next piece has not been started.
    Between,
    Merging(Box<PieceMerge>),
    /// A piece has been written, and its maplet is being merged. The last field is the piece's
    /// first key.
    Mapping(Box<BuiltRun>, Box<MapletMerger>, Vec<u8>),
}

/// The merge of one piece.
#[derive(Debug)]
struct PieceMerge {
    merger: RunMerger<StitchInput>,
    inputs: Vec<Arc<LayerRun>>,
    start: Vec<u8>,
    /// The exclusive upper bound of the piece; `None` for the last piece.
    end: Option<Vec<u8>>,
}

impl LayerRunMerge {
    pub(super) fn new(how: &LayerOptions, group: LayerGroup<LayerRun>) -> LayerRunMerge {
        let all = || group.layers.iter().flat_map(|(_, runs)| runs);
        let mut inherited: Vec<Arc<ProvisionalExtent>> =
            all().flat_map(|run| run.extents.iter().cloned()).collect();
        inherited.sort_unstable_by_key(|shared| shared.extent);
        inherited.dedup_by_key(|shared| shared.extent);
        let open = (group.layers.len() + MOST_OPEN).min(all().count());
        let bytes = all().map(|run| run.run.summary().bytes).sum();
        let records: u64 = all().map(|run| run.run.summary().records).sum();
        let deletes = group.deletes.len() as u64;
        let records = records.min(MOST_KEYS as u64);
        let memory_bytes = merge_bytes(how.store.device(), open, bytes, records, deletes);
        LayerRunMerge {
            operands: LayerRunWriter::new(how.clone()),
            how: how.clone(),
            group,
            inherited,
            next: Some(Vec::new()),
            phase: MergePhase::Between,
            written: Vec::new(),
            written_operands: Vec::new(),
            memory_bytes,
        }
    }

    /// Returns the inputs of the next piece, from newest to oldest layer, and the exclusive upper
    /// bound of its keys. The bound is `None` if no input follows.
    fn inputs_from(&self, low: &[u8]) -> (Vec<NumberedRun>, Option<Vec<u8>>) {
        let all = self
            .group
            .layers
            .iter()
            .flat_map(|(number, runs)| runs.iter().map(|run| (*number, run)));
        let left: Vec<(SequenceNumber, &Arc<LayerRun>)> =
            all.filter(|(_, run)| run.run.high() >= low).collect();
        let mut later: Vec<&[u8]> = left
            .iter()
            .map(|(_, run)| run.run.low())
            .filter(|first| *first > low)
            .collect();
        later.sort_unstable();
        // Runs that begin at or after the bound belong to later pieces.
        let end = later.get(MOST_OPEN).map(|end| end.to_vec());
        let is_in = |run: &LayerRun| end.as_deref().is_none_or(|end| run.run.low() < end);
        let inputs = left.into_iter().filter(|(_, run)| is_in(run));
        (
            inputs.map(|(number, run)| (number, Arc::clone(run))).collect(),
            end,
        )
    }

    /// Starts the piece whose first key is `low`.
    fn begin(&self, low: &[u8]) -> Result<PieceMerge> {
        let how = &self.how;
        let (inputs, end) = self.inputs_from(low);
        let range = KeyRange::new(low, end.as_deref());
        let sources = inputs.iter().map(|(number, run)| RunSource {
            run: run.run.clone().based(*number),
            range: range.clone(),
        });
        let sources: Vec<RunSource> = sources.collect();
        let bytes = inputs.iter().map(|(_, run)| run.run.summary().bytes).sum();
        let tier = how.tier(bytes, how.run.tier);
        let options = RunOptions {
            purpose: Purpose::Compact,
            tier,
            value_tier: tier,
            ..how.run
        };
        let rule = FoldRule {
            horizon: MAX_SEQUENCE,
            readers: Arc::default(),
            older: OlderData::Elsewhere,
            // Values expire only by the store's clock, once the ingest has been attached.
            now_ms: 0,
        };
        let plan = RunMergePlan {
            rule,
            schema: &how.schema,
            asks_filters: false,
            sparse: Vec::new(),
            moves_values: false,
            layer_deletes: Some(Arc::clone(&self.group.deletes)),
            gathering: ValueGathering::Nowhere,
        };
        let runs = inputs.iter().map(|(_, run)| run.run.summary());
        let leaf_bytes = runs.map(|summary| summary.bytes / summary.leaves.max(1)).max();
        let rules = StitchRules {
            stitching: StitchPolicy {
                threshold: threshold(how.store.device(), leaf_bytes.unwrap_or(1), LATER_MERGES),
                ..StitchPolicy::default()
            },
            schema: Arc::clone(&how.schema),
            asks_filters: false,
            older: OlderData::Elsewhere,
            horizon: MAX_SEQUENCE,
            sparse: Vec::new(),
            tier,
            filters: FilterSource::Merged,
            are_layers: true,
            gathering: ValueGathering::Nowhere,
        };
        let open =
            |sources, deletes: &_| StitchInput::open_all(&how.store, sources, deletes, &rules, |_| true);
        Ok(PieceMerge {
            merger: RunMerger::over(&how.store, sources, plan, &options, open)?,
            inputs: inputs.into_iter().map(|(_, run)| run).collect(),
            start: low.to_vec(),
            end,
        })
    }

    fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        match std::mem::replace(&mut self.phase, MergePhase::Between) {
            MergePhase::Between => {
                let Some(low) = &self.next else {
                    self.operands.end_run(&mut self.written_operands)?;
                    return Ok(StepProgress::Done);
                };
                self.phase = MergePhase::Merging(Box::new(self.begin(low)?));
            }
            MergePhase::Merging(mut piece) => {
                let progress = piece.merger.step(records)?;
                for (key, operand) in piece.merger.take_surplus() {
                    let message = Message::merge(0, &operand);
                    self.operands.push(&key, message, &mut self.written_operands)?;
                }
                let is_full = piece.merger.copied_keys() >= MOST_KEYS;
                match progress {
                    StepProgress::More if !is_full => self.phase = MergePhase::Merging(piece),
                    StepProgress::More => {
                        self.next = piece.merger.next_key().map(<[u8]>::to_vec);
                        self.end_piece(*piece)?;
                    }
                    StepProgress::Done => {
                        self.next = piece.end.take();
                        self.end_piece(*piece)?;
                    }
                }
            }
            MergePhase::Mapping(built, mut merger, start) => match merger.step(records.saturating_mul(4)) {
                Ok(MapletMergeProgress::More) => self.phase = MergePhase::Mapping(built, merger, start),
                Ok(MapletMergeProgress::Done(maplet)) => {
                    let store = &self.how.store;
                    self.written
                        .push(LayerRun::new(store, *built, maplet, &self.inherited, start));
                }
                Err(error) => {
                    built.abandon(&self.how.store);
                    return Err(error);
                }
            },
        }
        Ok(StepProgress::More)
    }

    /// Completes a piece's run, and starts merging its maplet.
    fn end_piece(&mut self, piece: PieceMerge) -> Result<()> {
        let PieceMerge {
            merger,
            inputs,
            start,
            ..
        } = piece;
        // The keys of adopted leaves were not read, so their fingerprints come from the maplets.
        let adopted = merger
            .inputs()
            .iter()
            .zip(&inputs)
            .filter(|(input, _)| input.adopted > 0);
        let maplets = adopted.map(|(input, run)| {
            assert!(
                input.run().pointer() == run.run.pointer(),
                "an input of the piece"
            );
            MapletSource {
                maplet: run.maplet.clone(),
                rewrite: [Some(0)].into(),
            }
        });
        let maplets = maplets.collect();
        let Some(mut built) = merger.finish()?.0 else {
            return Ok(());
        };
        let hashes = std::mem::take(&mut built.hashes);
        match MapletMerger::new(
            &self.how.store,
            &self.how.maplet_spec(),
            maplets,
            Some((hashes, 0)),
        ) {
            Ok(merger) => {
                self.phase = MergePhase::Mapping(Box::new(built), Box::new(merger), start);
                Ok(())
            }
            Err(error) => {
                built.abandon(&self.how.store);
                Err(error)
            }
        }
    }
}

impl LayerMerge for LayerRunMerge {
    type Run = LayerRun;

    fn step(&mut self, records: usize) -> Result<StepProgress> {
        self.go_on(records)
    }

    fn take_result(&mut self) -> MergedLayers<LayerRun> {
        MergedLayers {
            messages: std::mem::take(&mut self.written),
            operands: std::mem::take(&mut self.written_operands),
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

impl Drop for LayerRunMerge {
    fn drop(&mut self) {
        if let MergePhase::Mapping(built, ..) = std::mem::replace(&mut self.phase, MergePhase::Between) {
            built.abandon(&self.how.store);
        }
    }
}
