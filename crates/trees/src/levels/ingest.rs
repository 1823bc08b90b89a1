//! Ingest: layers of runs that are built beside a structure, and become its newest runs at once.

use super::Levels;
use super::policy;
use super::state::{Member, install_extents};
use crate::layers::{How, Layers};
use crate::merge_memory::merge_bytes;
use alluvium_base::{Message, Purpose, Sequence};
use alluvium_dictionary::contract;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;

/// Messages that come in layers, on their way into a structure. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Ingest {
    levels: Levels,
    layers: Layers,
}

impl Ingest {
    pub(super) fn new(levels: &Levels, class: Class) -> Result<Ingest> {
        let shared = &levels.shared;
        shared.home.store.health()?;
        let layers = Layers::new(How {
            store: Arc::clone(&shared.home.store),
            schema: Arc::clone(&shared.home.schema),
            run: shared.options.run(Purpose::Incorporate, class, 0),
            maplet: shared.options.maplet(Purpose::Incorporate, class, 0),
            // A layer is one run: the fewer there are the better.
            run_bytes: u64::MAX,
            is_placed: true,
        });
        Ok(Ingest {
            levels: levels.clone(),
            layers,
        })
    }

    fn install(&mut self, first: Sequence) -> Result<()> {
        let levels = self.levels.clone();
        assert_eq!(
            levels.version().cut + 1,
            first,
            "an ingest is attached when all that was written before is in the structure"
        );
        if self.layers.is_open() {
            self.layers.end_layer()?;
        }
        self.layers.write_deleted_ranges(first)?;
        let last = first + self.layers.len().max(1) - 1;
        let mut kept = levels.shared.kept.lock();
        let version = levels.version();
        let (mut runs, mut age) = (version.levels.clone(), version.next_age);
        let options = &levels.shared.options;
        for (layer, piece) in self.layers.pieces() {
            install_extents(&levels.shared.home.store, &piece.built, &piece.maplet);
            let run = piece.built.run.clone().based(first + layer);
            let counts: Vec<usize> = runs.iter().map(Vec::len).collect();
            let (unit, bytes) = (options.unit_bytes, run.summary().bytes);
            levels.shared.ledger.note_written(bytes);
            let level = policy::landing(&options.policy, unit, &counts, bytes);
            if runs.len() <= level {
                runs.resize(level + 1, Vec::new());
            }
            let maplet = piece.maplet.maplet.clone();
            runs[level].push(Arc::new(Member::whole((age, age), run, maplet)));
            age += 1;
        }
        // Nothing can fail any more.
        levels.publish(&mut kept, runs, last, age);
        drop(kept);
        self.layers.hand_over();
        Ok(())
    }
}

impl contract::Ingest for Ingest {
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        let result = self.layers.push(key, message);
        self.levels.judge(result)
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.layers.delete_range(start, end);
    }

    fn end_layer(&mut self) -> Result<()> {
        let result = self.layers.end_layer();
        self.levels.judge(result)
    }

    fn layers(&self) -> u64 {
        self.layers.len()
    }

    fn keep(&mut self, layers: u64) {
        self.layers.keep(layers);
    }

    fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        self.layers.gather(key, gather)
    }

    fn walk(&self, range: &KeyRange, direction: Direction) -> Box<dyn contract::Walk> {
        Box::new(self.layers.walk(range, direction))
    }

    fn records(&self) -> u64 {
        self.layers.records()
    }

    fn bytes(&self) -> u64 {
        self.layers.bytes()
    }

    fn memory_bytes(&self) -> u64 {
        let device = self.levels.shared.home.store.device();
        let building = match self.layers.building() {
            0 => 0,
            records => merge_bytes(device, 0, self.layers.bytes(), records, 0),
        };
        building + self.layers.memory_bytes()
    }

    fn attach(mut self: Box<Self>, first: Sequence) -> Result<()> {
        let result = self.install(first);
        self.levels.judge(result)
    }
}
