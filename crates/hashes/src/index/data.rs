//! Sequential writer and reader of the data file, which contains an index's records.

use super::error::{Error, Result};
use super::format::{begin_id, open_block, seal_block};
use super::options::FixedRecordLayout;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, IoBatch, Ticket};
use std::sync::Arc;

/// Approximate number of bytes per I/O operation.
const AT_ONCE: usize = 1 << 20;

/// Returns the number of bytes per I/O operation, which is a multiple of the block size.
fn at_once(shape: &FixedRecordLayout) -> usize {
    let block = shape.block_bytes as usize;
    (AT_ONCE / block).max(1) * block
}

/// Writes a data file from records that arrive in hash order.
#[derive(Debug)]
pub(super) struct DataWriter {
    device: Arc<dyn Device>,
    shape: FixedRecordLayout,
    buffer: AlignedBuffer,
    /// `block_at` is the offset of the current block in the buffer, and `used` is how many bytes of
    /// it are in use.
    block_at: usize,
    used: usize,
    pending: Option<Ticket>,
    offset: u64,
    blocks: u64,
    records: u64,
    id: u64,
}

impl DataWriter {
    /// Starts a data file for about `expected` records, and allocates space for them.
    pub(super) fn new(
        device: Arc<dyn Device>,
        seed: u64,
        shape: FixedRecordLayout,
        expected: u64,
    ) -> Result<DataWriter> {
        let whole = shape.blocks(expected).saturating_mul(shape.block_bytes.into());
        device.grow(whole)?;
        Ok(DataWriter {
            device,
            shape,
            buffer: AlignedBuffer::zeroed(at_once(&shape)),
            block_at: 0,
            used: 0,
            pending: None,
            offset: 0,
            blocks: 0,
            records: 0,
            id: begin_id(seed, &shape),
        })
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        assert_eq!(
            key.len() + value.len(),
            self.shape.record_bytes(),
            "bytes of a record"
        );
        let at = self.block_at + self.used;
        self.buffer[at..at + key.len()].copy_from_slice(key);
        self.buffer[at + key.len()..at + key.len() + value.len()].copy_from_slice(value);
        self.used += key.len() + value.len();
        self.records += 1;
        if self.records.is_multiple_of(self.shape.block_records()) {
            self.close_block()?;
        }
        Ok(())
    }

    fn close_block(&mut self) -> Result<()> {
        let end = self.block_at + self.shape.block_bytes as usize;
        let block = &mut self.buffer[self.block_at..end];
        self.id = seal_block(self.blocks, block, self.used, self.id);
        self.blocks += 1;
        (self.block_at, self.used) = (end, 0);
        if end == self.buffer.len() {
            self.flush()?;
        }
        Ok(())
    }

    /// Submits the completed blocks for writing, and goes on with the previous write's buffer.
    fn flush(&mut self) -> Result<()> {
        if self.block_at == 0 {
            return Ok(());
        }
        let returned = self.wait()?.filter(|buffer| buffer.len() == at_once(&self.shape));
        let next = returned.unwrap_or_else(|| AlignedBuffer::zeroed(at_once(&self.shape)));
        let mut full = std::mem::replace(&mut self.buffer, next);
        if self.block_at < full.len() {
            full = AlignedBuffer::padded(&full[..self.block_at]);
        }
        let end = self.offset + full.len() as u64;
        if end > self.device.len() {
            let more = (end / 8).next_multiple_of(self.shape.block_bytes.into());
            self.device.grow(end + more)?;
        }
        let mut batch = IoBatch::with_capacity(1);
        batch.write(self.offset, full, Purpose::Other);
        self.pending = Some(self.device.submit(batch));
        (self.offset, self.block_at) = (end, 0);
        Ok(())
    }

    fn wait(&mut self) -> Result<Option<AlignedBuffer>> {
        let Some(ticket) = self.pending.take() else {
            return Ok(None);
        };
        self.device.wait(&ticket);
        Ok(ticket.take_buffers()?.pop())
    }

    /// Writes the remaining records and makes the file durable. Returns the number of records and
    /// the file's ID.
    pub(super) fn finish(mut self) -> Result<(u64, u64)> {
        if self.used > 0 {
            self.close_block()?;
        }
        self.flush()?;
        self.wait()?;
        if self.device.len() > self.offset {
            self.device.truncate(self.offset)?;
        }
        self.device.sync(Purpose::Other)?;
        Ok((self.records, self.id))
    }
}

/// Reads the records of a data file in hash order, reading ahead.
#[derive(Debug)]
pub(super) struct DataReader<'d> {
    device: &'d dyn Device,
    shape: FixedRecordLayout,
    records: u64,
    buffer: Option<AlignedBuffer>,
    coming: Option<Ticket>,
    /// Number of bytes of the file that have been requested.
    asked: u64,
    /// `next` is the number of the next record to return, and `first_block` is the number of the
    /// first block in the buffer.
    next: u64,
    first_block: u64,
    id: u64,
}

impl<'d> DataReader<'d> {
    pub(super) fn new(
        device: &'d dyn Device,
        seed: u64,
        shape: FixedRecordLayout,
        records: u64,
    ) -> DataReader<'d> {
        let mut reader = DataReader {
            device,
            shape,
            records,
            buffer: None,
            coming: None,
            asked: 0,
            next: 0,
            first_block: 0,
            id: begin_id(seed, &shape),
        };
        reader.ask();
        reader
    }

    /// Returns the ID of the blocks read so far, which is the file's ID after the last record.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    fn ask(&mut self) {
        let whole = self
            .shape
            .blocks(self.records)
            .saturating_mul(self.shape.block_bytes.into());
        let len = (at_once(&self.shape) as u64).min(whole.saturating_sub(self.asked));
        if len == 0 {
            return;
        }
        let mut batch = IoBatch::with_capacity(1);
        batch.read(self.asked, AlignedBuffer::zeroed(len as usize), Purpose::Other);
        self.coming = Some(self.device.submit(batch));
        self.asked += len;
    }

    /// Returns the next record, or `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.next == self.records {
            return Ok(None);
        }
        let per_block = self.shape.block_records();
        let (block, within) = (self.next / per_block, (self.next % per_block) as usize);
        if within == 0 {
            self.enter(block)?;
        }
        let bytes = self.shape.record_bytes();
        let start = (block - self.first_block) as usize * self.shape.block_bytes as usize + within * bytes;
        self.next += 1;
        let buffer = self.buffer.as_ref().expect("a block was entered");
        Ok(Some(&buffer[start..start + bytes]))
    }

    /// Makes a block the current one: waits for it to be read, and verifies it.
    fn enter(&mut self, block: u64) -> Result<()> {
        let size = self.shape.block_bytes as usize;
        let has = |buffer: &AlignedBuffer| ((block - self.first_block) as usize) < buffer.len() / size;
        if !self.buffer.as_ref().is_some_and(has) {
            let ticket = self
                .coming
                .take()
                .expect("a block was asked for before it is needed");
            self.device.wait(&ticket);
            self.buffer = ticket.take_buffers()?.pop();
            self.first_block = block;
            self.ask();
        }
        let at = (block - self.first_block) as usize * size;
        let buffer = self.buffer.as_ref().expect("a read gives its buffer back");
        self.id = open_block(block, &buffer[at..at + size], self.id).map_err(|(expected, found)| {
            Error::Damaged {
                file: self.device.name().to_owned(),
                offset: block * size as u64,
                expected,
                found,
            }
        })?;
        Ok(())
    }
}
