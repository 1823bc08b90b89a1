//! Bulk ingest, which turns the runs of all layers into the newest hash stores in one atomic step.

use super::layers::{self, HashIngestLayers, HashLayerWriter, LayerKeyScan, seen};
use super::state::{HashStore, HashedVersion};
use super::structure::HashedStructure;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{LayerIngest, LayerTarget};
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;

/// An ingest into a hashed structure. The ingested messages are organised in layers until they are
/// attached.
pub type HashIngest = LayerIngest<HashedStructure>;

impl HashedStructure {
    pub(super) fn begin_ingest(&self, class: AllocationClass) -> Result<HashIngest> {
        let home = &self.shared.home;
        home.store.health()?;
        let writer = HashLayerWriter::new(&home.store, self.young_options(class, 0), &home.schema);
        Ok(LayerIngest::new(self.clone(), writer))
    }
}

impl LayerTarget for HashedStructure {
    type Writer = HashLayerWriter;

    fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        HashedStructure::poison_on_error(self, result)
    }

    fn gather(
        &self,
        layers: &HashIngestLayers,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
    ) -> Result<()> {
        layers::gather(layers, key, gather)
    }

    fn walk(
        &self,
        layers: &HashIngestLayers,
        range: &KeyRange,
        direction: MergeDirection,
    ) -> Box<dyn contract::IngestKeyScan> {
        Box::new(LayerKeyScan {
            seen: seen(layers),
            range: range.clone(),
            direction,
            keys: None,
            key: Box::default(),
            is_again: false,
        })
    }

    fn writing_bytes(&self, layers: &HashIngestLayers) -> u64 {
        layers.writer().waiting_bytes()
    }

    fn attach(
        &self,
        layers: &mut HashIngestLayers,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> Result<()> {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let (mut young, mut age) = (version.young.clone(), version.next_age);
        // From here on, no operation can fail, so all layers are installed or none.
        for (layer, written) in layers.into_runs() {
            let run = written.install().based(first + layer);
            young.insert(0, Arc::new(HashStore { age, run }));
            age += 1;
        }
        let version = HashedVersion {
            stamp: version.stamp.changed(last),
            young,
            parts: version.parts.clone(),
            next_age: age,
        };
        self.publish(&mut kept, version);
        Ok(())
    }
}
