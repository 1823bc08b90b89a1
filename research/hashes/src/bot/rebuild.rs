//! Rebuilding: the log is sorted to drop obsolete records, sorted again to mix them, and inserted
//! into a new table.

use super::options::BotOptions;
use super::table::{BotCounters, BotState, BotTable};
use crate::blocks::{
    BlockExtent, BlockSpace, BlockStreamReader, BlockStreamWriter, MachineModel, Result, SpaceTransaction,
};
use crate::boa::sorting::{DuplicateFilter, RecordFormat, RecordMerge};
use crate::records::{RecordSource as _, TableRecord, decode};
use alluvium_filters::fingerprint::WideFingerprint;

/// The size of the initial runs of a cache-oblivious sort in bytes, a constant.
const FIRST_RUN: u64 = 1024;

impl<S: BlockSpace> BotTable<S> {
    /// Returns whether the number of deletes since the last rebuild is at least half the number
    /// of puts (Conway §2.2).
    pub(super) fn rebuild_is_due(&self) -> bool {
        let least = 64;
        self.state.deletes * 2 >= self.state.puts.max(least)
    }

    /// Moves the remaining records into a new table, without deletes, deleted records and
    /// replaced records.
    ///
    /// # Errors
    /// When the space fails: the table is unchanged.
    pub fn rebuild(&mut self) -> Result<()> {
        let state = &self.state;
        // The leaves may be less full than before, so a nearly full table needs one more level.
        let capacity = u64::from(state.options.growth).saturating_pow(state.options.levels);
        if state.leaves().saturating_mul(3) / 2 + 2 > capacity
            && let Some(base) = state.base_bits
        {
            return self.rebuild_with_more_levels(base);
        }
        self.rebuild_with(self.state.options)
    }

    /// Rebuilds with twice as many levels, and with sufficiently long fingerprints.
    pub(super) fn rebuild_with_more_levels(&mut self, base_bits: u32) -> Result<()> {
        let old = self.state.options;
        let character = self.state.alphabet.character_bits();
        // A prefix has at most 60 bits.
        let deepest = (60u32.saturating_sub(base_bits) / character).saturating_sub(1);
        let fits = self.state.fits(base_bits, old.levels);
        let wanted = if fits { 2 * old.levels } else { old.levels };
        let levels = wanted.min(deepest);
        let bits = (old.fingerprint_bits..=128)
            .find(|&bits| base_bits + (levels + 1) * character + levels * character <= bits);
        match bits {
            Some(bits) if levels > 0 && (levels > old.levels || !fits) => {
                let fingerprint_bits = if bits > old.fingerprint_bits {
                    bits.next_power_of_two()
                } else {
                    bits
                };
                self.rebuild_with(BotOptions {
                    levels,
                    fingerprint_bits: fingerprint_bits.min(128),
                    ..old
                })
            }
            _ => Err(BotState::too_deep(base_bits, old.levels)),
        }
    }

    fn rebuild_with(&mut self, options: BotOptions) -> Result<()> {
        let mut figures = self.figures.borrow().clone();
        let draft = SpaceTransaction::new(&self.space);
        let rebuilt = self.state.rebuilt(&draft, options, &mut figures)?;
        draft.apply_releases();
        self.figures.replace(figures);
        self.state = rebuilt;
        Ok(())
    }
}

impl BotState {
    fn rebuilt(
        &self,
        space: &dyn BlockSpace,
        options: BotOptions,
        figures: &mut BotCounters,
    ) -> Result<BotState> {
        let form = RecordFormat {
            machine: self.options.machine,
            width: self.family.width(),
        };
        // The buffer is newest, followed by the log from its end.
        let log = self
            .log
            .reader(space, self.options.machine, 0..self.log.bytes())?;
        let mut sorter = RecordSorter::new(space, form);
        let mut reader = log;
        let block = self.options.leaf_bytes();
        while reader.left() > 0 {
            let entry = decode(&mut reader, form.width)?;
            sorter.push(entry)?;
            skip_padding(&mut reader, block, form.width)?;
        }
        self.buffer
            .iter()
            .try_for_each(|entry| sorter.push(entry.clone()))?;
        let mut sorted = sorter.merge()?;
        let mut fold = DuplicateFilter::new(sorted.memory, true);
        let mut mixer = RecordSorter::new(space, form);
        while let Some(mut entry) = sorted.merge.next()? {
            if fold.keeps(&entry, space)? {
                // In fingerprint order, leaves would contain neighbouring fingerprints and lists
                // would be uneven.
                entry.fingerprint = mixed(entry.fingerprint, form.width);
                mixer.push(entry)?;
            }
        }
        sorted.end(space);
        let mut next = BotState::new(options)?;
        next.base_bits = self.base_bits;
        figures.log_bytes = 0;
        figures.rebuilds += 1;
        let mut mixed = mixer.merge()?;
        while let Some(mut entry) = mixed.merge.next()? {
            let (key, _) = entry.load_pair(space)?;
            entry.fingerprint = next.family.of(&key);
            let bytes = entry.bytes(next.family.width());
            if next.buffer_bytes + bytes > next.options.leaf_bytes() && !next.buffer.is_empty() {
                if next.is_full() {
                    return Err(BotState::too_deep(next.base_bits.unwrap_or(0), options.levels));
                }
                next = next.with_leaf(space, figures)?;
            }
            next.buffer_bytes += bytes;
            next.puts += 1;
            next.buffer.push(entry);
        }
        mixed.end(space);
        self.extents(space)?
            .into_iter()
            .for_each(|extent| space.release(extent));
        Ok(next)
    }

    /// Returns every extent of the table.
    pub(super) fn extents(&self, space: &dyn BlockSpace) -> Result<Vec<BlockExtent>> {
        let mut all: Vec<BlockExtent> = self.log.extents().collect();
        all.extend(self.queue.tapes.iter().flat_map(super::tape::Tape::extents));
        for (above, root) in self.roots.iter().enumerate() {
            if let Some(root) = root {
                self.extents_below(space, root.extent, above as u32 + 1, &mut all)?;
            }
        }
        Ok(all)
    }

    fn extents_below(
        &self,
        space: &dyn BlockSpace,
        node: BlockExtent,
        height: u32,
        all: &mut Vec<BlockExtent>,
    ) -> Result<()> {
        all.push(node);
        if height > 1 {
            let node = super::node::BotNode::read(space, node, height, self.options.growth)?;
            for child in node.children {
                self.extents_below(space, child, height - 1, all)?;
            }
        }
        Ok(())
    }
}

/// Skips the zeros that fill a leaf's last block.
fn skip_padding(reader: &mut super::tape::TapeReader<'_>, block: u64, width: u32) -> Result<()> {
    let least = crate::records::entry_bytes(width, 1);
    let left = reader.left();
    if block == 0 || left.is_multiple_of(block) {
        return Ok(());
    }
    let mut rest = reader.clone();
    let mut bytes = Vec::new();
    let in_block = left % block;
    rest.take(in_block, &mut bytes)?;
    // A record's length is never zero, since a body contains the length of its key.
    let is_padding = bytes.iter().take(least as usize).all(|byte| *byte == 0);
    if is_padding {
        bytes.clear();
        reader.take(in_block, &mut bytes)?;
    }
    Ok(())
}

/// Permutes fingerprints of `width` bits pseudo-randomly.
fn mixed(fingerprint: WideFingerprint, width: u32) -> WideFingerprint {
    let mut word = (fingerprint.0 >> 64) as u64 ^ (fingerprint.0 as u64).rotate_left(32);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9u64), (27, 0x94d0_49bb_1331_11eb)] {
        word = (word ^ word >> shift).wrapping_mul(factor);
    }
    word ^= word >> 31;
    WideFingerprint(u128::from(word) << 64 >> (128 - width) << (128 - width))
}

/// Sorts records by fingerprint, the newest first among equal ones, in extents of the space.
struct RecordSorter<'s> {
    space: &'s dyn BlockSpace,
    form: RecordFormat,
    memory: u64,
    buffer: Vec<TableRecord>,
    bytes: u64,
    runs: Vec<BlockExtent>,
}

/// The sorted records of a sorter.
struct SortedRecords<'s> {
    merge: RecordMerge<'s>,
    runs: Vec<BlockExtent>,
    memory: u64,
}

impl SortedRecords<'_> {
    fn end(self, space: &dyn BlockSpace) {
        self.merge.end();
        self.runs.into_iter().for_each(|run| space.release(run));
    }
}

impl<'s> RecordSorter<'s> {
    fn new(space: &'s dyn BlockSpace, form: RecordFormat) -> RecordSorter<'s> {
        let memory = match form.machine {
            MachineModel::Blocks { memory_bytes, .. } => memory_bytes / 2,
            MachineModel::Oblivious => FIRST_RUN,
        };
        RecordSorter {
            space,
            form,
            memory,
            buffer: Vec::new(),
            bytes: 0,
            runs: Vec::new(),
        }
    }

    fn push(&mut self, entry: TableRecord) -> Result<()> {
        self.bytes += entry.bytes(self.form.width);
        self.buffer.push(entry);
        if self.bytes >= self.memory {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let mut entries: Vec<TableRecord> = self.buffer.drain(..).rev().collect();
        entries.sort_by_key(|entry| entry.fingerprint);
        let extent = self.space.allocate(self.bytes)?;
        let mut writer = BlockStreamWriter::new(self.space, extent, self.form.machine.chunk());
        let mut bytes = Vec::new();
        for entry in &entries {
            bytes.clear();
            entry.encode(self.form.width, &mut bytes);
            writer.put(&bytes)?;
        }
        writer.finish()?;
        self.bytes = 0;
        self.runs.push(extent);
        Ok(())
    }

    fn merge(mut self) -> Result<SortedRecords<'s>> {
        let mut entries: Vec<TableRecord> = self.buffer.drain(..).rev().collect();
        entries.sort_by_key(|entry| entry.fingerprint);
        let chunk = self.form.machine.chunk();
        let fan_in = self.form.machine.fan_in().unwrap_or(2);
        let streams = self.runs.iter().rev();
        let streams = streams
            .map(|&run| (BlockStreamReader::new(self.space, run, chunk), run.bytes))
            .collect();
        let merge = RecordMerge::of_streams(self.space, self.form, fan_in, entries, streams)?;
        Ok(SortedRecords {
            merge,
            runs: self.runs,
            memory: self.memory,
        })
    }
}
