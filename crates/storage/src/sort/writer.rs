//! Writes a run. A frame is filled while the previous one is written to the device.

use super::error::Result;
use super::format::{HEADER_BYTES, RunFrameHeader};
use super::reader::SortedRun;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK, Device, IoBatch, Ticket};
use std::sync::Arc;

/// Returns the approximate size in bytes, in whole blocks, of a run with `record_bytes` bytes of
/// records.
pub(super) fn space_of(record_bytes: u64, frame_bytes: usize) -> u64 {
    // Allow for unused space at the ends of frames. If more is needed, the file grows while the run
    // is written.
    let whole = record_bytes + record_bytes / 16 + frame_bytes as u64;
    whole.next_multiple_of(BLOCK)
}

/// Writes sorted records to a temporary file as a run, frame by frame.
#[derive(Debug)]
pub(super) struct SortedRunWriter {
    device: Arc<dyn Device>,
    /// Number of the run, which is that of its first chunk.
    number: u64,
    frame: AlignedBuffer,
    frame_bytes: usize,
    used: usize,
    records: u32,
    /// The ticket for the write of the previous frame.
    pending: Option<Ticket>,
    /// Length of each frame in blocks.
    frames: Vec<u32>,
    offset: u64,
    longest: usize,
    total: u64,
}

impl SortedRunWriter {
    /// Begins a run with about `expected` bytes of records, and allocates its space (Q4).
    pub(super) fn new(
        device: Arc<dyn Device>,
        number: u64,
        frame_bytes: usize,
        expected: u64,
    ) -> Result<SortedRunWriter> {
        assert!(frame_bytes > HEADER_BYTES, "a frame has space for records");
        device.grow(space_of(expected, frame_bytes))?;
        Ok(SortedRunWriter {
            device,
            number,
            frame: AlignedBuffer::zeroed(frame_bytes),
            frame_bytes,
            used: HEADER_BYTES,
            records: 0,
            pending: None,
            frames: Vec::new(),
            offset: 0,
            longest: 0,
            total: 0,
        })
    }

    pub(super) fn push(&mut self, record: &[u8]) -> Result<()> {
        if self.used + record.len() > self.frame.len() {
            self.flush()?;
            if HEADER_BYTES + record.len() > self.frame.len() {
                let long = (HEADER_BYTES + record.len()).next_multiple_of(BLOCK as usize);
                self.frame = AlignedBuffer::zeroed(long);
            }
        }
        assert!(
            self.used + record.len() <= self.frame.len(),
            "a frame has space for its record"
        );
        self.frame[self.used..self.used + record.len()].copy_from_slice(record);
        self.used += record.len();
        self.records += 1;
        self.total += 1;
        Ok(())
    }

    /// Starts writing the current frame to the device, and takes over the buffer of the previous
    /// one.
    fn flush(&mut self) -> Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let header = RunFrameHeader {
            run: self.number,
            number: self.frames.len() as u64,
            records: self.records,
            bytes: (self.used - HEADER_BYTES) as u32,
        };
        header.seal(&mut self.frame);
        let returned = self.wait()?;
        let fits = returned.filter(|buffer| buffer.len() == self.frame_bytes);
        let next = fits.unwrap_or_else(|| AlignedBuffer::zeroed(self.frame_bytes));
        let full = std::mem::replace(&mut self.frame, next);
        let full = shortened(full, self.used);
        let len = full.len();
        let end = self.offset + len as u64;
        assert!((len as u64).is_multiple_of(BLOCK), "frames are whole blocks (D2)");
        if end > self.device.len() {
            self.device.grow(end + (end / 8).next_multiple_of(BLOCK))?;
        }
        self.frames.push((len as u64 / BLOCK) as u32);
        self.longest = self.longest.max(len);
        let mut batch = IoBatch::with_capacity(1);
        batch.write(self.offset, full, Purpose::Other);
        self.pending = Some(self.device.submit(batch));
        (self.offset, self.used, self.records) = (end, HEADER_BYTES, 0);
        Ok(())
    }

    /// Waits until the previous frame is written, and returns its buffer, or `None` if no write is
    /// pending.
    fn wait(&mut self) -> Result<Option<AlignedBuffer>> {
        let Some(ticket) = self.pending.take() else {
            return Ok(None);
        };
        self.device.wait(&ticket);
        Ok(ticket.take_buffers()?.pop())
    }

    /// Writes the remaining records, waits for all writes, and returns the run.
    pub(super) fn finish(mut self) -> Result<SortedRun> {
        self.flush()?;
        self.wait()?;
        let written: u64 = self.frames.iter().map(|&blocks| u64::from(blocks) * BLOCK).sum();
        assert_eq!(written, self.offset, "frames follow each other");
        Ok(SortedRun {
            device: self.device,
            number: self.number,
            frames: self.frames,
            bytes: self.offset,
            longest: self.longest,
            records: self.total,
            common: Vec::new(),
        })
    }
}

/// If at most half of a frame is used, removes the unused blocks at its end. Otherwise returns the
/// frame unchanged.
fn shortened(frame: AlignedBuffer, used: usize) -> AlignedBuffer {
    let needed = used.next_multiple_of(BLOCK as usize);
    if needed > frame.len() / 2 {
        return frame;
    }
    AlignedBuffer::padded(&frame[..needed])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_nearly_empty_are_shortened() {
        assert_eq!(shortened(AlignedBuffer::zeroed(4096), 100).len(), 512);
        assert_eq!(shortened(AlignedBuffer::zeroed(4096), 2049).len(), 4096);
    }
}
