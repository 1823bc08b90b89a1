//! Ingest: layers of runs that become the newest hash stores atomically.

use super::layers::{Layers, Walk, Writer, seen};
use super::rules::RulesCache;
use super::state::{Version, Young};
use super::structure::Hashed;
use alluvium_base::Sequence;
use alluvium_dictionary::contract;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{LayerIngest, LayerTarget};
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;

/// An ingest of messages in layers into a hashed structure.
pub type Ingest = LayerIngest<Hashed>;

impl Hashed {
    pub(super) fn begin_ingest(&self, class: Class) -> Result<Ingest> {
        let home = &self.shared.home;
        home.store.health()?;
        let rules = RulesCache::new(&home.schema);
        let writer = Writer::new(&home.store, self.young_options(class, 0), rules);
        Ok(LayerIngest::new(self.clone(), writer))
    }
}

impl LayerTarget for Hashed {
    type Writer = Writer;

    fn judge<T>(&self, result: Result<T>) -> Result<T> {
        Hashed::judge(self, result)
    }

    fn gather(&self, layers: &Layers, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        seen(layers).gather(key, gather)
    }

    fn walk(&self, layers: &Layers, range: &KeyRange, direction: Direction) -> Box<dyn contract::Walk> {
        Box::new(Walk {
            seen: seen(layers),
            range: range.clone(),
            direction,
            keys: None,
            key: Box::default(),
            is_again: false,
        })
    }

    fn writing_bytes(&self, layers: &Layers) -> u64 {
        layers.writer().waiting_bytes()
    }

    fn attach(&self, layers: &mut Layers, first: Sequence, last: Sequence) -> Result<()> {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let (mut young, mut age) = (version.young.clone(), version.next_age);
        // No operation below can fail.
        for (layer, written) in layers.hand_over() {
            let run = written.install().based(first + layer);
            young.insert(0, Arc::new(Young { age, run }));
            age += 1;
        }
        let version = Version {
            stamp: version.stamp.changed(last),
            young,
            parts: version.parts.clone(),
            next_age: age,
        };
        self.publish(&mut kept, version);
        Ok(())
    }
}
