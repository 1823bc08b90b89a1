//! Converts the rows of a stream to blocks, each of which is written in one operation.

use super::duplicate_detector::DuplicateDetector;
use super::progress::{self, ImportProgress};
use super::{ImportOutcome, RejectsFile};
use crate::formats::{FileFormat, InputSource, NextRow, ReadRows, RowChange, RowChanges};
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use alluvium::{MAX_KEY, MAX_VALUE};
use anyhow::Result;

/// Size in bytes at which a block is complete.
pub(super) const FULL: usize = 1 << 20;
/// Maximum size of a row in bytes. It leaves space for the progress record in the same commit.
pub(super) const MAX_WRITTEN: usize = MAX_VALUE - (64 << 10);
/// Approximate memory of a change in bytes, in addition to its key and value.
pub(super) const EXTRA: usize = 32;

/// Which rows the store contains after an invalid row ends the import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowRetention {
    /// All rows before the invalid one, because blocks are written while the input is read.
    #[default]
    Before,
    /// No rows, because the whole input is sorted before rows are written.
    Nothing,
}

pub(crate) struct RowParser {
    pub(crate) source: InputSource,
    pub(crate) reader: Box<dyn ReadRows + Send>,
    /// The file that receives invalid rows. Without it, an invalid row ends the import.
    pub(crate) rejects: Option<RejectsFile>,
    pub(crate) saved: ImportProgress,
    /// The name of the input for error messages.
    pub(crate) name: String,
    pub(crate) format: FileFormat,
    /// Whether blocks record the line number of each change.
    pub(crate) keeps_lines: bool,
    pub(crate) kept: RowRetention,
    seen: DuplicateDetector,
}

/// Changes that are written in one operation, and the import's progress after it.
#[derive(Debug, Default)]
pub(super) struct RowBlock {
    pub(super) changes: RowChanges,
    pub(super) bytes: usize,
    /// The line number of each change, if the parser keeps them, and the line number before the
    /// first change.
    pub(super) lines: Vec<u64>,
    pub(super) begins_behind: u64,
    pub(super) saved: ImportProgress,
    pub(super) order: BlockOrder,
    pub(super) is_last: bool,
}

/// Whether the keys of a block are in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum BlockOrder {
    #[default]
    Empty,
    /// The keys are strictly ascending, and every change sets a value that does not expire. The
    /// fields are the first and the last key.
    Ascending(Vec<u8>, Vec<u8>),
    Any,
}

impl BlockOrder {
    /// Updates the order after `change` has been added to the block.
    pub(super) fn note(&mut self, change: RowChange<'_>) {
        let RowChange::Put(key, _, None) = change else {
            *self = BlockOrder::Any;
            return;
        };
        match self {
            BlockOrder::Empty => *self = BlockOrder::Ascending(key.to_vec(), key.to_vec()),
            BlockOrder::Ascending(_, last) if **last < *key => {
                last.clear();
                last.extend_from_slice(key);
            }
            BlockOrder::Ascending(..) => *self = BlockOrder::Any,
            BlockOrder::Any => {}
        }
    }
}

impl RowParser {
    /// Creates a parser that uses approximately `bytes` bytes of memory to detect duplicate keys.
    pub(crate) fn new(
        source: InputSource,
        reader: Box<dyn ReadRows + Send>,
        rejects: Option<RejectsFile>,
        saved: ImportProgress,
        input: (String, FileFormat),
        memory: usize,
    ) -> RowParser {
        let (name, format) = input;
        let mut seen = DuplicateDetector::new(memory);
        seen.duplicates = saved.duplicates;
        // The keys that an earlier run imported are unknown.
        seen.is_partial = saved.is_partial || saved.rows > 0;
        RowParser {
            source,
            reader,
            rejects,
            keeps_lines: false,
            kept: RowRetention::default(),
            seen,
            saved,
            name,
            format,
        }
    }

    /// Parses rows until the end of the input or until the import is stopped. Passes each block to
    /// `send`, which returns whether parsing continues.
    ///
    /// # Errors
    /// Returns errors of the input. The rows before the error have been passed to `send`.
    pub(super) fn run(mut self, send: &dyn Fn(RowBlock) -> bool) -> Result<ImportOutcome> {
        let mut block = RowBlock {
            begins_behind: self.saved.lines,
            ..RowBlock::default()
        };
        loop {
            if stop::asked() {
                self.send(&mut block, send)?;
                return Ok(ImportOutcome::Stopped);
            }
            let mark = block.changes.len();
            let mut row = 0;
            let next = match self.reader.next(&mut self.source, &mut row, &mut block.changes) {
                Ok(next) => next,
                Err(error) => {
                    block.changes.truncate(mark);
                    let place = self.place(row);
                    let text = format!("{place}: {error}; {}", self.kept());
                    self.send(&mut block, send)?;
                    return Err(failure(CommandExit::BadRows, text));
                }
            };
            let bad = match next {
                NextRow::End => {
                    self.source.take(row);
                    block.is_last = true;
                    self.send(&mut block, send)?;
                    return Ok(ImportOutcome::Complete);
                }
                NextRow::Row => self.admit(&mut block, mark, send)?,
                NextRow::Bad(why) => Some(why),
            };
            if let Some(why) = bad {
                block.changes.truncate(mark);
                self.reject(&mut block, row, &why, send)?;
            }
            self.saved.lines += memchr::memchr_iter(b'\n', &self.source.rest()[..row]).count() as u64;
            self.source.take(row);
            if block.bytes >= FULL && !self.send(&mut block, send)? {
                return Ok(ImportOutcome::Stopped);
            }
        }
    }

    /// Returns the part of an error message that states which rows before the error are in the
    /// store.
    fn kept(&self) -> &'static str {
        match (self.kept, self.saved.rows) {
            (RowRetention::Nothing, _) | (_, 0) => "nothing is imported",
            _ => "the rows before it are imported",
        }
    }

    /// Returns the line number of the byte at position `at` of the source. Line ends before a CSV
    /// row are counted as a part of the previous row.
    fn line(&self, at: usize) -> u64 {
        let is_table = matches!(self.format, FileFormat::Csv | FileFormat::Tsv);
        let (before, behind) = self.source.rest().split_at(at);
        let blank = behind
            .iter()
            .take_while(|byte| is_table && matches!(byte, b'\r' | b'\n'));
        let blank = blank.filter(|&&byte| byte == b'\n').count() as u64;
        self.saved.lines + 1 + memchr::memchr_iter(b'\n', before).count() as u64 + blank
    }

    /// Returns a description of a position in the input for messages.
    fn place(&self, at: usize) -> String {
        if self.format == FileFormat::Binary {
            return format!(
                "{}, record {}",
                self.name,
                self.saved.rows + self.saved.rejected + 1
            );
        }
        format!("{}, line {}", self.name, self.line(at))
    }

    /// Checks and counts the row whose changes begin at index `mark`. Returns the reason if the row
    /// cannot be imported. A row that does not fit in the current block starts a new one.
    fn admit(
        &mut self,
        block: &mut RowBlock,
        mark: usize,
        send: &dyn Fn(RowBlock) -> bool,
    ) -> Result<Option<String>> {
        let mut bytes = 0;
        for change in block.changes.iter_from(mark) {
            let (key, value) = match change {
                RowChange::Put(key, value, _) => (key, value.len()),
                RowChange::Delete(key) => (key, 0),
                // The server checks the lengths of the command's arguments.
                RowChange::Command(bytes) => (&[][..], bytes.len()),
            };
            if key.len() > MAX_KEY {
                return Ok(Some(format!(
                    "a key of {} bytes is too long: the limit is {MAX_KEY}",
                    key.len()
                )));
            }
            bytes += key.len() + value + EXTRA;
        }
        if bytes > MAX_WRITTEN {
            return Ok(Some(format!(
                "the row writes {bytes} bytes at once: the limit is {MAX_WRITTEN}"
            )));
        }
        let mut mark = mark;
        if mark > 0 && block.bytes + bytes > MAX_WRITTEN {
            let alone = block.changes.split_off(mark);
            self.send(block, send)?;
            block.changes = alone;
            mark = 0;
        }
        if self.keeps_lines {
            block.lines.resize(block.changes.len(), self.line(0));
        }
        for change in block.changes.iter_from(mark) {
            block.order.note(change);
            match change {
                RowChange::Put(key, ..) => self.seen.put(key),
                RowChange::Delete(key) => self.seen.delete(key),
                // Only the server can determine whether the command extends or replaces an existing
                // key.
                RowChange::Command(_) => {}
            }
        }
        block.bytes += bytes;
        self.saved.duplicates = self.seen.duplicates;
        self.saved.is_partial = self.seen.is_partial;
        self.saved.rows += u64::from(block.changes.len() > mark);
        Ok(None)
    }

    /// Writes an invalid row to the rejects file. Without such a file, ends the import with an
    /// error.
    fn reject(
        &mut self,
        block: &mut RowBlock,
        row: usize,
        why: &str,
        send: &dyn Fn(RowBlock) -> bool,
    ) -> Result<()> {
        let place = self.place(0);
        if let Some(rejects) = &mut self.rejects {
            rejects.add(&format!("{place}: {why}"), &self.source.rest()[..row])?;
            self.saved.rejected += 1;
            return Ok(());
        }
        self.send(block, send)?;
        let text = match (self.kept, self.saved.rows) {
            (RowRetention::Nothing, _) | (_, 0) => format!(
                "{place}: {why}; {}. Correct the row, or choose another --format or other columns, or skip such rows with --rejects FILE",
                self.kept()
            ),
            _ => format!(
                "{place}: {why}; {}. Correct the row and run the same command again to continue, \
                 or start over with --restart --rejects FILE, which skips such rows",
                self.kept()
            ),
        };
        Err(failure(CommandExit::BadRows, text))
    }

    /// Passes a complete block to `send`, with the progress after it, and starts a new block.
    /// Returns whether parsing continues.
    fn send(&mut self, block: &mut RowBlock, send: &dyn Fn(RowBlock) -> bool) -> Result<bool> {
        if let Some(rejects) = &mut self.rejects {
            self.saved.rejects_bytes = rejects.kept()?;
        }
        let tail = self.source.tail();
        self.saved.offset = self.source.offset();
        self.saved.tail = progress::fingerprint(&tail);
        self.saved.tail_bytes = tail.len() as u64;
        block.saved = self.saved.clone();
        let next = RowBlock {
            begins_behind: self.saved.lines,
            ..RowBlock::default()
        };
        Ok(send(std::mem::replace(block, next)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_ascend_and_stay_are_in_order() {
        let order = |changes: &[RowChange<'_>]| {
            let mut order = BlockOrder::default();
            changes.iter().for_each(|change| order.note(*change));
            order
        };
        let put = |key| RowChange::Put(key, b"", None);
        assert_eq!(order(&[]), BlockOrder::Empty);
        assert_eq!(
            order(&[put(b"a"), put(b"b")]),
            BlockOrder::Ascending(b"a".to_vec(), b"b".to_vec())
        );
        assert_eq!(order(&[put(b"a"), put(b"a")]), BlockOrder::Any);
        assert_eq!(order(&[put(b"b"), put(b"a"), put(b"c")]), BlockOrder::Any);
        assert_eq!(order(&[put(b"a"), RowChange::Delete(b"b")]), BlockOrder::Any);
        assert_eq!(order(&[RowChange::Put(b"a", b"", Some(1))]), BlockOrder::Any);
    }
}
