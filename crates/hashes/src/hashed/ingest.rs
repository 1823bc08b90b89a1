//! Ingest: layers of runs that are built beside a structure, and become its newest hash stores at
//! once.

use super::layers::{Layers, Walk};
use super::rules::RulesCache;
use super::state::{Version, Young};
use super::structure::Hashed;
use alluvium_base::{Message, Sequence};
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
    hashed: Hashed,
    layers: Layers,
    /// Whether all is written.
    is_written: bool,
}

impl Hashed {
    /// Begins to write messages beside the structure.
    ///
    /// # Errors
    /// When the store takes no changes.
    pub fn ingest(&self, class: Class) -> Result<Box<dyn contract::Ingest>> {
        let home = &self.shared.home;
        home.store.health()?;
        let rules = RulesCache::new(&home.schema);
        Ok(Box::new(Ingest {
            hashed: self.clone(),
            layers: Layers::new(&home.store, self.young_options(class, 0), rules),
            is_written: false,
        }))
    }
}

impl Ingest {
    /// Writes what is not written yet.
    fn write(&mut self, first: Sequence) -> Result<()> {
        if self.is_written {
            return Ok(());
        }
        if self.layers.is_open() {
            self.layers.end_layer()?;
        }
        self.layers.write_deleted_ranges(first)?;
        self.is_written = true;
        Ok(())
    }

    fn install(&mut self, first: Sequence) -> Result<()> {
        let hashed = self.hashed.clone();
        assert_eq!(
            hashed.version().cut + 1,
            first,
            "an ingest is attached when all that was written before is in the structure"
        );
        self.write(first)?;
        let last = first + self.layers.len().max(1) - 1;
        let mut kept = hashed.shared.kept.lock();
        let version = hashed.version();
        let (mut young, mut age) = (version.young.clone(), version.next_age);
        // Nothing can fail any more.
        for (layer, written) in self.layers.hand_over() {
            let run = written.install().based(first + layer);
            young.insert(0, Arc::new(Young { age, run }));
            age += 1;
        }
        let version = Version {
            young,
            parts: version.parts.clone(),
            cut: last,
            next_age: age,
            ..Version::default()
        };
        hashed.publish(&mut kept, version);
        Ok(())
    }
}

impl contract::Ingest for Ingest {
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        let result = self.layers.push(key, message);
        self.hashed.judge(result)
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.layers.delete_range(start, end);
    }

    fn end_layer(&mut self) -> Result<()> {
        let result = self.layers.end_layer();
        self.hashed.judge(result)
    }

    fn layers(&self) -> u64 {
        self.layers.len()
    }

    fn keep(&mut self, layers: u64) {
        self.layers.keep(layers);
    }

    fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        self.layers.seen().gather(key, gather)
    }

    fn walk(&self, range: &KeyRange, direction: Direction) -> Box<dyn contract::Walk> {
        Box::new(Walk {
            seen: self.layers.seen(),
            range: range.clone(),
            direction,
            keys: None,
            key: Box::default(),
            is_again: false,
        })
    }

    fn records(&self) -> u64 {
        self.layers.records()
    }

    fn bytes(&self) -> u64 {
        self.layers.bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.layers.memory_bytes()
    }

    fn prepare(&mut self, first: Sequence) -> Result<()> {
        let result = self.write(first);
        self.hashed.judge(result)
    }

    fn attach(mut self: Box<Self>, first: Sequence) -> Result<()> {
        let result = self.install(first);
        self.hashed.judge(result)
    }
}
