//! The bytes of a log segment, version 1. All integers little-endian.
//!
//! A segment is a header block of 512 bytes, then records, each at a multiple of 8 bytes. The header block:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic: the letters "alluvlog"
//!      8     4  format version: 1
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
//! A record is a header of 40 bytes and its payload; up to 7 bytes that mean nothing follow it:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  XXH3-64 of the payload, seeded with the XXH3-64 of bytes 8 to 39, which is seeded with the place
//!      8     4  length of the payload in bytes
//!     12     4  count: how many sequences the record covers; 0 in control records
//!     16     8  first sequence; in control records the newest generation known
//!     24     8  synced watermark when the record was written
//!     32     1  kind: 1 data, 2 void, 3 note, 4 seal
//!     33     7  zero
//! ```
//!
//! The mark of a clean close is a file of its own, which holds this block of 512 bytes twice:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic: the letters "alluvend"
//!      8     4  format version: 1
//!     12     4  zero
//!     16     8  incarnation that was closed
//!     24     8  newest generation known
//!     32     8  synced watermark: the last sequence of the log
//!     40     8  identity of the store
//!     48   456  zero
//!    504     8  XXH3-64 of bytes 0 to 503
//! ```
//!
//! The seed of a place comes from the store's identity, the incarnation, the segment number, the slot and the
//! position: the same bytes at another place, or in another use of the same file, do not verify.

use crate::IMPOSSIBLE;
use alluvium_base::bytes::{Reader, Truncated, Writer};
use alluvium_base::checksum;
use alluvium_base::checksum::{seeded, seeded_parts};
use alluvium_device::BootId;

/// The first bytes of every segment.
pub const MAGIC: [u8; 8] = *b"alluvlog";

/// The first bytes of the mark of a clean close.
pub const CLOSE_MAGIC: [u8; 8] = *b"alluvend";

/// The version written, and the newest that is read.
pub const VERSION: u32 = 1;

/// How many bytes the header block of a segment has.
pub const BLOCK_BYTES: usize = 512;

/// Where in the header block its checksum stands.
const CHECKSUM_AT: usize = BLOCK_BYTES - 8;

/// How many bytes a record's header has.
pub const RECORD_BYTES: usize = 40;

/// Records begin at multiples of this many bytes.
pub const ALIGNMENT: u64 = 8;

const _: () = assert!(
    (RECORD_BYTES as u64).is_multiple_of(ALIGNMENT) && (BLOCK_BYTES as u64).is_multiple_of(ALIGNMENT)
);

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The number in the file's name.
    pub slot: u32,
    /// Grows with every activation.
    pub number: u64,
    /// Grows with every opening of the log.
    pub incarnation: u64,
    /// The last sequence of earlier incarnations that counts.
    pub base: u64,
    /// The boot in which the segment was activated.
    pub boot: BootId,
    /// The newest generation known then.
    pub generation: u64,
    /// The synced watermark then.
    pub synced: u64,
    /// Length in bytes.
    pub len: u64,
    /// The store's identity.
    pub identity: u64,
    /// The lane that writes it.
    pub lane: u16,
    /// Whether it is written by stores into a mapping, and so in order, record by record.
    pub mapped: bool,
}

/// What a header block turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A segment.
    Segment(SegmentHeader),
    /// Zeros: the slot holds nothing.
    Empty,
    /// A sound block of a version that this code does not read.
    Newer(u32),
    /// Anything else, with what was wrong.
    Damaged(String),
}

impl SegmentHeader {
    /// The header block's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        Writer::new(&mut block)
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
        block.resize(CHECKSUM_AT, 0);
        let sum = checksum(&block);
        Writer::new(&mut block).u64(sum);
        block
    }

    /// Reads a header block.
    #[must_use]
    pub fn decode(block: &[u8]) -> Decoded {
        Self::read(block).unwrap_or_else(|error| Decoded::Damaged(error.to_string()))
    }

    fn read(block: &[u8]) -> Result<Decoded, Truncated> {
        let mut reader = Reader::new(block);
        let body = reader.take(CHECKSUM_AT)?;
        let sum = reader.u64()?;
        if sum == 0 && body.iter().all(|&byte| byte == 0) {
            return Ok(Decoded::Empty);
        }
        let mut reader = Reader::new(body);
        if reader.take(MAGIC.len())? != MAGIC {
            return Ok(Decoded::Damaged("no magic of a log segment".to_owned()));
        }
        let found = checksum(body);
        if found != sum {
            return Ok(Decoded::Damaged(format!(
                "checksum {found:016x} where the block says {sum:016x}"
            )));
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Ok(Decoded::Newer(version));
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
            return Ok(Decoded::Damaged("an impossibly high number".to_owned()));
        }
        Ok(Decoded::Segment(SegmentHeader {
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

    /// What the checksums of this segment's records are seeded with, before the position is mixed in.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let mut place = Vec::with_capacity(20);
        Writer::new(&mut place)
            .u64(self.incarnation)
            .u64(self.number)
            .u32(self.slot);
        seeded(self.identity, &place)
    }
}

/// That a log was closed, and where it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseMark {
    /// The incarnation that was closed.
    pub incarnation: u64,
    /// The newest generation known.
    pub generation: u64,
    /// The last sequence of the log, which is synced like all below it.
    pub synced: u64,
    /// The store's identity.
    pub identity: u64,
}

impl CloseMark {
    /// The bytes of the mark: the block twice.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(2 * BLOCK_BYTES);
        Writer::new(&mut block)
            .bytes(&CLOSE_MAGIC)
            .u32(VERSION)
            .u32(0)
            .u64(self.incarnation)
            .u64(self.generation)
            .u64(self.synced)
            .u64(self.identity);
        block.resize(CHECKSUM_AT, 0);
        let sum = checksum(&block);
        Writer::new(&mut block).u64(sum);
        block.extend_from_within(..);
        block
    }

    /// Reads the first copy that is sound; `Ok(None)` when both are zeros.
    ///
    /// # Errors
    /// What is wrong, when there is something and no copy is sound. A crash leaves no such thing: each copy is one block.
    pub fn decode(bytes: &[u8]) -> Result<Option<CloseMark>, String> {
        let copies = || bytes.chunks(BLOCK_BYTES).take(2);
        if let Some(mark) = copies().find_map(|block| Self::read(block).ok().flatten()) {
            return Ok(Some(mark));
        }
        if copies().flatten().all(|&byte| byte == 0) {
            return Ok(None);
        }
        Err("neither copy of the mark of a clean close is sound".to_owned())
    }

    fn read(block: &[u8]) -> Result<Option<CloseMark>, Truncated> {
        let mut reader = Reader::new(block);
        let body = reader.take(CHECKSUM_AT)?;
        if reader.u64()? != checksum(body) {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        if reader.take(CLOSE_MAGIC.len())? != CLOSE_MAGIC || reader.u32()? != VERSION {
            return Ok(None);
        }
        let _zero = reader.u32()?;
        let (incarnation, generation, synced) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let mark = CloseMark {
            incarnation,
            generation,
            synced,
            identity: reader.u64()?,
        };
        let possible = [incarnation, generation, synced]
            .iter()
            .all(|&value| value < IMPOSSIBLE);
        Ok(possible.then_some(mark))
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A payload of the caller.
    Data = 1,
    /// Sequences that hold nothing: given up by the caller, or found missing on the boot that lost them.
    Void = 2,
    /// Names a generation.
    Note = 3,
    /// The lane went on to another segment.
    Seal = 4,
}

impl Kind {
    fn from_number(number: u8) -> Option<Kind> {
        [Kind::Data, Kind::Void, Kind::Note, Kind::Seal]
            .into_iter()
            .find(|&kind| kind as u8 == number)
    }

    /// Whether the record covers sequences.
    #[must_use]
    pub fn is_numbered(self) -> bool {
        matches!(self, Kind::Data | Kind::Void)
    }
}

/// A record's header, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordHeader {
    /// Length of the payload in bytes.
    pub len: u32,
    /// How many sequences it covers.
    pub count: u32,
    /// The first of them, or the generation that a control record names.
    pub first: u64,
    /// The synced watermark when it was written.
    pub synced: u64,
    /// What it is.
    pub kind: Kind,
}

/// The seed of a record at `position` of the segment with this seed.
fn place_seed(segment_seed: u64, position: u64) -> u64 {
    segment_seed ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl RecordHeader {
    /// The header's bytes, for a record with this payload at `position` of the segment with this seed.
    #[must_use]
    pub fn encode(&self, segment_seed: u64, position: u64, payload: &[u8]) -> [u8; RECORD_BYTES] {
        self.encode_parts(segment_seed, position, [payload, &[]])
    }

    /// As [`RecordHeader::encode`], of a payload in two parts.
    #[must_use]
    pub fn encode_parts(&self, segment_seed: u64, position: u64, payload: [&[u8]; 2]) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced.to_le_bytes());
        bytes[32] = self.kind as u8;
        let sum = seeded_parts(seeded(place_seed(segment_seed, position), &bytes[8..]), payload);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header that could be one: its checksum is not looked at, which [`RecordHeader::verify`] does.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<RecordHeader> {
        Self::read(bytes).ok().flatten()
    }

    fn read(bytes: &[u8]) -> Result<Option<RecordHeader>, Truncated> {
        let mut reader = Reader::new(bytes);
        let _checksum = reader.u64()?;
        let (len, count, first, synced) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u64()?);
        let (kind, zero) = (reader.u8()?, reader.take(7)?);
        let Some(kind) = Kind::from_number(kind) else {
            return Ok(None);
        };
        let shape = match kind {
            Kind::Data => count > 0 && first > 0,
            Kind::Void => len == 0 && count > 0 && first > 0,
            Kind::Note | Kind::Seal => len == 0 && count == 0,
        };
        let header = RecordHeader {
            len,
            count,
            first,
            synced,
            kind,
        };
        let possible = first < IMPOSSIBLE && synced < IMPOSSIBLE;
        Ok((shape && possible && zero.iter().all(|&byte| byte == 0)).then_some(header))
    }

    /// Whether `bytes` (header and payload) are what was written at `position` of the segment with this seed.
    #[must_use]
    pub fn verify(&self, segment_seed: u64, position: u64, bytes: &[u8]) -> bool {
        let payload = RECORD_BYTES..RECORD_BYTES + self.len as usize;
        match (bytes.get(..RECORD_BYTES), bytes.get(payload)) {
            (Some(header), Some(payload)) => self.encode(segment_seed, position, payload)[..] == *header,
            _ => false,
        }
    }

    /// The last sequence it covers.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }
}

/// How many bytes a record with a payload of `len` bytes takes, up to the next record.
#[must_use]
pub const fn record_len(len: u64) -> u64 {
    (RECORD_BYTES as u64 + len).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: SegmentHeader = SegmentHeader {
        slot: 3,
        number: 0x1122,
        incarnation: 7,
        base: 99,
        boot: BootId([0xb0; 16]),
        generation: 5,
        synced: 98,
        len: 1 << 20,
        identity: 0xfeed,
        lane: 2,
        mapped: true,
    };

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_header_block_of_version_1_does_not_change() {
        let block = HEADER.encode();
        assert_eq!(block.len(), BLOCK_BYTES);
        assert_eq!(
            hex(&block[..96]),
            "616c6c75766c6f67010000000300000022110000000000000700000000000000\
             6300000000000000b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b00500000000000000\
             62000000000000000000100000000000edfe0000000000000200010000000000"
        );
        assert!(block[96..504].iter().all(|&byte| byte == 0));
        assert_eq!(hex(&block[504..]), "c7d66ae577052477");
    }

    #[test]
    fn a_record_of_version_1_does_not_change() {
        let header = RecordHeader {
            len: 5,
            count: 2,
            first: 100,
            synced: 98,
            kind: Kind::Data,
        };
        let bytes = header.encode(HEADER.seed(), 512, b"hello");
        assert_eq!(
            hex(&bytes),
            "54dad7451e1d86b10500000002000000640000000000000062000000000000000100000000000000"
        );
    }

    #[test]
    fn the_close_mark_of_version_1_does_not_change_and_one_copy_is_enough() {
        let mark = CloseMark {
            incarnation: 3,
            generation: 5,
            synced: 99,
            identity: 0xfeed,
        };
        let bytes = mark.encode();
        assert_eq!(bytes.len(), 2 * BLOCK_BYTES);
        assert_eq!(
            hex(&bytes[..48]),
            "616c6c7576656e64010000000000000003000000000000000500000000000000\
             6300000000000000edfe000000000000"
        );
        assert_eq!(hex(&bytes[504..512]), "e48c85acd2627d3c");
        assert_eq!(bytes[..512], bytes[512..]);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(CloseMark::decode(&bad), Ok(Some(mark)), "bit {bit}");
            bad[(bit / 8 + 512) % 1024] ^= 4;
            assert!(
                CloseMark::decode(&bad).is_err(),
                "bit {bit} and one of the other copy"
            );
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_block_is_found() {
        let block = HEADER.encode();
        assert_eq!(SegmentHeader::decode(&block), Decoded::Segment(HEADER));
        for bit in 0..block.len() * 8 {
            let mut bad = block.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(SegmentHeader::decode(&bad), Decoded::Damaged(_)),
                "bit {bit}"
            );
        }
        assert_eq!(SegmentHeader::decode(&[0; BLOCK_BYTES]), Decoded::Empty);
        assert!(matches!(
            SegmentHeader::decode(&block[..511]),
            Decoded::Damaged(_)
        ));
    }

    #[test]
    fn a_sound_block_of_a_newer_version_is_named_as_such() {
        let mut block = HEADER.encode();
        block[8] = 2;
        let sum = checksum(&block[..CHECKSUM_AT]);
        block[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&block), Decoded::Newer(2));
    }

    #[test]
    fn a_record_verifies_only_at_its_own_place() {
        let header = RecordHeader {
            len: 5,
            count: 1,
            first: 9,
            synced: 0,
            kind: Kind::Data,
        };
        let mut bytes = header.encode(HEADER.seed(), 1024, b"hello").to_vec();
        bytes.extend_from_slice(b"hello");
        assert_eq!(RecordHeader::decode(&bytes), Some(header));
        assert!(header.verify(HEADER.seed(), 1024, &bytes));
        assert!(!header.verify(HEADER.seed(), 1032, &bytes), "another position");
        for other in [
            SegmentHeader { number: 1, ..HEADER },
            SegmentHeader {
                incarnation: 8,
                ..HEADER
            },
            SegmentHeader { slot: 4, ..HEADER },
            SegmentHeader {
                identity: 1,
                ..HEADER
            },
        ] {
            assert!(!header.verify(other.seed(), 1024, &bytes), "{other:?}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let verified =
                RecordHeader::decode(&bad).is_some_and(|header| header.verify(HEADER.seed(), 1024, &bad));
            assert!(!verified, "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoders_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = SegmentHeader::decode(&bytes);
            let _ = CloseMark::decode(&bytes);
            if let Some(header) = RecordHeader::decode(&bytes) {
                let _ = header.verify(1, 512, &bytes);
            }
        }

        #[test]
        fn what_is_encoded_is_decoded(
            len in 0u32..100,
            count in 1u32..,
            first in 1..IMPOSSIBLE,
            synced in 0..IMPOSSIBLE,
        ) {
            let header = RecordHeader { len, count, first, synced, kind: Kind::Data };
            let payload = vec![7; len as usize];
            let mut bytes = header.encode(3, 512, &payload).to_vec();
            bytes.extend_from_slice(&payload);
            prop_assert_eq!(RecordHeader::decode(&bytes), Some(header));
            prop_assert!(header.verify(3, 512, &bytes));
        }

        #[test]
        fn an_impossibly_high_number_is_not_read(number in IMPOSSIBLE..) {
            let record = RecordHeader { len: 0, count: 1, first: number, synced: 0, kind: Kind::Void };
            prop_assert_eq!(RecordHeader::decode(&record.encode(3, 512, b"")), None);
            let segment = SegmentHeader { incarnation: number, ..HEADER };
            prop_assert!(matches!(SegmentHeader::decode(&segment.encode()), Decoded::Damaged(_)));
        }
    }
}
