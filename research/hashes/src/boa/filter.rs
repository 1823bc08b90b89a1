//! The filter of a level, which maps a fingerprint to the runs that may contain it.

use super::run::{BoaRun, RecordFormat, RunCursor};
use crate::blocks::{BlockExtent, BlockSpace, BlockStreamReader, BlockStreamWriter, Result};
use alluvium_filters::fingerprint::{FingerprintAlphabet, WideFingerprint};
use alluvium_filters::routing::{
    RoutingArray, RoutingEntry as Sketch, RoutingGeometry, RoutingListBuilder, RoutingScan, RoutingUpdate,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LevelFilter {
    /// A routing filter: the latest run with each prefix.
    Latest {
        shape: RoutingArray,
        extent: BlockExtent,
    },
    /// A refined filter: all runs with each prefix, with check characters.
    Refined {
        geometry: RoutingGeometry,
        bits: u64,
        table: BlockExtent,
        list: BlockExtent,
    },
}

/// The number of entries per pivot of a refined filter: at least log_λ N for all tables that fit
/// on a machine.
const GROUP: u64 = 12;

impl LevelFilter {
    /// Returns the number of bits in a prefix.
    pub(super) fn prefix_bits(&self) -> u32 {
        match self {
            LevelFilter::Latest { shape, .. } => shape.prefix_bits(),
            LevelFilter::Refined { geometry, .. } => geometry.prefix_bits(),
        }
    }

    /// Returns all extents of the filter.
    pub(super) fn extents(&self) -> Vec<BlockExtent> {
        match self {
            LevelFilter::Latest { extent, .. } => vec![*extent],
            LevelFilter::Refined { table, list, .. } => vec![*table, *list],
        }
    }
}

/// Writes a routing filter while its run is written.
pub(super) struct LatestWriter<'s> {
    update: RoutingUpdate<BlockStreamReader<'s>>,
    writer: BlockStreamWriter<'s>,
    shape: RoutingArray,
    extent: BlockExtent,
    run: u32,
}

impl<'s> LatestWriter<'s> {
    /// Starts to update `old` with the run of index `run`.
    pub(super) fn new(
        space: &'s dyn BlockSpace,
        form: RecordFormat,
        shape: RoutingArray,
        old: Option<BlockExtent>,
        run: u32,
    ) -> Result<LatestWriter<'s>> {
        let chunk = form.machine.chunk();
        let extent = space.allocate(shape.bytes())?;
        let old = old.map(|extent| BlockStreamReader::new(space, extent, chunk));
        let writer = BlockStreamWriter::new(space, extent, chunk);
        Ok(LatestWriter {
            update: RoutingUpdate::new(shape, old, run),
            writer,
            shape,
            extent,
            run,
        })
    }

    /// Adds a fingerprint, and returns the previous run of its prefix, or the new run if there is
    /// none.
    pub(super) fn push(&mut self, fingerprint: WideFingerprint) -> Result<u8> {
        let prefix = (fingerprint.0 >> (128 - self.shape.prefix_bits().max(1))) as u64;
        let prefix = if self.shape.prefix_bits() == 0 { 0 } else { prefix };
        let previous = self.update.group(prefix)?.unwrap_or(self.run);
        self.writer.put(&self.update.take())?;
        Ok(previous as u8)
    }

    /// Copies the rest of the old filter.
    pub(super) fn finish(mut self) -> Result<LevelFilter> {
        while !self.update.copy(1 << 16)? {
            self.writer.put(&self.update.take())?;
        }
        self.writer.put(&self.update.finish()?)?;
        self.writer.finish()?;
        Ok(LevelFilter::Latest {
            shape: self.shape,
            extent: self.extent,
        })
    }
}

/// Reads the sketches of a run: each prefix with its check characters, without duplicates.
struct SketchReader<'s> {
    cursor: RunCursor<'s>,
    alphabet: FingerprintAlphabet,
    prefix_bits: u32,
    level: u32,
    pending: Vec<Sketch>,
    ahead: Option<WideFingerprint>,
    started: bool,
}

impl SketchReader<'_> {
    fn next(&mut self) -> Result<Option<Sketch>> {
        if !self.started {
            self.started = true;
            self.ahead = self.cursor.next()?.map(|entry| entry.fingerprint);
        }
        while self.pending.is_empty() {
            let Some(first) = self.ahead else { return Ok(None) };
            let prefix = self.alphabet.prefix(first, self.prefix_bits);
            while let Some(at) = self
                .ahead
                .filter(|at| self.alphabet.prefix(*at, self.prefix_bits) == prefix)
            {
                let payload = self.alphabet.check(at, self.level);
                if !self.pending.iter().any(|sketch| sketch.payload == payload) {
                    self.pending.push(Sketch { prefix, payload });
                }
                self.ahead = self.cursor.next()?.map(|entry| entry.fingerprint);
            }
            self.pending.sort_unstable_by(|a, b| b.cmp(a));
        }
        Ok(self.pending.pop())
    }
}

/// The parameters of a refined filter other than its runs.
#[derive(Clone, Copy)]
pub(super) struct SketchParameters {
    pub(super) alphabet: FingerprintAlphabet,
    pub(super) prefix_bits: u32,
    pub(super) level: u32,
}

/// Writes a refined filter that includes one more run, which must already be written. One pass
/// counts the run's sketches, and a second pass merges them.
pub(super) fn refine(
    space: &dyn BlockSpace,
    form: RecordFormat,
    old: Option<&LevelFilter>,
    characters: SketchParameters,
    run: &BoaRun,
    index: u32,
) -> Result<LevelFilter> {
    let SketchParameters {
        alphabet,
        prefix_bits,
        level,
    } = characters;
    let sketches = || SketchReader {
        cursor: RunCursor::new(space, form, run.clone()),
        alphabet,
        prefix_bits,
        level,
        pending: Vec::new(),
        ahead: None,
        started: false,
    };
    let mut count = 0;
    let mut counted = sketches();
    while counted.next()?.is_some() {
        count += 1;
    }
    let chunk = form.machine.chunk();
    let mut scan = match old {
        Some(LevelFilter::Refined {
            geometry,
            bits,
            table,
            list,
        }) => {
            count += geometry.entries();
            Some(RoutingScan::new(
                *geometry,
                *bits,
                BlockStreamReader::new(space, *list, chunk),
                BlockStreamReader::new(space, *table, chunk),
            ))
        }
        _ => None,
    };
    let geometry = RoutingGeometry::new(count, prefix_bits, 2 * alphabet.character_bits(), GROUP)?;
    let mut out = ListWriter::new(space, chunk, geometry)?;
    let mut known = || scan.as_mut().map_or(Ok(None), RoutingScan::next);
    let (mut old, mut new) = (known()?, sketches());
    while let Some(sketch) = new.next()? {
        // The new run is the youngest, so its sketches come last among equal prefixes.
        while let Some(entry) = old.filter(|old| old.prefix <= sketch.prefix) {
            out.push(entry)?;
            old = known()?;
        }
        let payload = sketch.payload | index << alphabet.character_bits();
        out.push(Sketch { payload, ..sketch })?;
    }
    while let Some(entry) = old {
        out.push(entry)?;
        old = known()?;
    }
    out.finish()
}

struct ListWriter<'s> {
    space: &'s dyn BlockSpace,
    geometry: RoutingGeometry,
    builder: RoutingListBuilder,
    table: BlockStreamWriter<'s>,
    list: BlockStreamWriter<'s>,
    extents: [BlockExtent; 2],
}

impl<'s> ListWriter<'s> {
    fn new(space: &'s dyn BlockSpace, chunk: usize, geometry: RoutingGeometry) -> Result<ListWriter<'s>> {
        let table = space.allocate(geometry.table_bytes())?;
        let list = space.allocate(geometry.worst_bits().div_ceil(8))?;
        Ok(ListWriter {
            space,
            geometry,
            builder: RoutingListBuilder::new(geometry),
            table: BlockStreamWriter::new(space, table, chunk),
            list: BlockStreamWriter::new(space, list, chunk),
            extents: [table, list],
        })
    }

    fn push(&mut self, sketch: Sketch) -> Result<()> {
        self.builder.push(sketch);
        if self.builder.ready() >= 256 {
            self.list.put(&self.builder.take_list())?;
            self.table.put(&self.builder.take_table())?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<LevelFilter> {
        let (bits, list, table) = self.builder.finish();
        self.list.put(&list)?;
        self.table.put(&table)?;
        self.table.finish()?;
        let bytes = self.list.finish()?;
        let [table, list] = self.extents;
        let list = self.space.trim(list, bytes)?;
        Ok(LevelFilter::Refined {
            geometry: self.geometry,
            bits,
            table,
            list,
        })
    }
}
