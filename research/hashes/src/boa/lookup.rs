//! Lookups: levels are searched from the newest, and on each level the runs that its filter
//! lists.

use super::filter::LevelFilter;
use super::options::BoaStructure;
use super::run::{BoaRun, BoaRunLayout, RecordFormat};
use super::table::{BoaCounters, BoaState, BoaTable};
use crate::blocks::{BlockSpace, BlockStreamReader, Error, Result};
use crate::records::{KeyLookup, RecordSource, SliceSource, TableRecord, decode};
use alluvium_filters::fingerprint::WideFingerprint;

/// The result of searching a run.
struct RunSearchOutcome {
    hits: usize,
    /// The previous pointer of the prefix's records, if the run contains any.
    previous: Option<u8>,
}

impl<S: BlockSpace> BoaTable<S> {
    /// Returns the value of a key; `None` if it was never inserted, or deleted since.
    ///
    /// The search ends at the newest record of the key.
    ///
    /// # Errors
    /// When a read fails, or the bytes are damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.search(key, false)?.into_iter().next().flatten())
    }

    /// Returns all records of a key that still exist, the newest first; `None` represents a
    /// delete.
    ///
    /// # Errors
    /// The errors of [`BoaTable::get`].
    pub fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        self.search(key, true)
    }

    fn search(&self, key: &[u8], all: bool) -> Result<Vec<Option<Vec<u8>>>> {
        let mut wanted = KeyLookup::new(key, self.state.family.of(key), all);
        wanted.search_buffer(&self.state.buffer, &self.space)?;
        let mut figures = self.figures.get();
        for level in 1..=self.state.levels.len() {
            if wanted.is_done() {
                break;
            }
            if !self.state.levels[level - 1].runs.is_empty() {
                figures.levels_asked += 1;
                self.state
                    .search_level(level, &mut wanted, &self.space, &mut figures)?;
            }
        }
        self.figures.set(figures);
        Ok(wanted.found)
    }
}

impl BoaState {
    fn search_level(
        &self,
        level: usize,
        wanted: &mut KeyLookup<'_>,
        space: &dyn BlockSpace,
        figures: &mut BoaCounters,
    ) -> Result<()> {
        let place = &self.levels[level - 1];
        let form = self.form();
        let mut search = |run: &BoaRun, wanted: &mut KeyLookup<'_>| -> Result<RunSearchOutcome> {
            let searched = search_run(run, form, wanted, space)?;
            figures.runs_searched += 1;
            figures.false_positives += u64::from(searched.hits == 0);
            Ok(searched)
        };
        match &place.filter {
            None => {
                for run in place.runs.iter().rev() {
                    search(run, wanted)?;
                    if wanted.is_done() {
                        break;
                    }
                }
            }
            Some(LevelFilter::Latest { shape, extent }) => {
                let prefix = self.alphabet.prefix(wanted.fingerprint, shape.prefix_bits());
                let range = shape.place(prefix);
                let mut bytes = vec![0; (range.end - range.start) as usize];
                space.read(extent.place(range.start, range.end - range.start)?, &mut bytes)?;
                let mut next = shape.read(&bytes, prefix)?;
                while let Some(index) = next {
                    let run = run_at(&place.runs, index, extent.at)?;
                    let searched = search(run, wanted)?;
                    if wanted.is_done() {
                        break;
                    }
                    let Some(previous) = searched.previous.map(u32::from) else {
                        let found = "no record with the prefix";
                        return Err(Error::damaged(
                            run.extent.at,
                            "run",
                            "what its filter names (O4)",
                            found,
                        ));
                    };
                    if previous > index {
                        return Err(Error::damaged(
                            run.extent.at,
                            "previous run",
                            format!("at most {index}"),
                            previous,
                        ));
                    }
                    next = (previous != index).then_some(previous);
                }
            }
            Some(filter @ LevelFilter::Refined { .. }) => {
                for index in self.matches(level, filter, wanted.fingerprint, space)? {
                    search(run_at(&place.runs, index, filter.extents()[0].at)?, wanted)?;
                    if wanted.is_done() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the runs with matching sketches, the newest first.
    fn matches(
        &self,
        level: usize,
        filter: &LevelFilter,
        wanted: WideFingerprint,
        space: &dyn BlockSpace,
    ) -> Result<Vec<u32>> {
        let LevelFilter::Refined {
            geometry,
            bits,
            table,
            list,
        } = filter
        else {
            return Ok(Vec::new());
        };
        let prefix = self.alphabet.prefix(wanted, geometry.prefix_bits());
        let range = geometry.table_place(prefix);
        let mut bytes = vec![0; (range.end - range.start) as usize];
        space.read(table.place(range.start, range.end - range.start)?, &mut bytes)?;
        let part = geometry.part(&bytes, prefix, *bits)?;
        let range = part.bytes();
        let length = range.end.saturating_sub(range.start);
        let place = list.place(range.start, length)?;
        bytes.resize(length as usize, 0);
        space.read(place, &mut bytes)?;
        let check_level = self.check_level(level, geometry.prefix_bits());
        let check = self.alphabet.check(wanted, check_level);
        let mask = self.alphabet.characters() - 1;
        let payloads = geometry.payloads(&part, &bytes, prefix)?;
        let matches = payloads
            .into_iter()
            .rev()
            .filter(|payload| payload & mask == check);
        Ok(matches
            .map(|payload| payload >> self.alphabet.character_bits())
            .collect())
    }
}

fn run_at(runs: &[BoaRun], index: u32, at: u64) -> Result<&BoaRun> {
    let found = runs.get(index as usize);
    found.ok_or_else(|| {
        Error::damaged(
            at,
            "run that a filter names",
            format!("below {}", runs.len()),
            index,
        )
    })
}

/// Searches a run for records of the wanted key, the newest first.
fn search_run(
    run: &BoaRun,
    form: RecordFormat,
    wanted: &mut KeyLookup<'_>,
    space: &dyn BlockSpace,
) -> Result<RunSearchOutcome> {
    let mut searched = RunSearchOutcome {
        hits: 0,
        previous: None,
    };
    let mut bucket = run.first_bucket(form, space, wanted.fingerprint)?;
    loop {
        let (head, block) = run.bucket(form, space, bucket)?;
        let mut slice = SliceSource {
            bytes: &block,
            place: run.extent.at,
        };
        let mut ended = search_bytes(run, form, &mut slice, wanted, space, &mut searched)?;
        if !ended && let Some(extent) = run.overflow_of(&head)? {
            let mut overflow = BlockStreamReader::new(space, extent, form.machine.chunk());
            ended = search_bytes(run, form, &mut overflow, wanted, space, &mut searched)?;
        }
        bucket += 1;
        if ended || run.layout == BoaRunLayout::Buckets || bucket >= run.buckets {
            return Ok(searched);
        }
    }
}

/// Searches records, and returns whether the search has ended.
fn search_bytes(
    run: &BoaRun,
    form: RecordFormat,
    bytes: &mut impl RecordSource,
    wanted: &mut KeyLookup<'_>,
    space: &dyn BlockSpace,
    searched: &mut RunSearchOutcome,
) -> Result<bool> {
    let prefix = run.prefix(wanted.fingerprint);
    while bytes.left() > 0 {
        let entry: TableRecord = decode(bytes, form.width)?;
        if run.layout == BoaRunLayout::Buckets && run.prefix(entry.fingerprint) == prefix {
            searched.previous = Some(entry.previous);
        }
        if entry.fingerprint > wanted.fingerprint {
            // A later record of the prefix may still contain the pointer.
            if run.layout == BoaRunLayout::Packed
                || run.prefix(entry.fingerprint) > prefix
                || searched.previous.is_some()
            {
                return Ok(true);
            }
        } else if entry.fingerprint == wanted.fingerprint
            && let Some(value) = entry.value_of(wanted.key, space)?
        {
            searched.hits += 1;
            wanted.found.push(value);
            if wanted.is_done() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

impl BoaStructure {
    /// Returns whether the levels of this structure have filters.
    #[must_use]
    pub fn has_filters(self) -> bool {
        matches!(self, BoaStructure::Routed | BoaStructure::Refined)
    }
}
