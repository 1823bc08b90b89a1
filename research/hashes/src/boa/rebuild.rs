//! Rebuilding: drops deleted and replaced records, and lengthens fingerprints.

use super::merge::{DuplicateFilter, RecordMerge};
use super::options::BoaOptions;
use super::run::BoaRun;
use super::table::{BoaLevel, BoaState, BoaTable};
use crate::blocks::{BlockSpace, Result, SpaceTransaction};
use crate::records::RecordBody;

impl<S: BlockSpace> BoaTable<S> {
    /// Returns whether the number of deletes since the last rebuild is at least half the number
    /// of puts (Conway §2.2).
    pub(super) fn rebuild_is_due(&self) -> bool {
        let records_of_a_block = 16;
        self.state.deletes * 2 >= self.state.puts.max(4 * records_of_a_block)
    }

    /// Merges everything into one run, without deletes, deleted records and replaced records.
    ///
    /// # Errors
    /// When the space fails: the table is unchanged.
    pub fn rebuild(&mut self) -> Result<()> {
        let mut figures = self.figures.get();
        let draft = SpaceTransaction::new(&self.space);
        let state = &self.state;
        let levels = state.levels.iter();
        let runs: Vec<BoaRun> = levels
            .flat_map(|level| level.runs.iter().rev().cloned())
            .collect();
        let bytes = state.buffer_bytes + runs.iter().map(|run| run.bytes).sum::<u64>();
        let level = (1..)
            .find(|&level| state.capacity(level - 1) >= bytes)
            .unwrap_or(1);
        let next = state.merge_all_runs(&draft, level, &runs, &mut figures)?;
        draft.apply_releases();
        self.state = next;
        figures.rebuilds += 1;
        self.figures.set(figures);
        Ok(())
    }

    /// Doubles the length of fingerprints, and reinserts all records.
    pub(super) fn widen(&mut self) -> Result<()> {
        let width = (2 * self.state.family.width()).min(128);
        let mut figures = self.figures.get();
        let draft = SpaceTransaction::new(&self.space);
        let old = &self.state;
        let options = BoaOptions {
            fingerprint_bits: width,
            ..old.options
        };
        let mut next = BoaState::new(options)?;
        let levels = old.levels.iter();
        let runs: Vec<BoaRun> = levels
            .flat_map(|level| level.runs.iter().rev().cloned())
            .collect();
        let released = runs.clone();
        let buffer = {
            let mut entries: Vec<_> = old.buffer.iter().rev().cloned().collect();
            entries.sort_by_key(|entry| entry.fingerprint);
            entries
        };
        let mut merge = RecordMerge::new(&draft, old.form(), old.options.fan_in(), buffer, runs)?;
        let mut fold = DuplicateFilter::new(old.memory(), true);
        while let Some(mut entry) = merge.next()? {
            if !fold.keeps(&entry, &draft)? {
                if let RecordBody::Outside(extent) = entry.body {
                    draft.release(extent);
                }
                continue;
            }
            let (key, _) = entry.load_pair(&draft)?;
            entry.fingerprint = next.family.of(&key);
            let bytes = entry.bytes(width);
            if next.buffer_bytes + bytes > old.options.block_bytes() as u64 && !next.buffer.is_empty() {
                next = next.flush_buffer(&draft, &mut figures)?;
            }
            next.buffer_bytes += bytes;
            next.puts += 1;
            next.buffer.push(entry);
        }
        merge.end();
        old.release(&released, &draft);
        draft.apply_releases();
        self.state = next;
        figures.rebuilds += 1;
        self.figures.set(figures);
        Ok(())
    }
}

impl BoaState {
    pub(super) fn memory(&self) -> u64 {
        self.options.fan_in() as u64 * self.options.block_bytes() as u64
    }

    /// Returns a state in which one run of a level contains all remaining records.
    fn merge_all_runs(
        &self,
        space: &dyn BlockSpace,
        level: usize,
        runs: &[BoaRun],
        figures: &mut super::BoaCounters,
    ) -> Result<BoaState> {
        let form = self.form();
        let mut buffer: Vec<_> = self.buffer.iter().rev().cloned().collect();
        buffer.sort_by_key(|entry| entry.fingerprint);
        for entry in &mut buffer {
            entry.write_out_of_line(form.longest_body(), space)?;
        }
        let bytes = buffer.iter().map(|entry| entry.bytes(form.width)).sum::<u64>()
            + runs.iter().map(|run| run.bytes).sum::<u64>();
        let entries = buffer.len() as u64 + runs.iter().map(|run| run.entries).sum::<u64>();
        let mut next = self.clone();
        next.levels = vec![BoaLevel::default(); level];
        (next.buffer, next.buffer_bytes, next.deletes) = (Vec::new(), 0, 0);
        let merge = RecordMerge::new(space, form, self.options.fan_in(), buffer, runs.to_vec())?;
        let fold = DuplicateFilter::new(self.memory(), true);
        next.puts = next.install(space, level, merge, Some(fold), entries, bytes)?;
        figures.merged_records += next.puts;
        self.release(runs, space);
        if next.puts == 0 {
            let empty = std::mem::take(&mut next.levels);
            for level in &empty {
                level
                    .runs
                    .iter()
                    .flat_map(BoaRun::extents)
                    .for_each(|extent| space.release(extent));
                let filters = level.filter.iter().flat_map(super::filter::LevelFilter::extents);
                filters.for_each(|extent| space.release(extent));
            }
        }
        Ok(next)
    }

    /// Releases the runs and all filters.
    fn release(&self, runs: &[BoaRun], space: &dyn BlockSpace) {
        let filters = self.levels.iter().filter_map(|level| level.filter.as_ref());
        filters
            .flat_map(super::filter::LevelFilter::extents)
            .for_each(|extent| space.release(extent));
        runs.iter()
            .flat_map(BoaRun::extents)
            .for_each(|extent| space.release(extent));
    }
}
