//! Finds the files of a log, and reads the records of a segment. Everything that is read is
//! verified.

use super::format::{
    ALIGNMENT, BLOCK_BYTES, DecodedHeader, RECORD_BYTES, RecordHeader, RecordKind, SegmentHeader, VERSION,
    record_len,
};
use super::segment::{SegmentSlot, slot_file, slot_of};
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK, Device, Directory, FileOptions};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of bytes read from a segment at once, unless a record is longer.
const CHUNK: u64 = 128 << 10;

/// After damage, the search for a valid record gives up once it has hashed this many times the
/// segment's length.
const MAX_HASHED: u64 = 64;
const _: () = assert!(CHUNK.is_multiple_of(BLOCK) && BLOCK.is_multiple_of(ALIGNMENT));

/// A segment found in one of the log's files.
#[derive(Clone, Debug)]
pub(super) struct SegmentSource {
    /// The slot number, which is the number in the name of the file.
    pub(super) slot: u32,
    pub(super) file: Arc<dyn Device>,
    pub(super) header: SegmentHeader,
    /// The checksum seed from which the seeds of the segment's records are derived.
    pub(super) seed: u64,
    /// Offset at which the readable bytes of the segment end. Lower than the segment's length if
    /// the file was truncated.
    pub(super) end: u64,
}

impl SegmentSource {
    /// Returns this segment's file as a slot for the pool.
    #[must_use]
    pub(super) fn as_slot(&self) -> Arc<SegmentSlot> {
        Arc::new(SegmentSlot::new(
            self.slot,
            Arc::clone(&self.file),
            self.file.len(),
        ))
    }

    /// Returns a location in this segment, for error messages.
    #[must_use]
    pub(super) fn place(&self, structure: OnDiskObject, offset: u64) -> DiskLocation {
        DiskLocation::new(structure, slot_file(self.slot), offset)
    }
}

/// A log file whose header block is not a valid segment header, so that it contains no segment.
#[derive(Clone, Debug)]
pub(super) struct VacantSlot {
    /// The slot number, which is the number in the name of the file.
    pub(super) slot: u32,
    pub(super) file: Arc<dyn Device>,
    /// Why the header block is invalid, or `None` if it is all zeros.
    pub(super) damage: Option<String>,
}

/// All files of a log, as found in its directory.
#[derive(Debug, Default)]
pub(super) struct LogInventory {
    /// The files that contain a segment, ordered by segment number.
    pub(super) sources: Vec<SegmentSource>,
    pub(super) vacant: Vec<VacantSlot>,
    /// The slot numbers of all log files.
    pub(super) names: BTreeSet<u32>,
}

impl LogInventory {
    /// Returns the newest incarnation of any segment, or 0 if there is no segment.
    #[must_use]
    pub(super) fn incarnation(&self) -> u64 {
        let incarnations = self.sources.iter().map(|source| source.header.incarnation);
        incarnations.max().unwrap_or(0)
    }

    /// Opens every file of a log and reads its header block.
    ///
    /// # Errors
    /// [`Error::NewerFormat`] or [`Error::OlderFormat`]; I/O errors. A damaged header is not an
    /// error here.
    pub(super) fn take(directory: &dyn Directory, identity: u64) -> Result<LogInventory> {
        let mut inventory = LogInventory::default();
        for name in directory.list()? {
            let Some(slot) = slot_of(&name) else { continue };
            inventory.names.insert(slot);
            let file = directory.open(&name, FileOptions::BUFFERED)?;
            inventory.add(slot, file, identity)?;
        }
        inventory.sources.sort_by_key(|source| source.header.number);
        Ok(inventory)
    }

    fn add(&mut self, slot: u32, file: Arc<dyn Device>, identity: u64) -> Result<()> {
        let len = file.len();
        let damage = if len == 0 {
            None
        } else if len < BLOCK_BYTES as u64 {
            Some(format!(
                "{len} bytes: the file was truncated inside the header block"
            ))
        } else {
            let block = file.read_at(0, BLOCK_BYTES, Purpose::Recovery)?;
            match SegmentHeader::decode(&block) {
                DecodedHeader::Segment(header) if header.identity != identity => Some(format!(
                    "a segment of another store (identity {:016x})",
                    header.identity
                )),
                DecodedHeader::Segment(header) if header.slot != slot => {
                    Some(format!("the segment of {}", slot_file(header.slot)))
                }
                DecodedHeader::Segment(header) => {
                    self.sources.push(SegmentSource {
                        slot,
                        header,
                        seed: header.seed(),
                        end: len.min(header.len) / BLOCK * BLOCK,
                        file,
                    });
                    return Ok(());
                }
                DecodedHeader::Empty => None,
                DecodedHeader::Other(found) => {
                    let place = DiskLocation::new(OnDiskObject::LogSegment, slot_file(slot), 0);
                    let supported = VERSION;
                    return Err(if found < supported {
                        Error::OlderFormat {
                            place,
                            found,
                            supported,
                        }
                    } else {
                        Error::NewerFormat {
                            place,
                            found,
                            supported,
                        }
                    });
                }
                DecodedHeader::Damaged(why) => Some(why),
            }
        };
        self.vacant.push(VacantSlot { slot, file, damage });
        Ok(())
    }
}

/// Why reading a segment has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SegmentEnd {
    /// The segment ends with a seal, so its lane continued in another segment.
    Sealed,
    /// At this position, the file ends or contains no valid record. The description says what was
    /// found there.
    At(u64, String),
}

/// The header and the position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LocatedRecord {
    /// Offset of the record in the segment.
    pub(super) at: u64,
    /// The header of the record.
    pub(super) header: RecordHeader,
}

/// A cursor that reads the records of one segment in order.
#[derive(Debug)]
pub(super) struct SegmentCursor {
    at: u64,
    purpose: Purpose,
    chunk: Option<(u64, AlignedBuffer)>,
    stop: Option<SegmentEnd>,
}

impl SegmentCursor {
    /// Creates a cursor positioned at the first record of a segment.
    #[must_use]
    pub(super) fn new(purpose: Purpose) -> SegmentCursor {
        SegmentCursor {
            at: BLOCK_BYTES as u64,
            purpose,
            chunk: None,
            stop: None,
        }
    }

    /// Returns the position of the next record, or the position at which no valid record was found.
    #[must_use]
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Returns why there are no more records, or `None` if the end has not been reached.
    #[must_use]
    pub(super) fn stop(&self) -> Option<&SegmentEnd> {
        self.stop.as_ref()
    }

    /// Returns the next record, or `None` if there are no more. [`SegmentCursor::stop`] then says
    /// why.
    ///
    /// # Errors
    /// I/O errors. Damaged data is not an error here: it ends the segment.
    pub(super) fn next(&mut self, source: &SegmentSource) -> Result<Option<LocatedRecord>> {
        if self.stop.is_some() {
            return Ok(None);
        }
        match self.read(source, self.at)? {
            Ok(header) => {
                let at = self.at;
                self.at += record_len(u64::from(header.len));
                debug_assert!(
                    self.at <= source.end,
                    "{} of a segment that ends at {}",
                    self.at,
                    source.end
                );
                self.let_go();
                if header.kind == RecordKind::Seal {
                    self.stop = Some(SegmentEnd::Sealed);
                    self.chunk = None;
                }
                Ok(Some(LocatedRecord { at, header }))
            }
            Err(why) => {
                self.stop = Some(SegmentEnd::At(self.at, why));
                self.chunk = None;
                Ok(None)
            }
        }
    }

    /// Reads and verifies the record at offset `at`. If there is no valid record, returns a
    /// description of what was found instead.
    fn read(&mut self, source: &SegmentSource, at: u64) -> Result<std::result::Result<RecordHeader, String>> {
        let left = source.end.saturating_sub(at);
        if left < RECORD_BYTES as u64 {
            return Ok(Err("the end of the segment".to_owned()));
        }
        let header = RecordHeader::decode(self.bytes(source, at, RECORD_BYTES as u64)?);
        let Some(header) = header else {
            return Ok(Err("no record header".to_owned()));
        };
        let len = RECORD_BYTES as u64 + u64::from(header.len);
        if len > left {
            return Ok(Err(format!("a record of {len} bytes, but only {left} are left")));
        }
        if !header.verify(source.seed, at, self.bytes(source, at, len)?) {
            return Ok(Err(format!("a record of {len} bytes with a wrong checksum")));
        }
        Ok(Ok(header))
    }

    /// Frees the buffer if it contains a long record, because each of many cursors could hold such
    /// a buffer.
    pub(super) fn let_go(&mut self) {
        if self.held_bytes() > CHUNK {
            self.chunk = None;
        }
    }

    /// Returns the size of the buffer in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.chunk.as_ref().map_or(0, |(_, chunk)| chunk.len() as u64)
    }

    /// Returns the `len` bytes at offset `at`, which must be inside the segment.
    fn bytes(&mut self, source: &SegmentSource, at: u64, len: u64) -> Result<&[u8]> {
        assert!(
            at + len <= source.end,
            "{len} bytes at {at} of a segment that ends at {}",
            source.end
        );
        let held = self
            .chunk
            .as_ref()
            .is_some_and(|(start, chunk)| *start <= at && at + len <= start + chunk.len() as u64);
        if !held {
            let start = at / BLOCK * BLOCK;
            let wanted = (at + len - start).next_multiple_of(BLOCK).max(CHUNK);
            let wanted = wanted.min(source.end - start);
            // Free the old buffer first, so that two long records are never in memory at the same
            // time.
            self.chunk = None;
            let chunk = source.file.read_at(start, wanted as usize, self.purpose)?;
            self.chunk = Some((start, chunk));
        }
        let (start, chunk) = self.chunk.as_ref().expect("just read");
        let from = (at - start) as usize;
        Ok(&chunk[from..from + len as usize])
    }

    /// Verifies a record once more after it was found, and returns its payload.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes have changed since the record was found; I/O errors.
    pub(super) fn payload(&mut self, source: &SegmentSource, record: &LocatedRecord) -> Result<&[u8]> {
        let len = RECORD_BYTES as u64 + u64::from(record.header.len);
        let sound = record
            .header
            .verify(source.seed, record.at, self.bytes(source, record.at, len)?);
        if !sound {
            let place = source.place(OnDiskObject::LogRecord, record.at);
            return Err(Error::corrupt(
                place,
                "the bytes that were read before",
                "other bytes",
            ));
        }
        Ok(&self.bytes(source, record.at, len)?[RECORD_BYTES..])
    }

    /// Searches for a valid record after the position at which the segment ended, and moves the
    /// cursor to it. Returns whether there was one. A valid segment has no such record, because a
    /// lane writes its records one after another.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn resume(&mut self, source: &SegmentSource) -> Result<bool> {
        let Some(SegmentEnd::At(stopped, _)) = self.stop else {
            return Ok(false);
        };
        let mut at = stopped + ALIGNMENT;
        let mut hashed = 0;
        while at + RECORD_BYTES as u64 <= source.end && hashed <= MAX_HASHED * source.end {
            let plausible = RecordHeader::decode(self.bytes(source, at, RECORD_BYTES as u64)?);
            if let Some(header) = plausible
                && at + record_len(u64::from(header.len)) <= source.end
            {
                hashed += u64::from(header.len);
                if self.read(source, at)?.is_ok() {
                    (self.at, self.stop) = (at, None);
                    return Ok(true);
                }
            }
            at += ALIGNMENT;
        }
        self.chunk = None;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogDurability, LogOptions, WriteAheadLog};
    use alluvium_device::memory::MemoryDirectory;

    #[test]
    fn what_was_read_of_a_long_record_is_not_kept() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let options = LogOptions {
            limit_bytes: 64 << 20,
            ..LogOptions::default()
        };
        let log = WriteAheadLog::create(&directory, options, 1).unwrap();
        let long = vec![7; 3 << 20];
        for (sequence, payload) in [(1, &b"short"[..]), (2, &long), (3, b"short"), (4, &long)] {
            log.append(sequence, 1, payload, LogDurability::Disk).unwrap();
        }
        drop(log);
        let mut lens = Vec::new();
        let inventory = LogInventory::take(&*directory, options.identity).unwrap();
        for source in &inventory.sources {
            let (mut cursor, mut payloads) = (
                SegmentCursor::new(Purpose::Other),
                SegmentCursor::new(Purpose::Other),
            );
            while let Some(record) = cursor.next(source).unwrap() {
                assert!(cursor.held_bytes() <= CHUNK, "{} bytes", cursor.held_bytes());
                let payload = payloads.payload(source, &record).unwrap();
                lens.extend((record.header.kind == RecordKind::Data).then_some(payload.len()));
                payloads.let_go();
                assert!(payloads.held_bytes() <= CHUNK);
            }
        }
        lens.sort_unstable();
        assert_eq!(lens, [5, 5, long.len(), long.len()]);
    }
}
