//! The contents of a regular file while an operation changes them.

use super::{FileWriter, MAX_FILE_BYTES, too_large};
use crate::error::Result;
use crate::records::format::{self, InodeRecord};
use crate::records::{ReadDependence, RecordValue};
use crate::types::{Inode, WritePosition};

/// Contents that an operation changes. Blocks are written at once, and the inode's record at the
/// end of the operation.
pub(super) struct FileContents<'w, 'o> {
    writer: &'w FileWriter<'o>,
    inode: Inode,
    record: InodeRecord,
    block_bytes: u64,
}

impl<'w, 'o> FileContents<'w, 'o> {
    pub(super) fn new(writer: &'w FileWriter<'o>, inode: Inode, record: InodeRecord) -> FileContents<'w, 'o> {
        FileContents {
            block_bytes: writer.context.layout().block_bytes,
            writer,
            inode,
            record,
        }
    }

    pub(super) fn into_record(self) -> InodeRecord {
        self.record
    }

    pub(super) fn size(&self) -> u64 {
        self.record.size
    }

    /// Notes the change and writes the inode's record. The record differs from the one before, also
    /// if the clock stands still, so that differing blocks can be found by differing inodes.
    pub(super) fn save(mut self) -> Result<()> {
        let now = self.writer.context.now();
        (self.record.modified, self.record.changed) = (now, now.max(self.record.changed.next()));
        self.writer.save(self.inode, &self.record)
    }

    fn is_dense(&self) -> bool {
        self.record.blocks == self.record.size.div_ceil(self.block_bytes)
    }

    fn last_block(&self) -> Option<u64> {
        Some(self.record.size.checked_sub(1)? / self.block_bytes)
    }

    fn key(&self, block: u64) -> Vec<u8> {
        format::block_key(&self.record.locality, self.inode, block)
    }

    fn stored(&self, block: u64) -> Result<Option<Vec<u8>>> {
        let key = self.key(block);
        let records = self.writer.records;
        let value = records.get(self.record.block_space(), &key, ReadDependence::Untracked)?;
        Ok(value.map(RecordValue::into_vec))
    }

    fn put(&self, block: u64, value: &[u8]) -> Result<()> {
        let key = self.key(block);
        self.writer.records.put(self.record.block_space(), &key, value)
    }

    /// Writes `data` at `offset`, and extends the file if it ends before.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset.checked_add(data.len() as u64);
        let Some(end) = end.filter(|&end| end <= MAX_FILE_BYTES) else {
            return Err(too_large(self.inode));
        };
        if data.is_empty() {
            return Ok(());
        }
        if let Some(inline) = &mut self.record.inline {
            if end <= self.writer.context.layout().inline_bytes {
                let (from, to) = (offset as usize, end as usize);
                inline.resize(inline.len().max(to), 0);
                inline[from..to].copy_from_slice(data);
                self.record.size = inline.len() as u64;
                return Ok(());
            }
            self.move_to_blocks()?;
        }
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let (block, from) = (at / self.block_bytes, at % self.block_bytes);
            let length = rest.len().min((self.block_bytes - from) as usize);
            let (part, after) = rest.split_at(length);
            self.write_block(block, from as usize, part)?;
            (rest, at) = (after, at + length as u64);
        }
        Ok(())
    }

    /// Moves contents that stand in the inode to the first block.
    fn move_to_blocks(&mut self) -> Result<()> {
        let Some(contents) = self.record.inline.take() else {
            return Ok(());
        };
        self.record.size = contents.len() as u64;
        if !contents.is_empty() {
            self.put(0, &contents)?;
            self.record.blocks = 1;
            self.record.tail = contents.len() as u32;
        }
        Ok(())
    }

    /// Writes within one block.
    fn write_block(&mut self, block: u64, from: usize, part: &[u8]) -> Result<()> {
        let start = block * self.block_bytes;
        let end = from + part.len();
        let is_last = self.last_block() == Some(block);
        let (existed, stored) = if part.len() as u64 == self.block_bytes {
            let existed = start < self.record.size && (self.is_dense() || self.stored(block)?.is_some());
            self.put(block, part)?;
            (existed, end)
        } else if start >= self.record.size {
            let mut value = vec![0; from];
            value.extend_from_slice(part);
            self.put(block, &value)?;
            (false, end)
        } else if is_last && from > 0 && self.record.tail as usize == from {
            let key = self.key(block);
            self.writer.records.merge(self.record.block_space(), &key, part)?;
            (true, end)
        } else {
            let before = self.stored(block)?;
            let existed = before.is_some();
            let mut value = before.unwrap_or_default();
            value.resize(value.len().max(end), 0);
            value[from..end].copy_from_slice(part);
            self.put(block, &value)?;
            (existed, value.len())
        };
        self.record.blocks += u64::from(!existed);
        self.record.size = self.record.size.max(start + end as u64);
        if self.last_block() == Some(block) {
            self.record.tail = stored as u32;
        }
        Ok(())
    }

    /// Cuts the contents, or extends them by a hole.
    pub(super) fn resize(&mut self, size: u64) -> Result<()> {
        if size > MAX_FILE_BYTES {
            return Err(too_large(self.inode));
        }
        match size < self.record.size {
            true => self.cut(size),
            false => self.extend(size),
        }
    }

    fn extend(&mut self, size: u64) -> Result<()> {
        if let Some(inline) = &mut self.record.inline {
            if size <= self.writer.context.layout().inline_bytes {
                inline.resize(size as usize, 0);
                self.record.size = size;
                return Ok(());
            }
            self.move_to_blocks()?;
        }
        let before = self.last_block();
        self.record.size = size;
        if self.last_block() != before {
            self.record.tail = 0;
        }
        Ok(())
    }

    fn cut(&mut self, size: u64) -> Result<()> {
        if let Some(inline) = &mut self.record.inline {
            inline.truncate(size as usize);
            self.record.size = size;
            return Ok(());
        }
        let kept = size.div_ceil(self.block_bytes);
        let removed = self.stored_between(kept, self.record.size.div_ceil(self.block_bytes))?;
        if removed > 0 {
            self.writer.delete_blocks(self.inode, &self.record, kept)?;
        }
        self.record.blocks -= removed.min(self.record.blocks);
        self.record.size = size;
        self.record.tail = 0;
        let within = (size % self.block_bytes) as usize;
        if size == 0 {
            self.record.inline = Some(Vec::new());
        } else if within > 0 && self.record.blocks > 0 {
            // Zeros must follow if the file is extended again (O2).
            if let Some(mut value) = self.stored(kept - 1)? {
                if value.len() > within {
                    value.truncate(within);
                    self.put(kept - 1, &value)?;
                }
                self.record.tail = value.len() as u32;
            }
        }
        Ok(())
    }

    /// Returns how many blocks from `first` to before `end` are stored.
    fn stored_between(&self, first: u64, end: u64) -> Result<u64> {
        match self.record.blocks {
            0 => Ok(0),
            _ if self.is_dense() => Ok(end.saturating_sub(first)),
            _ => self
                .writer
                .reader()
                .count_blocks(self.inode, &self.record, first, end),
        }
    }

    /// Makes the range from `offset` to before `end` zeros, by removing whole blocks.
    pub(super) fn punch(&mut self, offset: u64, end: u64) -> Result<()> {
        let end = end.min(self.record.size);
        if offset >= end {
            return Ok(());
        }
        if let Some(inline) = &mut self.record.inline {
            inline[offset as usize..end as usize].fill(0);
            return Ok(());
        }
        let bytes = self.block_bytes;
        let first = offset.div_ceil(bytes);
        let after = match end == self.record.size {
            true => end.div_ceil(bytes),
            false => end / bytes,
        };
        if offset / bytes < first {
            let from = (offset % bytes) as usize;
            let to = (end - (first - 1) * bytes).min(bytes) as usize;
            self.zero(first - 1, from, to)?;
        }
        if after >= first && after * bytes < end {
            self.zero(after, 0, (end - after * bytes) as usize)?;
        }
        self.remove_blocks(first, after)
    }

    /// Removes the blocks from `first` to before `end`, of which those up to the last may exist.
    fn remove_blocks(&mut self, first: u64, end: u64) -> Result<()> {
        let removed = if first < end {
            self.stored_between(first, end)?
        } else {
            0
        };
        if removed == 0 {
            return Ok(());
        }
        let (low, high) = (self.key(first), self.key(end));
        let records = self.writer.records;
        match end - first {
            1 => records.delete(self.record.block_space(), &low)?,
            _ => records.delete_range(self.record.block_space(), &low, Some(&high))?,
        }
        if self.last_block().is_some_and(|last| last < end) {
            self.record.tail = 0;
        }
        self.record.blocks -= removed.min(self.record.blocks);
        Ok(())
    }

    /// Overwrites a part of a block with zeros, if the block is stored.
    fn zero(&mut self, block: u64, from: usize, to: usize) -> Result<()> {
        let Some(mut value) = self.stored(block)? else {
            return Ok(());
        };
        let to = to.min(value.len());
        if from < to {
            value[from..to].fill(0);
            self.put(block, &value)?;
        }
        Ok(())
    }
}

impl FileWriter<'_> {
    pub(crate) fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        let record = self.reader().load_file(inode, ReadDependence::Update)?;
        let offset = match position {
            WritePosition::At(offset) => offset,
            WritePosition::End => record.size,
        };
        if data.is_empty() {
            return Ok(offset);
        }
        let mut contents = FileContents::new(self, inode, record);
        contents.write(offset, data)?;
        contents.save()?;
        Ok(offset)
    }
}
