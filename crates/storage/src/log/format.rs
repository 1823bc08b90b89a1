//! On-disk format of log segments, version 2, and of the log's mark, version 3. All integers are
//! little-endian.
//!
//! A segment is a header block of 512 bytes, followed by records, each of which begins at a
//! multiple of 8 bytes. The header block has this format:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic: the letters "alluvlog"
//!      8     4  format version: 2
//!     12     4  slot: the number in the file's name, so that swapped files are found
//!     16     8  segment number: grows with every activation
//!     24     8  incarnation: grows with every opening of the log
//!     32     8  base: the last sequence of earlier incarnations that counts
//!     40    16  boot id of the machine when the segment was activated
//!     56     8  newest generation known when the segment was activated
//!     64     8  synced watermark when the segment was activated
//!     72     8  length of the segment in bytes, this block included
//!     80     8  identity of the store, from the options
//!     88     2  lane
//!     90     1  how it is written: 0 by calls, 1 by stores into a mapping
//!     91   413  zero
//!    504     8  XXH3-64 of bytes 0 to 503
//! ```
//!
//! A record consists of a 40-byte header and a payload, followed by up to 7 bytes of undefined
//! padding:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  XXH3-64 of the payload, seeded with the XXH3-64 of bytes 8 to 39, which is seeded with
//!               the place
//!      8     8  data: 4 bytes of length of the payload, 4 bytes of count (how many sequences it covers);
//!               void: count; control records: the completion watermark when the record was written
//!     16     8  first sequence; in control records the newest generation known
//!     24     8  synced watermark when the record was written
//!     32     1  kind: 1 data, 2 void, 3 note, 4 seal
//!     33     3  zero
//!     36     4  data and void: how far the first sequence is above the completion watermark when the
//!               record was written, at least 1; in control records 0
//! ```
//!
//! The completion watermark is the sequence number up to which every record is in the page cache.
//!
//! The mark is stored in a separate file as two copies of this 512-byte block:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic: the letters "alluvmrk"
//!      8     4  format version: 3
//!     12     4  1 once the log was closed, else 0
//!     16     8  incarnation
//!     24     8  newest generation known
//!     32     8  synced watermark; once the log was closed its last sequence
//!     40     8  identity of the store
//!     48     8  completion watermark
//!     56     8  a durable checkpoint holds everything up to this sequence
//!     64     8  turn: grows each time the mark is written
//!     72     8  number of the newest segment
//!     80   256  for each lane 4 bytes: one more than the distance from its segment's number to the
//!               newest one; 0 where it has none
//!    336     8  the latest time that readers have read by, in milliseconds since 1970
//!    344   160  zero
//!    504     8  XXH3-64 of bytes 0 to 503
//! ```
//!
//! Version 2 of the mark has zeros in place of the time. It can still be read.
//!
//! The checksum seed of a record is derived from the store's identity, the incarnation, the segment
//! number, the slot and the record's position. The same bytes in another place, or left over from
//! an earlier use of the file, therefore fail verification.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::options::MAX_LANES;
use crate::IMPOSSIBLE;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;
use alluvium_base::checksum::{seeded, seeded_parts};
use alluvium_device::BootId;

/// The first bytes of every segment.
pub const MAGIC: [u8; 8] = *b"alluvlog";

/// The first bytes of the mark.
pub const MARK_MAGIC: [u8; 8] = *b"alluvmrk";

/// The format version of new segments, which is also the only version that can be read.
pub const VERSION: u32 = 2;

/// The version of a newly written mark, and the previous version, which can still be read.
const MARK_VERSION: u32 = 3;
const MARK_WITHOUT_TIME: u32 = 2;

/// Size in bytes of a segment's header block.
pub const BLOCK_BYTES: usize = 512;

/// Offset of the checksum in a header block or a mark, in bytes.
const CHECKSUM_AT: usize = BLOCK_BYTES - 8;

/// Offset in bytes of the time in a mark. The time follows the lanes.
const TIME_AT: usize = 80 + 4 * MAX_LANES;

/// Size in bytes of a record header.
pub const RECORD_BYTES: usize = 40;

/// Alignment in bytes of the records in a segment.
pub const ALIGNMENT: u64 = 8;

const _: () = assert!(
    (RECORD_BYTES as u64).is_multiple_of(ALIGNMENT) && (BLOCK_BYTES as u64).is_multiple_of(ALIGNMENT)
);

/// The contents of a segment's header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The slot number, which is the number in the name of the file.
    pub slot: u32,
    /// The segment number, which increases with each new segment.
    pub number: u64,
    /// The number of the incarnation, which increases each time the log is opened.
    pub incarnation: u64,
    /// The last valid sequence number of all earlier incarnations.
    pub base: u64,
    /// Identifies the boot of the machine during which the segment was begun.
    pub boot: BootId,
    /// The newest generation that was known when the segment was begun.
    pub generation: u64,
    /// The synced watermark when the segment was begun.
    pub synced: u64,
    /// Length of the segment in bytes.
    pub len: u64,
    /// The identity of the store, from the options of the log.
    pub identity: u64,
    /// The lane to which the segment belongs.
    pub lane: u16,
    /// Whether the segment is written through a memory mapping. If so, its bytes are written in
    /// order, one record after another.
    pub mapped: bool,
}

/// The result of decoding a header block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedHeader {
    /// The header of a valid segment.
    Segment(SegmentHeader),
    /// All zeros: the slot does not contain a segment.
    Empty,
    /// A valid header of an unsupported format version.
    Other(u32),
    /// Anything else. Contains a description of the damage.
    Damaged(String),
}

impl SegmentHeader {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        ByteWriter::new(&mut block)
            .bytes(&MAGIC)
            .u32(VERSION)
            .u32(self.slot)
            .u64(self.number)
            .u64(self.incarnation)
            .u64(self.base)
            .bytes(&self.boot.0)
            .u64(self.generation)
            .u64(self.synced)
            .u64(self.len)
            .u64(self.identity)
            .u16(self.lane)
            .u8(u8::from(self.mapped));
        assert!(block.len() <= CHECKSUM_AT, "the fields end before the checksum");
        block.resize(CHECKSUM_AT, 0);
        let sum = checksum(&block);
        ByteWriter::new(&mut block).u64(sum);
        block
    }

    #[must_use]
    pub fn decode(block: &[u8]) -> DecodedHeader {
        Self::read(block).unwrap_or_else(|error| DecodedHeader::Damaged(error.to_string()))
    }

    fn read(block: &[u8]) -> Result<DecodedHeader, TruncatedInput> {
        let mut reader = ByteReader::new(block);
        let body = reader.take(CHECKSUM_AT)?;
        let sum = reader.u64()?;
        if sum == 0 && body.iter().all(|&byte| byte == 0) {
            return Ok(DecodedHeader::Empty);
        }
        let mut reader = ByteReader::new(body);
        if reader.take(MAGIC.len())? != MAGIC {
            return Ok(DecodedHeader::Damaged(
                "no magic number of a log segment".to_owned(),
            ));
        }
        let found = checksum(body);
        if found != sum {
            return Ok(DecodedHeader::Damaged(format!(
                "checksum {found:016x} where the block says {sum:016x}"
            )));
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Ok(DecodedHeader::Other(version));
        }
        let slot = reader.u32()?;
        let (number, incarnation, base) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let mut boot = [0; 16];
        boot.copy_from_slice(reader.take(16)?);
        let (generation, synced, len) = (reader.u64()?, reader.u64()?, reader.u64()?);
        if [number, incarnation, base, generation, synced, len]
            .iter()
            .any(|&value| value >= IMPOSSIBLE)
        {
            return Ok(DecodedHeader::Damaged("a number that is too high".to_owned()));
        }
        Ok(DecodedHeader::Segment(SegmentHeader {
            slot,
            number,
            incarnation,
            base,
            boot: BootId(boot),
            generation,
            synced,
            len,
            identity: reader.u64()?,
            lane: reader.u16()?,
            mapped: reader.u8()? == 1,
        }))
    }

    /// Returns the checksum seed of this segment. Each record's seed combines it with the record's
    /// position.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let mut place = Vec::with_capacity(20);
        ByteWriter::new(&mut place)
            .u64(self.incarnation)
            .u64(self.number)
            .u32(self.slot);
        seeded(self.identity, &place)
    }
}

/// The progress of a log, which is stored in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMark {
    /// Whether the log was closed cleanly when the mark was written.
    pub closed: bool,
    /// The incarnation that wrote the mark.
    pub incarnation: u64,
    /// The newest generation known to be durable.
    pub generation: u64,
    /// Everything up to this sequence number was durable.
    pub synced: u64,
    /// The identity of the store, from the options of the log.
    pub identity: u64,
    /// Every record up to this sequence number was in the page cache.
    pub complete: u64,
    /// A durable checkpoint contains everything up to this sequence number.
    pub released: u64,
    /// A counter that increases each time the mark is written.
    pub turn: u64,
    /// The number of the current segment of each lane, or `None` if the lane has no segment.
    pub lanes: Vec<Option<u64>>,
    /// The latest time at which the store was read, in milliseconds since 1970.
    pub time_ms: u64,
}

impl LogMark {
    /// Returns the contents of the mark file: two copies of the encoded block.
    ///
    /// # Panics
    /// If the mark has more than [`MAX_LANES`] lanes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(
            self.lanes.len() <= MAX_LANES,
            "the mark has room for as many lanes"
        );
        let newest = self.lanes.iter().flatten().copied().max().unwrap_or(0);
        let mut block = Vec::with_capacity(2 * BLOCK_BYTES);
        let mut writer = ByteWriter::new(&mut block);
        writer
            .bytes(&MARK_MAGIC)
            .u32(MARK_VERSION)
            .u32(u32::from(self.closed))
            .u64(self.incarnation)
            .u64(self.generation)
            .u64(self.synced)
            .u64(self.identity)
            .u64(self.complete)
            .u64(self.released)
            .u64(self.turn)
            .u64(newest);
        for lane in &self.lanes {
            // A distance of 2³² or more does not fit, so the lane is stored as having no segment.
            let distance = lane.and_then(|number| u32::try_from(newest - number + 1).ok());
            writer.u32(distance.unwrap_or(0));
        }
        block.resize(TIME_AT, 0);
        ByteWriter::new(&mut block).u64(self.time_ms);
        block.resize(CHECKSUM_AT, 0);
        let sum = checksum(&block);
        ByteWriter::new(&mut block).u64(sum);
        block.extend_from_within(..);
        block
    }

    /// Decodes the newest valid copy of the mark.
    ///
    /// # Errors
    /// A description of the damage if neither copy is valid. A crash cannot cause this, because
    /// each copy is a single block.
    pub fn decode(bytes: &[u8]) -> Result<LogMark, String> {
        let copies = bytes.chunks(BLOCK_BYTES).take(2);
        let newest = copies
            .filter_map(|block| Self::read(block).ok().flatten())
            .max_by_key(|mark| (mark.incarnation, mark.turn));
        newest.ok_or_else(|| "no intact copy of the log's mark".to_owned())
    }

    fn read(block: &[u8]) -> Result<Option<LogMark>, TruncatedInput> {
        let mut reader = ByteReader::new(block);
        let body = reader.take(CHECKSUM_AT)?;
        if reader.u64()? != checksum(body) {
            return Ok(None);
        }
        let mut reader = ByteReader::new(body);
        let is_mark = reader.take(MARK_MAGIC.len())? == MARK_MAGIC;
        if !is_mark || !matches!(reader.u32()?, MARK_WITHOUT_TIME | MARK_VERSION) {
            return Ok(None);
        }
        let closed = reader.u32()? == 1;
        let mut number = || reader.u64();
        let mark = LogMark {
            closed,
            incarnation: number()?,
            generation: number()?,
            synced: number()?,
            identity: number()?,
            complete: number()?,
            released: number()?,
            turn: number()?,
            lanes: Vec::new(),
            time_ms: 0,
        };
        let newest = number()?;
        let possible = [
            mark.incarnation,
            mark.generation,
            mark.synced,
            mark.complete,
            newest,
        ]
        .iter()
        .all(|&value| value < IMPOSSIBLE);
        let mut lanes = Vec::with_capacity(MAX_LANES);
        for _ in 0..MAX_LANES {
            let distance = u64::from(reader.u32()?);
            lanes.push((distance > 0).then(|| (newest + 1).saturating_sub(distance)));
        }
        while lanes.last() == Some(&None) {
            lanes.pop();
        }
        let time_ms = reader.u64()?;
        Ok(possible.then_some(LogMark {
            lanes,
            time_ms,
            ..mark
        }))
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// A record with a payload from the caller.
    Data = 1,
    /// Sequence numbers without content, because the caller voided them or because a repair found
    /// them missing.
    Void = 2,
    /// A control record that names the newest generation known to be durable.
    Note = 3,
    /// The last record of a segment, after which the lane continues in another segment.
    Seal = 4,
}

impl RecordKind {
    fn from_number(number: u8) -> Option<RecordKind> {
        [
            RecordKind::Data,
            RecordKind::Void,
            RecordKind::Note,
            RecordKind::Seal,
        ]
        .into_iter()
        .find(|&kind| kind as u8 == number)
    }

    /// Returns whether records of this kind cover sequence numbers.
    #[must_use]
    pub fn is_numbered(self) -> bool {
        matches!(self, RecordKind::Data | RecordKind::Void)
    }
}

/// The header of a record, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordHeader {
    /// Length of the payload in bytes.
    pub len: u32,
    /// Number of sequence numbers that the record covers: at most `u32::MAX` for a data record, 0
    /// for a control record.
    pub count: u64,
    /// The first sequence number that the record covers, or the generation that a control record
    /// names.
    pub first: u64,
    /// The synced watermark when the record was written.
    pub synced: u64,
    /// The completion watermark when the record was written.
    pub complete: u64,
    /// The kind of the record.
    pub kind: RecordKind,
}

/// Returns the checksum seed of the record at `position` in a segment with seed `segment_seed`.
fn place_seed(segment_seed: u64, position: u64) -> u64 {
    segment_seed ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl RecordHeader {
    /// Encodes the header, including the checksum. `position` is the record's offset in the segment
    /// with seed `segment_seed`.
    #[must_use]
    pub fn encode(&self, segment_seed: u64, position: u64, payload: &[u8]) -> [u8; RECORD_BYTES] {
        self.encode_parts(segment_seed, position, [payload, &[]])
    }

    /// Like [`RecordHeader::encode`], but for a payload in two parts.
    #[must_use]
    pub fn encode_parts(&self, segment_seed: u64, position: u64, payload: [&[u8]; 2]) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let (size, lag) = match self.kind {
            RecordKind::Data => (u64::from(self.len) | self.count << 32, self.lag()),
            RecordKind::Void => (self.count, self.lag()),
            RecordKind::Note | RecordKind::Seal => (self.complete, 0),
        };
        bytes[8..16].copy_from_slice(&size.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced.to_le_bytes());
        bytes[32] = self.kind as u8;
        bytes[36..].copy_from_slice(&lag.to_le_bytes());
        let sum = seeded_parts(seeded(place_seed(segment_seed, position), &bytes[8..]), payload);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns the distance from the completion watermark to the first sequence number, which is at
    /// most the window size.
    fn lag(&self) -> u32 {
        (self.first - self.complete) as u32
    }

    /// Decodes a record header. Returns `None` if its fields are implausible. This does not check
    /// the checksum; call [`RecordHeader::verify`] for that.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<RecordHeader> {
        Self::read(bytes).ok().flatten()
    }

    fn read(bytes: &[u8]) -> Result<Option<RecordHeader>, TruncatedInput> {
        let mut reader = ByteReader::new(bytes);
        let _checksum = reader.u64()?;
        let (size, first, synced) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (kind, zero, lag) = (reader.u8()?, reader.take(3)?, u64::from(reader.u32()?));
        let Some(kind) = RecordKind::from_number(kind) else {
            return Ok(None);
        };
        let (len, count) = match kind {
            RecordKind::Data => (size as u32, size >> 32),
            RecordKind::Void => (0, size),
            RecordKind::Note | RecordKind::Seal => (0, 0),
        };
        let complete = if kind.is_numbered() {
            first.saturating_sub(lag)
        } else {
            size
        };
        let shape = match kind {
            RecordKind::Data | RecordKind::Void => count > 0 && (1..=first).contains(&lag),
            RecordKind::Note | RecordKind::Seal => lag == 0,
        };
        let header = RecordHeader {
            len,
            count,
            first,
            synced,
            complete,
            kind,
        };
        let possible =
            first.saturating_add(count) <= IMPOSSIBLE && synced < IMPOSSIBLE && complete < IMPOSSIBLE;
        Ok((shape && possible && zero.iter().all(|&byte| byte == 0)).then_some(header))
    }

    /// Returns whether `bytes`, which must contain the header and the payload, match the checksum
    /// of a record at `position` in the segment with seed `segment_seed`.
    #[must_use]
    pub fn verify(&self, segment_seed: u64, position: u64, bytes: &[u8]) -> bool {
        let payload = RECORD_BYTES..RECORD_BYTES + self.len as usize;
        match (bytes.get(..RECORD_BYTES), bytes.get(payload)) {
            (Some(header), Some(payload)) => self.encode(segment_seed, position, payload)[..] == *header,
            _ => false,
        }
    }

    /// Returns the last sequence number that the record covers.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + self.count - 1
    }
}

/// Returns the size in bytes of a record with a payload of `len` bytes, including header and
/// padding.
#[must_use]
pub const fn record_len(len: u64) -> u64 {
    (RECORD_BYTES as u64 + len).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests;
