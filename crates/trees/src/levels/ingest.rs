//! Bulk ingest: writes layers as runs, which become the newest runs of an LSM tree in one atomic
//! step.

use super::LevelsDictionary;
use super::policy;
use super::state::{LevelMember, groups};
use crate::ingest_layers::{self, IngestRunLayers, LayerOptions, LayerRunWriter, install_runs};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::contract::IngestKeyScan;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{LayerIngest, LayerTarget};
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;

/// A bulk ingest into an LSM tree. The messages are ingested in layers.
pub type LevelsIngest = LayerIngest<LevelsDictionary>;

/// Maximum size of a run in bytes if there are several tiers.
const PLACED_RUN_BYTES: u64 = 64 << 20;

impl LevelsDictionary {
    pub(super) fn begin_ingest(&self, class: AllocationClass) -> Result<LevelsIngest> {
        let shared = &self.shared;
        shared.home.store.health()?;
        let writer = LayerRunWriter::new(LayerOptions {
            store: Arc::clone(&shared.home.store),
            schema: Arc::clone(&shared.home.schema),
            run: shared.options.run(Purpose::Incorporate, class, 0),
            maplet: shared.options.maplet(Purpose::Incorporate, class, 0),
            // With one tier, write each layer as a single run, because lookups are faster with
            // fewer runs. With several tiers, write short runs, because a run's tier is chosen when
            // it begins.
            run_bytes: match shared.home.store.tiers().count() {
                1 => u64::MAX,
                _ => PLACED_RUN_BYTES,
            },
            is_placed: true,
        });
        Ok(LayerIngest::new(self.clone(), writer))
    }
}

impl LayerTarget for LevelsDictionary {
    type Writer = LayerRunWriter;

    fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        LevelsDictionary::poison_on_error(self, result)
    }

    fn gather(
        &self,
        layers: &IngestRunLayers,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
    ) -> Result<()> {
        ingest_layers::gather(layers, key, gather)
    }

    fn walk(
        &self,
        layers: &IngestRunLayers,
        range: &KeyRange,
        direction: MergeDirection,
    ) -> Box<dyn IngestKeyScan> {
        Box::new(ingest_layers::walk(layers, range, direction))
    }

    fn writing_bytes(&self, layers: &IngestRunLayers) -> u64 {
        ingest_layers::writing_bytes(layers)
    }

    fn attach(
        &self,
        layers: &mut IngestRunLayers,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> Result<()> {
        let shared = &self.shared;
        let mut kept = shared.kept.lock();
        let version = self.version();
        let (mut runs, mut age) = (version.levels.clone(), version.next_age);
        // Nothing after this point can fail.
        let pieces = layers.into_runs();
        install_runs(pieces.iter().map(|(_, piece)| piece));
        for layer in pieces.chunk_by(|(one, _), (next, _)| one == next) {
            let counts: Vec<usize> = runs.iter().map(|level| groups(level).count()).collect();
            let unit = shared.options.unit_bytes;
            let bytes = layer.iter().map(|(_, piece)| piece.run.summary().bytes).sum();
            shared.ledger.note_written(bytes);
            let level = policy::landing(&shared.options.policy, unit, &counts, bytes);
            if runs.len() <= level {
                runs.resize(level + 1, Vec::new());
            }
            for (place, (number, piece)) in layer.iter().enumerate() {
                // The pieces of a layer are the parts of one run.
                let high = layer.get(place + 1).map(|(_, next)| &*next.start);
                let run = piece.run.clone().based(first + number);
                let whole = LevelMember::whole((age, age), run, piece.maplet.clone());
                runs[level].push(Arc::new(LevelMember {
                    range: KeyRange::new(&piece.start, high),
                    ..whole
                }));
            }
            age += 1;
        }
        self.publish(&mut kept, runs, last, age);
        Ok(())
    }
}
