//! The encoding of the footer of a run, version 3. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  3
//!      1     1  version, 3
//!      2     1  where the footer is: 0 in an extent of its own, 1 in the extent that is listed last
//!      3     1  where the details are: 0 in the footer, 1 in nodes of their own
//!      4     4  length of the details
//!      8     -  the details, then zeros; or, where they are in nodes of their own:
//!
//!      8    40  pointer to the details, as to a value
//!     48     4  n: extents that only those nodes are in
//!     52 n × 17  each: tier (1), first unit (4), units (4), live bytes (8); then zeros
//! ```
//!
//! The details, which are the metadata of the run. A *key* is encoded as its length in 4 bytes,
//! followed by its bytes:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0    96  twelve integers of 8 bytes: records, keys, deletes, merges, records with values
//!               outside their leaves, range deletes, lowest and highest sequence number, bytes of
//!               leaves and index nodes below the root and of values written with them, bytes of all
//!               values and operands, leaves, earliest expiry (0 for none)
//!     96     -  keys: the smallest and the largest key touched, the largest key of a record
//!            4  length of the root, 0 without records
//!            -  the root: an index node
//!            4  n: extents
//!        n × -  each: tier (1), first unit (4), units (4), live bytes (8), 1 when inherited (1), the
//!               lowest and the highest key that need it
//!            -  the range deletes, see `crates/dictionary/src/range_tombstones/format.rs`
//! ```
//!
//! If the footer is stored in the extent that is listed last, that extent ends with the allocation
//! unit in which the footer ends. The footer's bytes are live in addition to the extent's listed
//! live bytes.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{RunFooter, RunMetadata, RunSummary};
use crate::run::format::{FOOTER, VERSION};
use crate::run::{ExtentUse, MalformedNode};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::extents::{Extent, MAX_EXTENT_UNITS, MAX_TIER_UNITS};
use alluvium_storage::{DiskLocation, PageSize};

/// Number of bytes before the details.
pub(super) const HEADER: usize = 8;

impl RunFooter {
    pub(in crate::run) fn encode(&self, out: &mut Vec<u8>) {
        let (apart, len) = match self {
            RunFooter::Whole { details, .. } => (0, details.len()),
            RunFooter::Apart { pointer, .. } => (1, pointer.len as usize),
        };
        assert!(
            u32::try_from(len).is_ok(),
            "details of {len} bytes are counted in 32 bits"
        );
        ByteWriter::new(out)
            .u8(FOOTER)
            .u8(VERSION)
            .u8(u8::from(self.is_in_last()))
            .u8(apart)
            .u32(len as u32);
        match self {
            RunFooter::Whole { details, .. } => out.extend_from_slice(details),
            RunFooter::Apart { pointer, extents, .. } => {
                pointer.encode(out);
                ByteWriter::new(out).u32(extents.len() as u32);
                for (extent, live) in extents {
                    put_extent(out, extent, *live);
                }
            }
        }
    }

    pub(in crate::run) fn decode(
        bytes: &[u8],
        place: &DiskLocation,
        page_size: PageSize,
    ) -> Result<RunFooter, MalformedNode> {
        let bad = |_| MalformedNode("a footer's header");
        let mut reader = ByteReader::new(bytes);
        let mut read = || -> Result<_, TruncatedInput> {
            Ok((
                reader.u8()?,
                reader.u8()?,
                reader.u8()?,
                reader.u8()?,
                reader.u32()?,
            ))
        };
        let (kind, version, in_last, apart, len) = read().map_err(bad)?;
        if kind != FOOTER || version != VERSION || in_last > 1 || apart > 1 {
            return Err(MalformedNode("a footer of version 3"));
        }
        let in_last = in_last == 1;
        if apart == 0 {
            let details = reader.take(len as usize).map_err(bad)?.to_vec();
            return Ok(RunFooter::Whole { in_last, details });
        }
        let pointer = reader.take(ValuePointer::BYTES).map_err(bad)?;
        let pointer = ValuePointer::decode(pointer, place, page_size);
        let pointer = pointer.map_err(|_| MalformedNode("a pointer to a footer's details"))?;
        let count = reader.u32().map_err(bad)?;
        let mut extents = Vec::new();
        for _ in 0..count {
            extents.push(read_extent(&mut reader)?);
        }
        if pointer.len != len {
            return Err(MalformedNode("one length of a footer's details"));
        }
        Ok(RunFooter::Apart {
            in_last,
            pointer,
            extents,
        })
    }
}

impl RunMetadata {
    /// Encodes the details, and passes them to `piece` in several pieces.
    pub(in crate::run) fn encode<E>(&self, mut piece: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut head = Vec::new();
        self.encode_head(&mut head);
        piece(&head)?;
        self.range_deletes.encode(piece)
    }

    fn encode_head(&self, out: &mut Vec<u8>) {
        debug_assert!(
            self.low <= self.high && self.last <= self.high,
            "a run's keys lie from its lowest to its highest"
        );
        for number in numbers(&self.summary) {
            ByteWriter::new(out).u64(number);
        }
        for key in [&self.low, &self.high, &self.last] {
            put_key(out, key);
        }
        put_key(out, &self.root);
        ByteWriter::new(out).u32(self.uses.len() as u32);
        for used in &self.uses {
            put_extent(out, &used.extent, used.live);
            ByteWriter::new(out).u8(u8::from(used.inherited));
            put_key(out, &used.low);
            put_key(out, &used.high);
        }
    }

    pub(in crate::run) fn decode(bytes: &[u8]) -> Result<RunMetadata, MalformedNode> {
        let mut reader = ByteReader::new(bytes);
        let bad = |_| MalformedNode("a footer's details to their end");
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = reader.u64().map_err(bad)?;
        }
        let [low, high, last] = [(); 3].map(|()| read_key(&mut reader));
        let (low, high, last, root) = (low?, high?, last?, read_key(&mut reader)?);
        let mut uses = Vec::new();
        for _ in 0..reader.u32().map_err(bad)? {
            let (extent, live) = read_extent(&mut reader)?;
            let inherited = reader.u8().map_err(bad)?;
            let (low, high) = (read_key(&mut reader)?, read_key(&mut reader)?);
            if inherited > 1 || low > high {
                return Err(MalformedNode("an extent with the keys that need it"));
            }
            uses.push(ExtentUse {
                extent,
                low,
                high,
                inherited: inherited == 1,
                live,
            });
        }
        let range_deletes = RangeTombstoneIndex::decode(&mut reader).map_err(MalformedNode)?;
        if reader.remaining() > 0 || low > high || last > high {
            return Err(MalformedNode("a footer's details"));
        }
        Ok(RunMetadata {
            summary: summary(numbers),
            low,
            high,
            last,
            root: root.into(),
            uses,
            range_deletes: range_deletes.into(),
        })
    }
}

const NUMBERS: usize = 12;

fn numbers(summary: &RunSummary) -> [u64; NUMBERS] {
    [
        summary.records,
        summary.keys,
        summary.tombstones,
        summary.merges,
        summary.separate,
        summary.range_deletes,
        summary.lowest_sequence,
        summary.highest_sequence,
        summary.bytes,
        summary.value_bytes,
        summary.leaves,
        summary.earliest_expiry_ms,
    ]
}

fn summary(numbers: [u64; NUMBERS]) -> RunSummary {
    let [
        records,
        keys,
        tombstones,
        merges,
        separate,
        range_deletes,
        numbers @ ..,
    ] = numbers;
    let [
        lowest_sequence,
        highest_sequence,
        bytes,
        value_bytes,
        leaves,
        earliest_expiry_ms,
    ] = numbers;
    RunSummary {
        records,
        keys,
        tombstones,
        merges,
        separate,
        range_deletes,
        lowest_sequence,
        highest_sequence,
        bytes,
        value_bytes,
        leaves,
        earliest_expiry_ms,
    }
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    ByteWriter::new(out).u32(key.len() as u32).bytes(key);
}

fn read_key(reader: &mut ByteReader<'_>) -> Result<Box<[u8]>, MalformedNode> {
    let bad = |_| MalformedNode("a key inside the footer's details");
    let len = reader.u32().map_err(bad)?;
    Ok(reader.take(len as usize).map_err(bad)?.into())
}

fn put_extent(out: &mut Vec<u8>, extent: &Extent, live: u64) {
    ByteWriter::new(out)
        .u8(extent.tier)
        .u32(extent.start)
        .u32(extent.units)
        .u64(live);
}

fn read_extent(reader: &mut ByteReader<'_>) -> Result<(Extent, u64), MalformedNode> {
    let mut read = || -> Result<_, TruncatedInput> {
        let (tier, start, units) = (reader.u8()?, reader.u32()?, reader.u32()?);
        Ok((Extent { tier, start, units }, reader.u64()?))
    };
    let (extent, live) = read().map_err(|_| MalformedNode("an extent inside the footer's details"))?;
    let Extent { start, units, .. } = extent;
    let possible = (1..=MAX_EXTENT_UNITS).contains(&units) && start <= MAX_TIER_UNITS - units;
    if possible && live <= extent.bytes() {
        Ok((extent, live))
    } else {
        Err(MalformedNode(
            "an extent that a tier can have, and no more live bytes than its bytes",
        ))
    }
}
