//! A run on the device, and reading it frame after frame, one ahead.

use super::error::{Error, Result};
use super::format::{Frame, HEADER_BYTES, Parts};
use super::options::Layout;
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, Batch, Buffer, Device, Ticket};
use std::sync::Arc;

/// Sorted records in a temporary file, which goes with it.
#[derive(Debug)]
pub struct Run {
    pub(super) device: Arc<dyn Device>,
    pub(super) number: u64,
    /// How long each frame is, in blocks.
    pub(super) frames: Vec<u32>,
    pub(super) bytes: u64,
    /// Bytes of the longest frame.
    pub(super) longest: usize,
    pub(super) records: u64,
    /// What all keys begin with.
    pub(super) common: Vec<u8>,
}

impl Run {
    /// Returns how many bytes it has on the device.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many records it has.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// Reads a run from its first record to its last.
#[derive(Debug)]
pub(super) struct RunReader {
    run: Run,
    layout: Layout,
    /// The frame in which the record is, and how far its records go.
    frame: Option<Buffer>,
    end: usize,
    at: usize,
    pub(super) parts: Parts,
    /// The frame that comes next.
    coming: Option<Ticket>,
    /// The number and offset of the frame to ask for next.
    next: usize,
    offset: u64,
    spare: Option<Buffer>,
    left: u32,
}

impl RunReader {
    /// Opens a run, and asks for its first frame.
    pub(super) fn new(run: Run, layout: Layout) -> RunReader {
        let blocks: u64 = run.frames.iter().map(|&blocks| u64::from(blocks)).sum();
        assert_eq!(blocks * BLOCK, run.bytes, "a run is its frames");
        let mut reader = RunReader {
            run,
            layout,
            frame: None,
            end: 0,
            at: 0,
            parts: Parts::default(),
            coming: None,
            next: 0,
            offset: 0,
            spare: None,
            left: 0,
        };
        reader.ask();
        reader
    }

    pub(super) fn number(&self) -> u64 {
        self.run.number
    }

    /// Asks for the next frame, if there is one.
    fn ask(&mut self) {
        let Some(&blocks) = self.run.frames.get(self.next) else {
            return;
        };
        let len = (u64::from(blocks) * BLOCK) as usize;
        let spare = self.spare.take().filter(|buffer| buffer.len() == len);
        let buffer = spare.unwrap_or_else(|| Buffer::zeroed(len));
        let mut batch = Batch::with_capacity(1);
        batch.read(self.offset, buffer, Purpose::Other);
        self.coming = Some(self.run.device.submit(batch));
        self.offset += len as u64;
        self.next += 1;
    }

    /// Goes to the next record. Returns whether there is one.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.at += self.parts.bytes;
        if self.left == 0 {
            return self.load();
        }
        self.decode()?;
        Ok(true)
    }

    /// Takes the frame that was asked for, and asks for the one behind it.
    fn load(&mut self) -> Result<bool> {
        if self.at != self.end {
            let found = format!("{} bytes behind the last", self.end - self.at);
            return Err(self.damaged(("as many records as the frame says".to_owned(), found)));
        }
        self.spare = self.frame.take();
        self.parts = Parts::default();
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
        let header = Frame::open(&buffer, self.run.number, number).map_err(|wrong| self.damaged(wrong))?;
        (self.at, self.end) = (HEADER_BYTES, HEADER_BYTES + header.bytes as usize);
        self.left = header.records;
        self.frame = Some(buffer);
        self.ask();
        if self.left == 0 {
            return Err(self.damaged(("a record or more".to_owned(), "none".to_owned())));
        }
        self.decode()?;
        Ok(true)
    }

    /// Finds the parts of the record at which the reader is.
    #[inline]
    fn decode(&mut self) -> Result<()> {
        let rest = self.frame.as_ref().and_then(|frame| frame.get(self.at..self.end));
        let Some(parts) = rest.and_then(|rest| self.layout.parts(rest)) else {
            let found = format!("{} bytes that are none", self.end.saturating_sub(self.at));
            return Err(self.damaged(("a record".to_owned(), found)));
        };
        assert!(self.left > 0, "a record is counted before it is read");
        self.parts = parts;
        self.left -= 1;
        Ok(())
    }

    /// The bytes of the record at which the reader is.
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
