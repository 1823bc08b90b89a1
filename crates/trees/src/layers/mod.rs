//! Layers of runs that are written beside a dictionary, and are part of none yet.
//!
//! A layer is a list of runs whose keys do not overlap, each with a maplet. A newer layer hides
//! what older ones have of its keys. Deleted ranges are kept in memory.
//!
//! *Knows*: how layers are written, read and given up.
//!
//! *Does not know*: the dictionary that takes them; sequence numbers of commits.
//!
//! *Read in this order*: this file, `read.rs` (lookups), `walk.rs` (walks).
//!
//! Invariants:
//!
//! - **Y1** Extents of layers are provisional: a crash frees them, and so does [`Layers::keep`].
//! - **Y2** A key is in at most one run of a layer, with one message.
//! - **Y3** A layer has either runs or deleted ranges.

mod read;
mod walk;

pub(crate) use walk::LayerWalk;

use crate::maplet::{self, Maplet, MapletSpec};
use crate::run::{Builder, Built, RunOptions};
use alluvium_base::{Message, Sequence};
use alluvium_dictionary::deletes::{List, RangeDeletes};
use alluvium_dictionary::placement::{self, Demand};
use alluvium_dictionary::record::Record;
use alluvium_dictionary::rules::{Keyspace, Schema};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// How layers are written.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) store: Arc<Store>,
    pub(crate) schema: Arc<dyn Schema>,
    pub(crate) run: RunOptions,
    pub(crate) maplet: MapletSpec,
    /// The most bytes of keys and values in a run.
    pub(crate) run_bytes: u64,
    /// Whether each run and each maplet lies where there is space when it is begun, and not where
    /// the options say.
    pub(crate) is_placed: bool,
}

/// Space that a run of unknown length finds on its tier, in bytes.
const BEGINNING: u64 = 16 << 20;

impl How {
    /// Begins a run.
    fn begin(&self) -> Result<Builder> {
        let tier = self.tier(BEGINNING.min(self.run_bytes), self.run.tier);
        let options = RunOptions {
            tier,
            value_tier: tier,
            ..self.run
        };
        Builder::new(&self.store, &options)
    }

    fn tier(&self, bytes: u64, otherwise: u8) -> u8 {
        match self.is_placed {
            true => placement::tier(&self.store, &Demand::newest(bytes)),
            false => otherwise,
        }
    }

    /// Finishes a run and its maplet; none without records and deleted ranges.
    fn finish(&self, builder: Builder) -> Result<Option<Piece>> {
        let Some(mut built) = builder.finish()? else {
            return Ok(None);
        };
        let hashes = std::mem::take(&mut built.hashes);
        let tier = self.tier(0, self.maplet.tier);
        let spec = MapletSpec { tier, ..self.maplet };
        match Maplet::build(&self.store, &spec, hashes, 0) {
            Ok(maplet) => Ok(Some(Piece { built, maplet })),
            Err(error) => {
                built.abandon(&self.store);
                Err(error)
            }
        }
    }
}

/// A run of a layer, with its maplet.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) built: Built,
    pub(crate) maplet: maplet::Written,
}

impl Piece {
    fn abandon(self, store: &Store) {
        // The cache may hold nodes of it. Their checksums tell them from what is written there
        // next.
        self.built.abandon(store);
        self.maplet.abandon(store);
    }

    fn memory_bytes(&self) -> u64 {
        self.built.run.memory_bytes() as u64 + self.maplet.maplet.memory_bytes()
    }
}

/// A layer that has ended.
#[derive(Debug, Default)]
struct Layer {
    pieces: Vec<Piece>,
    /// How many deleted ranges there were up to its end.
    deletes: usize,
    /// What all layers up to its end came to.
    taken: Taken,
}

/// How much was taken.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    records: u64,
    bytes: u64,
}

/// Layers of runs. Dropped, they leave nothing behind.
#[derive(Debug)]
pub(crate) struct Layers {
    how: How,
    layers: Vec<Layer>,
    /// All deleted ranges, in their order; their numbers are those that readers see.
    list: List,
    /// Those of ended layers.
    deletes: Arc<RangeDeletes>,
    /// The runs of the newest layer that are written.
    pieces: Vec<Piece>,
    builder: Option<Builder>,
    keyspace: Keyspace,
    /// Bytes and records of the run that is being built.
    filled: u64,
    building: u64,
    /// The last key of the newest layer.
    last: Option<Vec<u8>>,
    taken: Taken,
}

impl Layers {
    pub(crate) fn new(how: How) -> Layers {
        Layers {
            keyspace: Keyspace::new(&how.schema),
            how,
            layers: Vec::new(),
            list: List::default(),
            deletes: Arc::default(),
            pieces: Vec::new(),
            builder: None,
            filled: 0,
            building: 0,
            last: None,
            taken: Taken::default(),
        }
    }

    /// Adds a message to the newest layer.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the key is not above the one before; nothing was taken then.
    /// [`Error::Full`], and as the device says: the layers can only be dropped then.
    pub(crate) fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        if let Some(last) = self.last.as_deref().filter(|last| *last >= key) {
            let (key, last) = (key.escape_ascii(), last.escape_ascii());
            return Err(Error::BadOption {
                option: "order of an ingest's keys",
                why: format!(
                    "\"{key}\" comes after \"{last}\": sort them, and leave out all but one of equal ones"
                ),
            });
        }
        let len = (key.len() + message.operand.len()) as u64;
        if self.filled > 0 && self.filled + len > self.how.run_bytes {
            self.end_run()?;
        }
        let builder = match &mut self.builder {
            Some(builder) => builder,
            none => {
                self.keyspace = Keyspace::new(&self.how.schema);
                none.insert(self.how.begin()?)
            }
        };
        if let Some(rules) = self.keyspace.enter(key) {
            builder.begin_keyspace(rules.codec, rules.value_threshold)?;
        }
        builder.push(
            key,
            Record::from(Message {
                sequence: 0,
                ..message
            }),
        )?;
        let last = self.last.get_or_insert_with(Vec::new);
        last.clear();
        last.extend_from_slice(key);
        self.filled += len;
        self.building += 1;
        self.taken.bytes += len;
        self.taken.records += 1;
        Ok(())
    }

    /// Adds a deleted range to the newest layer.
    pub(crate) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        assert!(
            self.last.is_none(),
            "a layer has either messages or deleted ranges (Y3)"
        );
        self.list.push(start, end, self.newest());
    }

    /// Ends the newest layer.
    ///
    /// # Errors
    /// As [`Layers::push`].
    pub(crate) fn end_layer(&mut self) -> Result<()> {
        self.end_run()?;
        let ended = self.layers.last().map_or(0, |layer| layer.deletes);
        let has_deletes = self.list.len() > ended;
        assert!(
            self.pieces.is_empty() || !has_deletes,
            "a layer has either messages or deleted ranges (Y3)"
        );
        if has_deletes {
            self.deletes = Arc::new(RangeDeletes::of(&self.list));
        }
        debug_assert!(
            self.builder.is_none() && self.building == 0,
            "a layer ends with its last run"
        );
        self.layers.push(Layer {
            pieces: std::mem::take(&mut self.pieces),
            deletes: self.list.len(),
            taken: self.taken,
        });
        self.last = None;
        Ok(())
    }

    /// Returns whether anything was added since the last layer has ended.
    pub(crate) fn is_open(&self) -> bool {
        let ended = self.layers.last().map_or(0, |layer| layer.deletes);
        self.last.is_some() || self.list.len() > ended
    }

    /// Returns how many layers have ended.
    pub(crate) fn len(&self) -> u64 {
        self.layers.len() as u64
    }

    /// Drops all but the `layers` oldest layers, and what was added since the last has ended.
    pub(crate) fn keep(&mut self, layers: u64) {
        self.give_up_newest();
        let layers = usize::try_from(layers).unwrap_or(usize::MAX);
        while self.layers.len() > layers {
            let dropped = self.layers.pop().expect("there are more");
            self.abandon(dropped.pieces);
        }
        debug_assert!(self.layers.len() <= layers, "what is newer was dropped");
        let kept = self.layers.last();
        let (deletes, taken) = kept.map_or((0, Taken::default()), |layer| (layer.deletes, layer.taken));
        self.taken = taken;
        if self.list.len() > deletes {
            let mut list = List::default();
            for (start, end, sequence) in self.list.iter().take(deletes) {
                list.push(start, end, sequence);
            }
            self.list = list;
            self.deletes = Arc::new(RangeDeletes::of(&self.list));
        }
    }

    /// Returns how many messages were taken.
    pub(crate) fn records(&self) -> u64 {
        self.taken.records
    }

    /// Returns how many bytes of keys and values were taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.taken.bytes
    }

    /// Returns how many messages the run that is being built has.
    pub(crate) fn building(&self) -> u64 {
        self.building
    }

    /// Returns the bytes of memory that ended runs and deleted ranges take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let ended = self.layers.iter().flat_map(|layer| &layer.pieces);
        let pieces = ended.chain(&self.pieces).map(Piece::memory_bytes);
        pieces.sum::<u64>() + 2 * self.deletes.memory_bytes() as u64
    }

    /// Returns the runs of ended layers, the oldest layer first, each with the number of its layer.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, &Piece)> {
        let layers = (0..).zip(&self.layers);
        layers.flat_map(|(number, layer)| layer.pieces.iter().map(move |piece| (number, piece)))
    }

    /// Writes the deleted ranges, as those of the commits from `first` on, to runs of their layers.
    ///
    /// # Errors
    /// As [`Layers::push`].
    pub(crate) fn write_deleted_ranges(&mut self, first: Sequence) -> Result<()> {
        let mut all = self.list.iter().peekable();
        for number in 0..self.layers.len() {
            let (seen, sequence) = (number as u64 + 1, first + number as u64);
            let mut list = List::default();
            while let Some((start, end, _)) = all.next_if(|(_, _, layer)| *layer == seen) {
                list.push(start, end, sequence);
            }
            if list.is_empty() {
                continue;
            }
            let mut builder = self.how.begin()?;
            builder.delete_ranges(Arc::new(RangeDeletes::of(&list)));
            let piece = self.how.finish(builder)?;
            self.layers[number].pieces.extend(piece);
        }
        Ok(())
    }

    /// Hands the runs over: their extents are the caller's.
    pub(crate) fn hand_over(&mut self) -> Vec<Piece> {
        self.give_up_newest();
        self.layers.drain(..).flat_map(|layer| layer.pieces).collect()
    }

    /// Returns the number under which readers see the newest layer.
    fn newest(&self) -> Sequence {
        self.len() + 1
    }

    /// Ends a run, and writes its maplet.
    fn end_run(&mut self) -> Result<()> {
        debug_assert_eq!(
            self.builder.is_some(),
            self.building > 0,
            "a run is begun with its first record"
        );
        (self.filled, self.building) = (0, 0);
        let Some(builder) = self.builder.take() else {
            return Ok(());
        };
        self.pieces.extend(self.how.finish(builder)?);
        Ok(())
    }

    /// Gives up what was added since the last layer has ended.
    fn give_up_newest(&mut self) {
        self.builder = None;
        (self.filled, self.building, self.last) = (0, 0, None);
        let pieces = std::mem::take(&mut self.pieces);
        self.abandon(pieces);
    }

    fn abandon(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            piece.abandon(&self.how.store);
        }
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        self.keep(0);
        assert!(self.pieces.is_empty(), "what is dropped keeps no extents (Y1)");
    }
}
