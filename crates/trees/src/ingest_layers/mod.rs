//! The layers of an ingest: runs and their maplets, which have been written but do not belong to a
//! dictionary yet.
//!
//! *Scope*: how the layers' runs are written and read.
//!
//! *Must not depend on*: the dictionary that the layers are attached to; sequence numbers of
//! commits.

mod key_iter;
mod layer_merge;
mod layer_run;
mod lookup;

pub(crate) use key_iter::walk;
pub(crate) use layer_run::{LayerRun, install_runs};
pub(crate) use lookup::gather;

use crate::maplet::{Maplet, MapletSpec};
use crate::merge::memory::merge_bytes;
use crate::run::{RunBuilder, RunOptions};
use alluvium_base::Message;
use alluvium_dictionary::placement::{self, PlacementRequest};
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::rules::{KeyspaceCursor, KeyspaceSchema};
use alluvium_dictionary::versioned::{IngestLayers, LayerGroup, LayerWriter};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use layer_merge::LayerRunMerge;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct LayerOptions {
    pub(crate) store: Arc<Store>,
    pub(crate) schema: Arc<dyn KeyspaceSchema>,
    pub(crate) run: RunOptions,
    pub(crate) maplet: MapletSpec,
    /// Maximum total size of a run's keys and values in bytes.
    pub(crate) run_bytes: u64,
    /// Whether the placement policy chooses the storage tier of each run and maplet when it is
    /// started. If not, the tiers in `run` and `maplet` are used.
    pub(crate) is_placed: bool,
}

/// Free space in bytes that a tier must have for a run to be started on it. The final size of the
/// run is not known at that point.
const BEGINNING: u64 = 16 << 20;

impl LayerOptions {
    /// Starts a run on a storage tier with enough free space for the beginning of the run.
    fn begin(&self) -> Result<RunBuilder> {
        let tier = self.tier(BEGINNING.min(self.run_bytes), self.run.tier);
        let options = RunOptions {
            tier,
            value_tier: tier,
            ..self.run
        };
        RunBuilder::new(&self.store, &options)
    }

    fn tier(&self, bytes: u64, otherwise: u8) -> u8 {
        match self.is_placed {
            // An ingest may be of any size, so like compactions it leaves space on each tier for
            // the log and for the next memtables.
            true => placement::tier(&self.store, &PlacementRequest::older(0, bytes)),
            false => otherwise,
        }
    }

    /// Completes a run and builds its maplet. `start` is the run's [`LayerRun::start`]. Returns
    /// `None` if the run has neither records nor range deletes.
    fn finish(&self, builder: RunBuilder, start: Vec<u8>) -> Result<Option<LayerRun>> {
        let Some(mut built) = builder.finish()? else {
            return Ok(None);
        };
        let hashes = std::mem::take(&mut built.hashes);
        match Maplet::build(&self.store, &self.maplet_spec(), hashes, 0) {
            Ok(maplet) => Ok(Some(LayerRun::new(&self.store, built, maplet, &[], start))),
            Err(error) => {
                built.abandon(&self.store);
                Err(error)
            }
        }
    }

    /// Returns the options for a maplet that is written now.
    fn maplet_spec(&self) -> MapletSpec {
        MapletSpec {
            tier: self.tier(0, self.maplet.tier),
            ..self.maplet
        }
    }
}

/// The layers of an ingest, stored as runs.
pub(crate) type IngestRunLayers = IngestLayers<LayerRunWriter>;

/// Writes the runs of the layers of an ingest.
#[derive(Debug)]
pub struct LayerRunWriter {
    how: LayerOptions,
    builder: Option<RunBuilder>,
    keyspace: KeyspaceCursor,
    /// The current run's key and value bytes (`filled`) and its number of records (`building`).
    filled: u64,
    building: u64,
    /// A lower bound of the current run's keys, which is empty for the first run of a layer.
    start: Vec<u8>,
}

impl LayerRunWriter {
    pub(crate) fn new(how: LayerOptions) -> LayerRunWriter {
        LayerRunWriter {
            keyspace: KeyspaceCursor::new(&how.schema),
            how,
            builder: None,
            filled: 0,
            building: 0,
            start: Vec::new(),
        }
    }
}

/// Estimates how much memory, in bytes, is needed to write the current run.
pub(crate) fn writing_bytes(layers: &IngestRunLayers) -> u64 {
    let LayerRunWriter { how, building, .. } = layers.writer();
    match *building {
        0 => 0,
        records => merge_bytes(how.store.device(), 0, layers.bytes(), records, 0),
    }
}

impl LayerWriter for LayerRunWriter {
    type Run = LayerRun;
    type Merge = LayerRunMerge;

    fn push(&mut self, key: &[u8], message: Message<'_>, written: &mut Vec<LayerRun>) -> Result<()> {
        let len = (key.len() + message.operand.len()) as u64;
        if self.filled > 0 && self.filled + len > self.how.run_bytes {
            self.end_run(written)?;
            self.start = key.to_vec();
        }
        let builder = match &mut self.builder {
            Some(builder) => builder,
            none => {
                self.keyspace = KeyspaceCursor::new(&self.how.schema);
                none.insert(self.how.begin()?)
            }
        };
        if let Some(rules) = self.keyspace.enter(key) {
            builder.begin_keyspace(rules.codec, rules.value_threshold)?;
        }
        builder.push(
            key,
            StoredRecord::from(Message {
                sequence: 0,
                ..message
            }),
        )?;
        self.filled += len;
        self.building += 1;
        Ok(())
    }

    /// Completes the current run and writes its maplet.
    fn end_run(&mut self, written: &mut Vec<LayerRun>) -> Result<()> {
        debug_assert_eq!(
            self.builder.is_some(),
            self.building > 0,
            "a run is begun with its first record"
        );
        (self.filled, self.building) = (0, 0);
        let start = std::mem::take(&mut self.start);
        if let Some(builder) = self.builder.take() {
            written.extend(self.how.finish(builder, start)?);
        }
        Ok(())
    }

    fn give_up_run(&mut self) {
        self.builder = None;
        self.start.clear();
        (self.filled, self.building) = (0, 0);
    }

    fn write_deleted_ranges(&mut self, deletes: RangeTombstoneIndex) -> Result<Option<LayerRun>> {
        let mut builder = self.how.begin()?;
        builder.delete_ranges(Arc::new(deletes));
        self.how.finish(builder, Vec::new())
    }

    fn begin_merge(&self, group: LayerGroup<LayerRun>) -> Result<LayerRunMerge> {
        Ok(LayerRunMerge::new(&self.how, group))
    }

    fn memory_bytes(run: &LayerRun) -> u64 {
        run.memory_bytes()
    }
}
