//! The filter of a level, which maps a fingerprint to the runs that may contain it.

use super::run::{Form, Run, RunCursor};
use crate::blocks::{Extent, Reader, Result, Space, Writer};
use alluvium_filters::fingerprint::{Alphabet, WideFingerprint};
use alluvium_filters::routing::{Builder, Entry as Sketch, Geometry, Latest, Scan, Update};

/// A level's filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// A routing filter: the latest run with each prefix.
    Latest { shape: Latest, extent: Extent },
    /// A refined filter: all runs with each prefix, with check characters.
    Refined {
        geometry: Geometry,
        bits: u64,
        table: Extent,
        list: Extent,
    },
}

/// The number of entries per pivot of a refined filter: at least log_λ N for all tables that fit
/// on a machine.
const GROUP: u64 = 12;

impl Filter {
    /// Returns the number of bits in a prefix.
    pub(super) fn prefix_bits(&self) -> u32 {
        match self {
            Filter::Latest { shape, .. } => shape.prefix_bits(),
            Filter::Refined { geometry, .. } => geometry.prefix_bits(),
        }
    }

    /// Returns all extents of the filter.
    pub(super) fn extents(&self) -> Vec<Extent> {
        match self {
            Filter::Latest { extent, .. } => vec![*extent],
            Filter::Refined { table, list, .. } => vec![*table, *list],
        }
    }
}

/// Writes a routing filter while its run is written.
pub(super) struct LatestWriter<'s> {
    update: Update<Reader<'s>>,
    writer: Writer<'s>,
    shape: Latest,
    extent: Extent,
    run: u32,
}

impl<'s> LatestWriter<'s> {
    /// Starts to update `old` with the run of index `run`.
    pub(super) fn new(
        space: &'s dyn Space,
        form: Form,
        shape: Latest,
        old: Option<Extent>,
        run: u32,
    ) -> Result<LatestWriter<'s>> {
        let chunk = form.machine.chunk();
        let extent = space.allocate(shape.bytes())?;
        let old = old.map(|extent| Reader::new(space, extent, chunk));
        let writer = Writer::new(space, extent, chunk);
        Ok(LatestWriter {
            update: Update::new(shape, old, run),
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
    pub(super) fn finish(mut self) -> Result<Filter> {
        while !self.update.copy(1 << 16)? {
            self.writer.put(&self.update.take())?;
        }
        self.writer.put(&self.update.finish()?)?;
        self.writer.finish()?;
        Ok(Filter::Latest {
            shape: self.shape,
            extent: self.extent,
        })
    }
}

/// Reads the sketches of a run: each prefix with its check characters, without duplicates.
struct Sketches<'s> {
    cursor: RunCursor<'s>,
    alphabet: Alphabet,
    prefix_bits: u32,
    level: u32,
    pending: Vec<Sketch>,
    ahead: Option<WideFingerprint>,
    started: bool,
}

impl Sketches<'_> {
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
pub(super) struct Characters {
    pub(super) alphabet: Alphabet,
    pub(super) prefix_bits: u32,
    pub(super) level: u32,
}

/// Writes a refined filter that includes one more run, which must already be written. One pass
/// counts the run's sketches, and a second pass merges them.
pub(super) fn refine(
    space: &dyn Space,
    form: Form,
    old: Option<&Filter>,
    characters: Characters,
    run: &Run,
    index: u32,
) -> Result<Filter> {
    let Characters {
        alphabet,
        prefix_bits,
        level,
    } = characters;
    let sketches = || Sketches {
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
        Some(Filter::Refined {
            geometry,
            bits,
            table,
            list,
        }) => {
            count += geometry.entries();
            Some(Scan::new(
                *geometry,
                *bits,
                Reader::new(space, *list, chunk),
                Reader::new(space, *table, chunk),
            ))
        }
        _ => None,
    };
    let geometry = Geometry::new(count, prefix_bits, 2 * alphabet.character_bits(), GROUP)?;
    let mut out = ListWriter::new(space, chunk, geometry)?;
    let mut known = || scan.as_mut().map_or(Ok(None), Scan::next);
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
    space: &'s dyn Space,
    geometry: Geometry,
    builder: Builder,
    table: Writer<'s>,
    list: Writer<'s>,
    extents: [Extent; 2],
}

impl<'s> ListWriter<'s> {
    fn new(space: &'s dyn Space, chunk: usize, geometry: Geometry) -> Result<ListWriter<'s>> {
        let table = space.allocate(geometry.table_bytes())?;
        let list = space.allocate(geometry.worst_bits().div_ceil(8))?;
        Ok(ListWriter {
            space,
            geometry,
            builder: Builder::new(geometry),
            table: Writer::new(space, table, chunk),
            list: Writer::new(space, list, chunk),
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

    fn finish(mut self) -> Result<Filter> {
        let (bits, list, table) = self.builder.finish();
        self.list.put(&list)?;
        self.table.put(&table)?;
        self.table.finish()?;
        let bytes = self.list.finish()?;
        let [table, list] = self.extents;
        let list = self.space.trim(list, bytes)?;
        Ok(Filter::Refined {
            geometry: self.geometry,
            bits,
            table,
            list,
        })
    }
}
