//! Ingest: layers of runs that become the newest runs of a structure in one step.

use super::Levels;
use super::policy;
use super::state::{Member, install_extents};
use crate::layers::{self, How, Layers, Writer};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract::Walk;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{LayerIngest, LayerTarget};
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;

/// An ingest into levels: messages arrive in layers.
pub type Ingest = LayerIngest<Levels>;

impl Levels {
    pub(super) fn begin_ingest(&self, class: Class) -> Result<Ingest> {
        let shared = &self.shared;
        shared.home.store.health()?;
        let writer = Writer::new(How {
            store: Arc::clone(&shared.home.store),
            schema: Arc::clone(&shared.home.schema),
            run: shared.options.run(Purpose::Incorporate, class, 0),
            maplet: shared.options.maplet(Purpose::Incorporate, class, 0),
            // A layer is written as one run, because fewer runs make faster lookups.
            run_bytes: u64::MAX,
            is_placed: true,
        });
        Ok(LayerIngest::new(self.clone(), writer))
    }
}

impl LayerTarget for Levels {
    type Writer = Writer;

    fn judge<T>(&self, result: Result<T>) -> Result<T> {
        Levels::judge(self, result)
    }

    fn gather(&self, layers: &Layers, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        layers::gather(layers, key, gather)
    }

    fn walk(&self, layers: &Layers, range: &KeyRange, direction: Direction) -> Box<dyn Walk> {
        Box::new(layers::walk(layers, range, direction))
    }

    fn writing_bytes(&self, layers: &Layers) -> u64 {
        layers::writing_bytes(layers)
    }

    fn attach(&self, layers: &mut Layers, first: Sequence, last: Sequence) -> Result<()> {
        let shared = &self.shared;
        let mut kept = shared.kept.lock();
        let version = self.version();
        let (mut runs, mut age) = (version.levels.clone(), version.next_age);
        // Nothing can fail from here on.
        for (layer, piece) in layers.hand_over() {
            install_extents(&shared.home.store, &piece.built, &piece.maplet);
            let run = piece.built.run.based(first + layer);
            let counts: Vec<usize> = runs.iter().map(Vec::len).collect();
            let (unit, bytes) = (shared.options.unit_bytes, run.summary().bytes);
            shared.ledger.note_written(bytes);
            let level = policy::landing(&shared.options.policy, unit, &counts, bytes);
            if runs.len() <= level {
                runs.resize(level + 1, Vec::new());
            }
            runs[level].push(Arc::new(Member::whole((age, age), run, piece.maplet.maplet)));
            age += 1;
        }
        self.publish(&mut kept, runs, last, age);
        Ok(())
    }
}
