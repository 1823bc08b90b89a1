//! A run in a temporary file, and a reader that reads one frame ahead.

use super::error::{Error, Result};
use super::format::{HEADER_BYTES, RecordParts, RunFrameHeader};
use super::options::SortRecordLayout;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK, Device, IoBatch, Ticket};
use std::sync::Arc;

/// Sorted records in a temporary file, whose space is freed on drop.
#[derive(Debug)]
pub struct SortedRun {
    pub(super) device: Arc<dyn Device>,
    pub(super) number: u64,
    /// Length of each frame in blocks.
    pub(super) frames: Vec<u32>,
    pub(super) bytes: u64,
    /// Size of the longest frame in bytes.
    pub(super) longest: usize,
    pub(super) records: u64,
    /// A common prefix of all keys in the run.
    pub(super) common: Vec<u8>,
}

impl SortedRun {
    /// Returns the size of the run on the device in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of records in the run.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// A reader that returns the records of a run in order.
#[derive(Debug)]
pub(super) struct SortedRunReader {
    run: SortedRun,
    layout: SortRecordLayout,
    /// The buffer with the current frame, and the offset at which the records in it end.
    frame: Option<AlignedBuffer>,
    end: usize,
    at: usize,
    pub(super) parts: RecordParts,
    /// The ticket for the read of the next frame.
    coming: Option<Ticket>,
    /// The number and offset of the frame after that.
    next: usize,
    offset: u64,
    spare: Option<AlignedBuffer>,
    left: u32,
}

impl SortedRunReader {
    /// Opens a run, and starts reading its first frame.
    pub(super) fn new(run: SortedRun, layout: SortRecordLayout) -> SortedRunReader {
        let blocks: u64 = run.frames.iter().map(|&blocks| u64::from(blocks)).sum();
        assert_eq!(blocks * BLOCK, run.bytes, "a run is its frames");
        let mut reader = SortedRunReader {
            run,
            layout,
            frame: None,
            end: 0,
            at: 0,
            parts: RecordParts::default(),
            coming: None,
            next: 0,
            offset: 0,
            spare: None,
            left: 0,
        };
        reader.start_next_read();
        reader
    }

    pub(super) fn number(&self) -> u64 {
        self.run.number
    }

    /// Starts reading the next frame, if there is one.
    fn start_next_read(&mut self) {
        let Some(&blocks) = self.run.frames.get(self.next) else {
            return;
        };
        let len = (u64::from(blocks) * BLOCK) as usize;
        let spare = self.spare.take().filter(|buffer| buffer.len() == len);
        let buffer = spare.unwrap_or_else(|| AlignedBuffer::zeroed(len));
        let mut batch = IoBatch::with_capacity(1);
        batch.read(self.offset, buffer, Purpose::Other);
        self.coming = Some(self.run.device.submit(batch));
        self.offset += len as u64;
        self.next += 1;
    }

    /// Advances to the next record. Returns `false` if there is none.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.at += self.parts.bytes;
        if self.left == 0 {
            return self.load();
        }
        self.decode()?;
        Ok(true)
    }

    /// Waits until the next frame has been read, makes it the current one, and starts reading the
    /// frame after it.
    fn load(&mut self) -> Result<bool> {
        if self.at != self.end {
            let found = format!("{} bytes after the last record", self.end - self.at);
            return Err(self.damaged(("as many records as the frame's header counts".to_owned(), found)));
        }
        self.spare = self.frame.take();
        self.parts = RecordParts::default();
        let Some(ticket) = self.coming.take() else {
            return Ok(false);
        };
        self.run.device.wait(&ticket);
        let buffer = ticket
            .take_buffers()?
            .pop()
            .expect("a read gives its buffer back");
        let number = self.next as u64 - 1;
        assert!(self.offset >= buffer.len() as u64, "a frame lies in its run");
        let header =
            RunFrameHeader::open(&buffer, self.run.number, number).map_err(|wrong| self.damaged(wrong))?;
        (self.at, self.end) = (HEADER_BYTES, HEADER_BYTES + header.bytes as usize);
        self.left = header.records;
        self.frame = Some(buffer);
        self.start_next_read();
        if self.left == 0 {
            return Err(self.damaged(("a record or more".to_owned(), "none".to_owned())));
        }
        self.decode()?;
        Ok(true)
    }

    /// Decodes the lengths of the current record into `parts`.
    #[inline]
    fn decode(&mut self) -> Result<()> {
        let rest = self.frame.as_ref().and_then(|frame| frame.get(self.at..self.end));
        let Some(parts) = rest.and_then(|rest| self.layout.parts(rest)) else {
            let found = format!("{} bytes that are not a record", self.end.saturating_sub(self.at));
            return Err(self.damaged(("a record".to_owned(), found)));
        };
        assert!(self.left > 0, "a record is counted before it is read");
        self.parts = parts;
        self.left -= 1;
        Ok(())
    }

    /// Returns the encoded bytes of the current record.
    #[inline]
    pub(super) fn record(&self) -> &[u8] {
        let record = self.frame.as_ref();
        record.map_or(&[], |frame| &frame[self.at..self.at + self.parts.bytes])
    }

    fn damaged(&self, (expected, found): (String, String)) -> Error {
        let frame = self.next.saturating_sub(1);
        let before = self.run.frames.iter().take(frame);
        Error::Damaged {
            run: self.run.number,
            frame: frame as u64,
            offset: before.map(|&blocks| u64::from(blocks) * BLOCK).sum(),
            file: self.run.device.name().to_owned(),
            expected,
            found,
        }
    }
}
