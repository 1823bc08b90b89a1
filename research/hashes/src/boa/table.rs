//! A table of levels: the buffer, and how it is flushed to levels.

use super::filter::{LatestWriter, LevelFilter, SketchParameters, refine};
use super::format::{MAX_LEVELS, ROOT_KIND};
use super::merge::{DuplicateFilter, RecordMerge};
use super::options::{BoaOptions, BoaStructure, DuplicateHandling};
use super::run::{BoaRun, BoaRunLayout, BoaRunWriter, RecordFormat};
use crate::blocks::{BlockExtent, BlockSpace, Result, SpaceTransaction, commit_state, read_state};
use crate::records::{RecordBody, TableRecord};
use alluvium_filters::fingerprint::{FingerprintAlphabet, FingerprintFamily};
use alluvium_filters::routing::RoutingArray;
use std::cell::Cell;

/// A level: its runs, the oldest first, and their filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BoaLevel {
    pub(super) runs: Vec<BoaRun>,
    pub(super) filter: Option<LevelFilter>,
}

/// The complete state of a table.
#[derive(Clone, Debug)]
pub(super) struct BoaState {
    pub(super) options: BoaOptions,
    pub(super) family: FingerprintFamily,
    pub(super) alphabet: FingerprintAlphabet,
    pub(super) levels: Vec<BoaLevel>,
    /// The buffered records, the oldest first.
    pub(super) buffer: Vec<TableRecord>,
    pub(super) buffer_bytes: u64,
    /// The numbers of puts and deletes since the last rebuild.
    pub(super) puts: u64,
    pub(super) deletes: u64,
}

/// The counters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoaCounters {
    /// Records written by merges, including those from the buffer.
    pub merged_records: u64,
    pub merges: u64,
    pub rebuilds: u64,
    /// The number of levels visited by lookups.
    pub levels_asked: u64,
    /// The number of runs searched by lookups.
    pub runs_searched: u64,
    /// The number of runs searched without a match.
    pub false_positives: u64,
}

/// A hash table in external memory: a bundle of arrays, or one of its baselines.
///
/// Failed operations change nothing. Uncommitted changes are lost in a crash: a log above the
/// table must preserve them.
///
/// ```
/// use research_hashes::blocks::MemoryBlockSpace;
/// use research_hashes::boa::{BoaTable, BoaStructure, BoaOptions};
/// let options = BoaOptions::new(BoaStructure::Routed, 512, 16384);
/// let mut table = BoaTable::create(MemoryBlockSpace::new(512, 1 << 24), options)?;
/// for key in 0u32..1000 {
///     table.insert(&key.to_le_bytes(), b"value")?;
/// }
/// table.delete(&7u32.to_le_bytes())?;
/// assert_eq!(table.get(&8u32.to_le_bytes())?.as_deref(), Some(&b"value"[..]));
/// assert_eq!(table.get(&7u32.to_le_bytes())?, None);
/// table.commit()?;
/// let again = BoaTable::open(table.into_space().crashed())?;
/// assert_eq!(again.get(&7u32.to_le_bytes())?, None);
/// # Ok::<(), research_hashes::blocks::Error>(())
/// ```
#[derive(Debug)]
pub struct BoaTable<S> {
    pub(super) space: S,
    pub(super) state: BoaState,
    pub(super) committed: Option<BlockExtent>,
    pub(super) figures: Cell<BoaCounters>,
}

impl BoaState {
    pub(super) fn new(options: BoaOptions) -> Result<BoaState> {
        let family = options.family(options.fingerprint_bits)?;
        let alphabet = FingerprintAlphabet::new(options.fingerprint_bits, options.growth)?;
        Ok(BoaState {
            options,
            family,
            alphabet,
            levels: Vec::new(),
            buffer: Vec::new(),
            buffer_bytes: 0,
            puts: 0,
            deletes: 0,
        })
    }

    pub(super) fn form(&self) -> RecordFormat {
        RecordFormat {
            machine: self.options.machine,
            width: self.family.width(),
        }
    }

    /// Returns the size of a full level in bytes; the first level is 1.
    pub(super) fn capacity(&self, level: usize) -> u64 {
        let block = self.options.block_bytes() as u64;
        block.saturating_mul(u64::from(self.options.growth).saturating_pow(level as u32))
    }

    /// Returns the level that receives the buffer, counted from one. All levels above it are
    /// merged, and in a leveled table that level as well.
    fn destination(&self) -> usize {
        let mut bytes = self.buffer_bytes;
        for (above, level) in self.levels.iter().enumerate() {
            if self.options.kind == BoaStructure::Leveled {
                bytes += level.runs.iter().map(|run| run.bytes).sum::<u64>();
                if bytes <= self.capacity(above + 1) {
                    return above + 1;
                }
            } else if level.runs.len() + 1 < self.options.growth as usize {
                return above + 1;
            }
        }
        self.levels.len() + 1
    }

    /// Returns the prefix length in bits of a level whose first run has `entries` records.
    fn prefix_bits(&self, entries: u64) -> u32 {
        let log = 64 - entries.max(1).saturating_sub(1).leading_zeros();
        let beta = self.options.beta_bits.unwrap_or(self.alphabet.character_bits());
        (log + beta).clamp(1, 48).min(self.family.width())
    }

    /// Returns whether fingerprints are long enough for a level whose first run has `entries`
    /// records.
    pub(super) fn fits(&self, level: usize, entries: u64) -> bool {
        let checks = if self.options.kind == BoaStructure::Refined {
            level as u32
        } else {
            0
        };
        let beta = self.options.beta_bits.unwrap_or(self.alphabet.character_bits());
        let log = 64 - entries.max(1).saturating_sub(1).leading_zeros();
        self.alphabet.fits((log + beta).clamp(1, 48), checks)
    }

    /// Returns the buffer's records in the order of a run (O2).
    fn sorted_buffer(&self) -> Vec<TableRecord> {
        let mut entries: Vec<TableRecord> = self.buffer.iter().rev().cloned().collect();
        entries.sort_by_key(|entry| entry.fingerprint);
        entries
    }

    /// Merges the buffer and all levels above into a level, and returns the new state.
    pub(super) fn flush_buffer(&self, space: &dyn BlockSpace, figures: &mut BoaCounters) -> Result<BoaState> {
        let (level, leveled) = (self.destination(), self.options.kind == BoaStructure::Leveled);
        let merged = if leveled { level } else { level - 1 };
        let above = &self.levels[..merged.min(self.levels.len())];
        let runs: Vec<BoaRun> = above
            .iter()
            .flat_map(|level| level.runs.iter().rev().cloned())
            .collect();
        let last = self.levels.iter().skip(merged).all(|level| level.runs.is_empty());
        self.merge_into_level(space, level, &runs, last, figures)
    }

    /// Merges the buffer and `runs`, the newest first, into a new run of a level.
    pub(super) fn merge_into_level(
        &self,
        space: &dyn BlockSpace,
        level: usize,
        runs: &[BoaRun],
        last: bool,
        figures: &mut BoaCounters,
    ) -> Result<BoaState> {
        assert!(
            (1..=MAX_LEVELS as usize).contains(&level),
            "a table has levels enough"
        );
        let form = self.form();
        let mut buffer = self.sorted_buffer();
        for entry in &mut buffer {
            entry.write_out_of_line(form.longest_body(), space)?;
        }
        let bytes: u64 = buffer.iter().map(|entry| entry.bytes(form.width)).sum();
        let entries = buffer.len() as u64 + runs.iter().map(|run| run.entries).sum::<u64>();
        let bytes = bytes + runs.iter().map(|run| run.bytes).sum::<u64>();
        let mut next = self.clone();
        for level in &mut next.levels {
            level.runs.retain(|run| !runs.contains(run));
            if level.runs.is_empty() {
                let filter = level.filter.take();
                filter
                    .iter()
                    .flat_map(LevelFilter::extents)
                    .for_each(|extent| space.release(extent));
            }
        }
        next.levels
            .resize_with(next.levels.len().max(level), BoaLevel::default);
        (next.buffer, next.buffer_bytes) = (Vec::new(), 0);
        let merge = RecordMerge::new(space, form, self.options.fan_in(), buffer, runs.to_vec())?;
        let folds = (self.options.duplicates == DuplicateHandling::Fold).then(|| {
            DuplicateFilter::new(
                self.options.fan_in() as u64 * self.options.block_bytes() as u64,
                last,
            )
        });
        let written = next.install(space, level, merge, folds, entries, bytes)?;
        // The runs are released only now. An earlier release would allow the step to overwrite
        // their bytes while it reads them.
        runs.iter()
            .flat_map(BoaRun::extents)
            .for_each(|extent| space.release(extent));
        figures.merges += 1;
        figures.merged_records += written;
        Ok(next)
    }

    /// Writes the merged records as the newest run of a level, with the level's filter.
    pub(super) fn install(
        &mut self,
        space: &dyn BlockSpace,
        level: usize,
        mut merge: RecordMerge<'_>,
        mut fold: Option<DuplicateFilter>,
        entries: u64,
        bytes: u64,
    ) -> Result<u64> {
        let (form, kind) = (self.form(), self.options.kind);
        let (alphabet, fresh) = (self.alphabet, self.prefix_bits(entries));
        let place = &self.levels[level - 1];
        let index = place.runs.len() as u32;
        let old = place.filter.clone();
        let prefix_bits = old.as_ref().map_or(fresh, LevelFilter::prefix_bits);
        let layout = match kind {
            BoaStructure::Leveled | BoaStructure::Tiered => BoaRunLayout::Packed,
            BoaStructure::Interpolated | BoaStructure::Routed | BoaStructure::Refined => {
                BoaRunLayout::Buckets
            }
        };
        let mut writer = BoaRunWriter::new(space, form, layout, prefix_bits, bytes)?;
        let mut latest = None;
        if kind == BoaStructure::Routed {
            let extent = old.as_ref().and_then(|filter| filter.extents().first().copied());
            let shape = RoutingArray::new(prefix_bits, alphabet.character_bits())?;
            latest = Some(LatestWriter::new(space, form, shape, extent, index)?);
        }
        let mut written = 0;
        while let Some(mut entry) = merge.next()? {
            if let Some(fold) = &mut fold
                && !fold.keeps(&entry, space)?
            {
                if let RecordBody::Outside(extent) = entry.body {
                    space.release(extent);
                }
                continue;
            }
            if let Some(latest) = &mut latest {
                entry.previous = latest.push(entry.fingerprint)?;
            }
            writer.push(&entry)?;
            written += 1;
        }
        merge.end();
        let run = writer.finish()?;
        let mut filter = latest.map(LatestWriter::finish).transpose()?;
        if kind == BoaStructure::Refined {
            let characters = SketchParameters {
                alphabet,
                prefix_bits,
                level: self.check_level(level, prefix_bits),
            };
            filter = Some(refine(space, form, old.as_ref(), characters, &run, index)?);
        }
        old.iter()
            .flat_map(LevelFilter::extents)
            .for_each(|extent| space.release(extent));
        let place = &mut self.levels[level - 1];
        place.filter = filter;
        place.runs.push(run);
        Ok(written)
    }

    /// Returns the check character of a level: its own, as long as the fingerprint is long
    /// enough.
    pub(super) fn check_level(&self, level: usize, prefix_bits: u32) -> u32 {
        let free = self.family.width().saturating_sub(prefix_bits) / self.alphabet.character_bits();
        (level as u32).min(free.max(1))
    }
}

impl<S: BlockSpace> BoaTable<S> {
    /// Creates an empty table in a space.
    ///
    /// # Errors
    /// [`Error::Shape`] when the options are invalid.
    pub fn create(space: S, options: BoaOptions) -> Result<BoaTable<S>> {
        let state = BoaState::new(options.checked()?)?;
        Ok(BoaTable {
            space,
            state,
            committed: None,
            figures: Cell::default(),
        })
    }

    /// Opens a table at its last commit.
    ///
    /// # Errors
    /// When it cannot be read, or is not a table.
    pub fn open(space: S) -> Result<BoaTable<S>> {
        let (extent, bytes) = read_state(&space, ROOT_KIND)?;
        let state = BoaState::decode(&bytes).map_err(|error| error.within(extent.at))?;
        Ok(BoaTable {
            space,
            state,
            committed: Some(extent),
            figures: Cell::default(),
        })
    }

    /// Makes the current state of the table durable, including its buffer.
    ///
    /// # Errors
    /// When the space fails: the last commit remains valid.
    pub fn commit(&mut self) -> Result<()> {
        let state = self.state.encode();
        commit_state(&self.space, ROOT_KIND, &state, &mut self.committed)
    }

    /// Inserts a key, or replaces its value.
    ///
    /// # Errors
    /// When the space fails: the table is unchanged.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, Some(value))
    }

    /// Deletes a key, whether or not it exists.
    ///
    /// # Errors
    /// The errors of [`BoaTable::insert`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.put(key, None)
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let bytes = crate::records::entry_bytes(self.state.family.width(), (key.len() + 5) as u64)
            + value.map_or(0, <[u8]>::len) as u64;
        if self.rebuild_is_due() {
            self.rebuild()?;
        }
        let full = self.state.options.block_bytes() as u64;
        // Several flushes are needed after a rebuild with longer fingerprints, which refills the
        // buffer.
        while self.state.buffer_bytes + bytes > full && !self.state.buffer.is_empty() {
            self.flush()?;
        }
        // The fingerprint is computed last, since a flush may have lengthened fingerprints.
        let entry = TableRecord::new(self.state.family.of(key), key, value)?;
        self.state.buffer_bytes += entry.bytes(self.state.family.width());
        self.state.buffer.push(entry);
        match value {
            Some(_) => self.state.puts += 1,
            None => self.state.deletes += 1,
        }
        Ok(())
    }

    /// Flushes the buffer to the levels.
    fn flush(&mut self) -> Result<()> {
        let level = self.state.destination();
        let entries = self.state.buffer.len() as u64
            + self.state.levels[..level - 1]
                .iter()
                .flat_map(|level| &level.runs)
                .map(|run| run.entries)
                .sum::<u64>();
        let opens = self
            .state
            .levels
            .get(level - 1)
            .is_none_or(|level| level.runs.is_empty());
        if opens && !self.state.fits(level, entries) && self.state.family.width() < 128 {
            return self.widen();
        }
        let mut figures = self.figures.get();
        let draft = SpaceTransaction::new(&self.space);
        let next = self.state.flush_buffer(&draft, &mut figures)?;
        draft.apply_releases();
        self.state = next;
        self.figures.set(figures);
        Ok(())
    }

    /// Returns the options, with the table's current fingerprint length.
    #[must_use]
    pub fn options(&self) -> BoaOptions {
        BoaOptions {
            fingerprint_bits: self.state.family.width(),
            ..self.state.options
        }
    }

    /// Returns the counters of the table.
    #[must_use]
    pub fn figures(&self) -> BoaCounters {
        self.figures.get()
    }

    /// Returns the number of runs on each level.
    #[must_use]
    pub fn runs(&self) -> Vec<usize> {
        self.state.levels.iter().map(|level| level.runs.len()).collect()
    }

    /// Returns, for each run, the size of its fullest bucket and the mean size of its buckets, in
    /// bytes.
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, f64)> {
        let runs = self.state.levels.iter().flat_map(|level| &level.runs);
        runs.map(|run| (run.fullest, run.bytes as f64 / run.buckets as f64))
            .collect()
    }

    /// Returns, for each level, the number of its records and the size of its filter in bytes.
    #[must_use]
    pub fn filter_bytes(&self) -> Vec<(u64, u64)> {
        let levels = self.state.levels.iter().filter(|level| !level.runs.is_empty());
        levels
            .map(|level| {
                let filter = level
                    .filter
                    .iter()
                    .flat_map(LevelFilter::extents)
                    .map(|extent| extent.bytes)
                    .sum();
                (level.runs.iter().map(|run| run.entries).sum(), filter)
            })
            .collect()
    }

    pub fn space(&self) -> &S {
        &self.space
    }

    /// Consumes the table and returns the space.
    #[must_use]
    pub fn into_space(self) -> S {
        self.space
    }
}
