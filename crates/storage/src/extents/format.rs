//! On-disk format of the extent map, version 1. All integers are little-endian; "varint" is LEB128.
//!
//! A map is the valid prefix of a file `extents-<number>.map`, to which a [`MapPointer`] in the
//! superblock refers. It is a sequence of records, each padded with zeros to the logical block
//! size. The first records form a snapshot, which lists all extents as changes to an empty map.
//! Each checkpoint appends records with its changes. All entries of a record belong to the same
//! tier.
//!
//! ```text
//! record
//! OFFSET  SIZE  MEANING
//!      0     8  "ALVEXMAP"
//!      8     4  format version
//!     12     4  length of the entries, bytes, at most 1 MiB + 64
//!     16     8  number of the file
//!     24     8  generation whose freeze made the record
//!     32     4  how many entries
//!     36     1  tier
//!     37     3  zero
//!     40     8  XXH3-64 of the padded record with this field zero, seeded with the checksum of the
//!               record before (of the first record: with the XXH3-64 of the magic, seeded with the
//!               file's number)
//!     48     -  entries, ascending, then zeros to a multiple of 512
//!
//! entry
//!      0     1  flags: 1 the extent is gone, 2 as many units as the entry before (before the first: 1),
//!               4 no gap, 8 one reference, 16 every byte is live, 32 repeated,
//!               64 new: the records before do not name it
//!      -     -  varint, without flag 4: units between the end of the entry before (unit 0 at first)
//!               and this one
//!      -     -  varint, without flag 2: units
//!      -     -  varint, without flags 1 and 8: references
//!      -     -  varint, without flags 1 and 16: bytes that are not live
//!      -     -  varint, with flag 32: how many more such extents follow, each right behind the one before
//!
//! map pointer (in the superblock)
//!      0     8  number of the file
//!      8     8  length of the valid prefix, bytes, a multiple of 512
//!     16     8  checksum of the last record
//!     24     8  generation of the last record
//!     32     8  length of the snapshot at the prefix's start, bytes
//!     40     4  how many records
//!     44     4  zero
//!
//! extent (in the footers of whatever consists of extents)
//!      0     4  first unit
//!      4     4  units
//!      8     1  tier
//!      9     3  zero
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{Extent, MAX_EXTENT_UNITS, MAX_REFERENCES, MAX_TIER_UNITS, UNIT};
use crate::tiers::MAX_TIERS;
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::{MIB, checksum};
use alluvium_device::{AlignedBuffer, BLOCK};

const MAGIC: &[u8; 8] = b"ALVEXMAP";
const VERSION: u32 = 1;
const HEADER: usize = 48;
const CHECKSUM_AT: usize = 40;
/// A record is full once its entries have this many bytes.
const FULL: usize = MIB as usize;
/// Maximum size of an entry in bytes: a flag byte and five varints of up to 10 bytes each.
const MAX_ENTRY: usize = 64;
/// Maximum size of a record in bytes.
pub(super) const MAX_RECORD: usize = (HEADER + FULL + MAX_ENTRY).next_multiple_of(BLOCK as usize);

const GONE: u8 = 1;
const SAME_UNITS: u8 = 2;
const NO_GAP: u8 = 4;
const ONE_REFERENCE: u8 = 8;
const ALL_LIVE: u8 = 16;
const REPEATED: u8 = 32;
const NEW: u8 = 64;

const _: () = assert!(HEADER + MAX_ENTRY < BLOCK as usize && CHECKSUM_AT + 8 == HEADER);

/// Returns the name of the map file with this number.
#[must_use]
pub fn map_file(number: u64) -> String {
    format!("extents-{number}.map")
}

/// Returns the number in the name of a map file, or `None` for any other name.
pub(super) fn map_number(name: &str) -> Option<u64> {
    let number = name
        .strip_prefix("extents-")?
        .strip_suffix(".map")?
        .parse()
        .ok()?;
    (map_file(number) == name).then_some(number)
}

/// Pointer to an extent map, stored in the superblock. It identifies the file and the exact prefix
/// of it that is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapPointer {
    /// The number in the name of the map file.
    pub file: u64,
    /// Length of the valid prefix in bytes.
    pub length: u64,
    /// Checksum of the last record, which depends on all earlier records, because the checksums are
    /// chained.
    pub checksum: u64,
    /// Generation of the last record, which is lower than the superblock's if no extent has changed
    /// since.
    pub generation: u64,
    /// Length in bytes of the snapshot at the start of the file.
    pub snapshot: u64,
    pub records: u32,
}

impl MapPointer {
    /// Size of an encoded pointer in bytes.
    pub const BYTES: usize = 48;

    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.snapshot <= self.length, "a map begins with its snapshot");
        ByteWriter::new(out)
            .u64(self.file)
            .u64(self.length)
            .u64(self.checksum)
            .u64(self.generation)
            .u64(self.snapshot)
            .u32(self.records)
            .u32(0);
    }

    /// Decodes a pointer, and checks that its values are plausible.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place` if the bytes are not a valid pointer.
    pub fn decode(reader: &mut ByteReader<'_>, place: &DiskLocation) -> Result<MapPointer> {
        let bad = |found: String| Error::corrupt(place.clone(), "a pointer to an extent map", found);
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            let pointer = MapPointer {
                file: reader.u64()?,
                length: reader.u64()?,
                checksum: reader.u64()?,
                generation: reader.u64()?,
                snapshot: reader.u64()?,
                records: reader.u32()?,
            };
            Ok((pointer, reader.u32()?))
        };
        let (pointer, zero) = read().map_err(|error| bad(error.to_string()))?;
        let blocks = pointer.length / BLOCK;
        let plausible = pointer.length.is_multiple_of(BLOCK)
            && pointer.snapshot.is_multiple_of(BLOCK)
            && (BLOCK..=pointer.length).contains(&pointer.snapshot)
            && (1..=blocks).contains(&u64::from(pointer.records));
        if zero == 0 && plausible {
            Ok(pointer)
        } else {
            Err(bad(format!("{pointer:?}")))
        }
    }

    /// Returns the location of the end of the map, for error messages.
    #[must_use]
    pub fn place(&self) -> DiskLocation {
        place(self.file, self.length)
    }
}

impl Extent {
    /// Size of an encoded extent in bytes.
    pub const BYTES: usize = 12;

    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!((1..=MAX_EXTENT_UNITS).contains(&self.units), "{self} (X1)");
        debug_assert!(usize::from(self.tier) < MAX_TIERS, "{self} (T1)");
        ByteWriter::new(out)
            .u32(self.start)
            .u32(self.units)
            .u8(self.tier)
            .bytes(&[0; 3]);
    }

    /// Decodes an extent, and checks that its values are plausible.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place` if the bytes are not a valid extent.
    pub fn decode(reader: &mut ByteReader<'_>, place: &DiskLocation) -> Result<Extent> {
        let bad = |found: String| Error::corrupt(place.clone(), "an extent", found);
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            let (start, units, tier) = (reader.u32()?, reader.u32()?, reader.u8()?);
            Ok((Extent { tier, start, units }, reader.take(3)? == [0; 3]))
        };
        let (extent, zeros) = read().map_err(|error| bad(error.to_string()))?;
        let fits = extent.start <= MAX_TIER_UNITS
            && (1..=MAX_EXTENT_UNITS).contains(&extent.units)
            && extent.units <= MAX_TIER_UNITS - extent.start
            && usize::from(extent.tier) < MAX_TIERS;
        if zeros && fits {
            Ok(extent)
        } else {
            Err(bad(format!("{extent:?}")))
        }
    }
}

pub(super) fn place(file: u64, offset: u64) -> DiskLocation {
    DiskLocation::new(OnDiskObject::ExtentMap, map_file(file), offset)
}

/// An entry of a map record, for one extent or for several adjacent extents that differ only in
/// position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapEntry {
    pub(super) start: u32,
    pub(super) units: u32,
    /// The extent's reference count and live bytes, or `None` if it no longer exists.
    pub(super) now: Option<(u32, u64)>,
    /// Whether no earlier record contains the extent.
    pub(super) new: bool,
    /// Number of further extents with the same fields, each directly after the one before it.
    pub(super) repeats: u32,
}

/// Returns the seed for the first checksum in the chain of a map file.
pub(super) fn first_link(file: u64) -> u64 {
    checksum::seeded(file, MAGIC)
}

/// The fields in a map record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapRecordHeader {
    pub(super) file: u64,
    pub(super) generation: u64,
    pub(super) tier: u8,
}

/// Builds a map record from entries.
#[derive(Debug, Default)]
pub(super) struct MapRecordBuilder {
    entries: Vec<u8>,
    count: u32,
    end: u32,
    units: u32,
    /// The last entry, which is not encoded yet because the next entry may merely repeat it.
    open: Option<MapEntry>,
}

impl MapRecordBuilder {
    /// Adds an entry, whose extent must follow those of all previous entries.
    pub(super) fn push(&mut self, entry: &MapEntry) {
        match &mut self.open {
            Some(open) if open.is_repeated_by(entry) => open.repeats += 1 + entry.repeats,
            open => {
                if let Some(done) = open.replace(*entry) {
                    self.append(&done);
                }
            }
        }
    }

    fn append(&mut self, entry: &MapEntry) {
        assert!(entry.start >= self.end, "entries ascend");
        assert!(
            entry
                .now
                .is_none_or(|(references, _)| (1..=MAX_REFERENCES).contains(&references)),
            "a live extent has references (X6): {entry:?}"
        );
        let gap = entry.start - self.end;
        let same = if self.count == 0 {
            entry.units == 1
        } else {
            entry.units == self.units
        };
        let dead = entry.now.map(|(_, live)| u64::from(entry.units) * UNIT - live);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(entry.now.is_none(), GONE)
            | flag(same, SAME_UNITS)
            | flag(gap == 0, NO_GAP)
            | flag(
                entry.now.is_some_and(|(references, _)| references == 1),
                ONE_REFERENCE,
            )
            | flag(dead == Some(0), ALL_LIVE)
            | flag(entry.repeats > 0, REPEATED)
            | flag(entry.new, NEW);
        let mut out = ByteWriter::new(&mut self.entries);
        out.u8(flags);
        if gap > 0 {
            out.varint(gap.into());
        }
        if !same {
            out.varint(entry.units.into());
        }
        if let (Some((references, _)), 0) = (entry.now, flags & ONE_REFERENCE) {
            out.varint(references.into());
        }
        if let (Some(dead), 0) = (dead, flags & ALL_LIVE) {
            out.varint(dead);
        }
        if entry.repeats > 0 {
            out.varint(entry.repeats.into());
        }
        self.count += 1;
        self.units = entry.units;
        self.end = entry.start + entry.units * (entry.repeats + 1);
    }

    /// Returns whether [`MapRecordBuilder::seal`] must finish the record before another entry is
    /// added.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() + MAX_ENTRY > FULL
    }

    /// Returns whether the record has no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.open.is_none()
    }

    /// Finishes the record and empties the builder. Returns the record's bytes and checksum. `link`
    /// is the checksum of the previous record, which seeds this one.
    #[allow(clippy::indexing_slicing, reason = "the buffer is made here, for these bytes")]
    pub(super) fn seal(&mut self, header: &MapRecordHeader, link: u64) -> (AlignedBuffer, u64) {
        if let Some(open) = self.open.take() {
            self.append(&open);
        }
        let built = std::mem::take(self);
        let mut bytes = Vec::with_capacity(HEADER);
        ByteWriter::new(&mut bytes)
            .bytes(MAGIC)
            .u32(VERSION)
            .u32(built.entries.len() as u32)
            .u64(header.file)
            .u64(header.generation)
            .u32(built.count)
            .u8(header.tier)
            .bytes(&[0; 3])
            .u64(0);
        let len = (HEADER + built.entries.len()).next_multiple_of(BLOCK as usize);
        assert!(
            len <= MAX_RECORD,
            "a record of {len} bytes would not be read (X5)"
        );
        let mut buffer = AlignedBuffer::zeroed(len);
        buffer[..HEADER].copy_from_slice(&bytes);
        buffer[HEADER..HEADER + built.entries.len()].copy_from_slice(&built.entries);
        let sum = checksum::seeded(link, &buffer);
        buffer[CHECKSUM_AT..HEADER].copy_from_slice(&sum.to_le_bytes());
        (buffer, sum)
    }
}

impl MapEntry {
    fn end(&self) -> u32 {
        self.start + self.units * (self.repeats + 1)
    }

    fn is_repeated_by(&self, next: &MapEntry) -> bool {
        let alike = next.units == self.units && next.now == self.now && next.new == self.new;
        alike && next.start == self.end()
    }
}

/// Returns the padded length of the record that starts with `bytes`, which must be at least one
/// block. Accepts records of later format versions, because the version cannot be trusted until the
/// checksum has been verified.
///
/// # Errors
/// [`Error::Corrupt`] if the bytes do not start a record.
pub(super) fn record_len(bytes: &[u8], place: &DiskLocation) -> Result<usize> {
    let bad = |found: String| Error::corrupt(place.clone(), "a record of the extent map", found);
    let mut reader = ByteReader::new(bytes);
    let mut read =
        || -> std::result::Result<_, TruncatedInput> { Ok((reader.take(8)?, reader.u32()?, reader.u32()?)) };
    let (magic, version, len) = read().map_err(|error| bad(error.to_string()))?;
    if magic != MAGIC {
        return Err(bad(format!("{magic:02x?}")));
    }
    let whole = (HEADER as u64 + u64::from(len)).next_multiple_of(BLOCK);
    if version == 0 || whole > MAX_RECORD as u64 {
        return Err(bad(format!("version {version}, {len} bytes")));
    }
    Ok(whole as usize)
}

/// Decodes the record at the start of `bytes` and verifies its checksum, which is seeded with
/// `link`, the checksum of the previous record. Passes each entry to `visit`. Returns the record's
/// header and checksum.
///
/// # Errors
/// [`Error::Corrupt`] if the bytes are not a record that follows the previous one;
/// [`Error::NewerFormat`] if the checksum is right but the format version is newer; errors of
/// `visit`.
pub(super) fn decode_record(
    bytes: &[u8],
    link: u64,
    place: &DiskLocation,
    mut visit: impl FnMut(MapRecordHeader, MapEntry) -> Result<()>,
) -> Result<(MapRecordHeader, u64)> {
    let bad = |expected: &str, found: String| Error::corrupt(place.clone(), expected, found);
    let short = |error: TruncatedInput| bad("a whole record", error.to_string());
    let len = record_len(bytes, place)?;
    let mut reader = ByteReader::new(bytes);
    let record = reader.take(len).map_err(short)?;
    let mut reader = ByteReader::new(record);
    let mut read = || -> std::result::Result<_, TruncatedInput> {
        reader.take(8)?;
        let (version, len) = (reader.u32()?, reader.u32()?);
        let (file, generation, count) = (reader.u64()?, reader.u64()?, reader.u32()?);
        let (tier, zeros, sum) = (reader.u8()?, reader.take(3)?, reader.u64()?);
        let header = MapRecordHeader {
            file,
            generation,
            tier,
        };
        let entries = reader.take(len as usize)?;
        let padding = reader.take(reader.remaining())?;
        Ok((version, header, count, zeros, sum, entries, padding))
    };
    let (version, header, count, zeros, sum, entries, padding) = read().map_err(short)?;
    let mut unsummed = record.to_vec();
    if let Some(field) = unsummed.get_mut(CHECKSUM_AT..HEADER) {
        field.fill(0);
    }
    let found = checksum::seeded(link, &unsummed);
    if found != sum {
        return Err(bad(&format!("checksum {sum:016x}"), format!("{found:016x}")));
    }
    // Check the version only after the checksum, because damage may have changed it.
    if version > VERSION {
        return Err(Error::NewerFormat {
            place: place.clone(),
            found: version,
            supported: VERSION,
        });
    }
    let clean = zeros.iter().chain(padding).all(|&byte| byte == 0);
    if !clean || usize::from(header.tier) >= MAX_TIERS {
        return Err(bad("zeros and a known tier", format!("{header:?}")));
    }
    let mut reader = ByteReader::new(entries);
    let mut before = MapEntry {
        start: 0,
        units: 0,
        now: None,
        new: false,
        repeats: 0,
    };
    for index in 0..count {
        let same_units = if index == 0 { 1 } else { before.units };
        let (flags, entry) = read_entry(&mut reader, before.end(), same_units)
            .map_err(|error| bad("an entry", error.to_string()))?
            .ok_or_else(|| bad("an entry", format!("an impossible one after {before:?}")))?;
        if flags & !(GONE | SAME_UNITS | NO_GAP | ONE_REFERENCE | ALL_LIVE | REPEATED | NEW) != 0 {
            return Err(bad("known flags", format!("{flags:#x}")));
        }
        visit(header, entry)?;
        before = entry;
    }
    if reader.remaining() > 0 {
        return Err(bad(
            &format!("{count} entries"),
            format!("{} bytes more", reader.remaining()),
        ));
    }
    Ok((header, sum))
}

/// Decodes the next entry. Returns `None` if its values are implausible.
fn read_entry(
    reader: &mut ByteReader<'_>,
    from: u32,
    same_units: u32,
) -> std::result::Result<Option<(u8, MapEntry)>, TruncatedInput> {
    let flags = reader.u8()?;
    let mut field = |absent: u8, otherwise: u64| {
        if flags & absent != 0 {
            Ok(otherwise)
        } else {
            reader.varint()
        }
    };
    let gap = field(NO_GAP, 0)?;
    let units = field(SAME_UNITS, same_units.into())?;
    let gone = flags & GONE != 0;
    let references = field(GONE | ONE_REFERENCE, 1)?;
    let dead = field(GONE | ALL_LIVE, 0)?;
    let repeats = if flags & REPEATED != 0 {
        reader.varint()?
    } else {
        0
    };
    let plausible = flags & (GONE | NEW) != GONE | NEW
        && (1..=u64::from(MAX_EXTENT_UNITS)).contains(&units)
        && (1..=u64::from(MAX_REFERENCES)).contains(&references)
        && dead <= units * UNIT
        && gap <= u64::from(MAX_TIER_UNITS)
        && repeats <= u64::from(MAX_TIER_UNITS);
    let end = || u64::from(from) + gap + units * (repeats + 1);
    if !plausible || end() > u64::from(MAX_TIER_UNITS) {
        return Ok(None);
    }
    let entry = MapEntry {
        start: from + gap as u32,
        units: units as u32,
        now: (!gone).then_some((references as u32, units * UNIT - dead)),
        new: flags & NEW != 0,
        repeats: repeats as u32,
    };
    Ok(Some((flags, entry)))
}

#[cfg(test)]
mod tests;
