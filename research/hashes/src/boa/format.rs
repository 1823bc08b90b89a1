//! The encoding of a bucket's head and of a table's state, version 1. All integers are
//! little-endian.
//!
//! A bucket's block:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  bytes of records in the block
//!      4     8  where the bucket's records in the overflow begin
//!     12     8  how many bytes they are
//!     20     …  records (`records/format.rs`), then zeros
//! ```
//!
//! A state:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  structure: 1 leveled, 2 tiered, 3 interpolated, 4 routed, 5 refined
//!      1     1  0: merges keep all records of a key; 1: the newest
//!      2     2  λ
//!      4     4  bytes of a block
//!      8     8  bytes of the memory
//!     16     1  log2 of β, 255 for λ
//!     17    24  fingerprint function (`filters/src/fingerprint/format.rs`)
//!     41    16  puts and deletes since the last rebuild
//!     57     4  levels
//!     61     …  levels: 4 bytes how many runs, runs, a filter
//!      …     …  4 bytes how many records the buffer holds, those records
//! ```
//!
//! A run:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  0 packed, 1 buckets
//!      1     1  bits of the prefixes that choose buckets
//!      2     8  buckets
//!     10    16  extent of the buckets
//!     26    16  extent of the overflow, zeros for none
//!     42    24  records, their bytes, bytes of the fullest bucket
//! ```
//!
//! A filter is a byte 0 for none; 1, then its prefix bits (1) and extent (16); or 2, then a
//! geometry (24) and the extents of table and list (32).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::filter::LevelFilter;
use super::options::{BoaOptions, BoaStructure, DuplicateHandling};
use super::run::{BoaRun, BoaRunLayout};
use super::table::{BoaLevel, BoaState};
use crate::blocks::format::{get_extent, put_extent};
use crate::blocks::{Error, MachineModel, Result};
use crate::records::{SliceSource, decode};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_filters::fingerprint::FingerprintFamily;
use alluvium_filters::routing::{RoutingArray, RoutingGeometry};

/// The size of a bucket's head in bytes.
pub(super) const BUCKET_BYTES: u64 = 20;

/// The kind of table in a root.
pub(super) const ROOT_KIND: u32 = u32::from_be_bytes(*b"ABOA");

/// The maximum number of levels: one for each bit of a fingerprint.
pub(super) const MAX_LEVELS: u32 = 128;

/// The header before the records of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BucketHeader {
    pub(super) inline: u32,
    pub(super) overflow_at: u64,
    pub(super) overflow_bytes: u64,
}

impl BucketHeader {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        ByteWriter::new(out)
            .u32(self.inline)
            .u64(self.overflow_at)
            .u64(self.overflow_bytes);
    }

    /// Decodes the head of a block. `overflow` is the size of the run's overflow in bytes.
    pub(super) fn decode(block: &[u8], overflow: u64) -> Result<BucketHeader> {
        let mut reader = ByteReader::new(block);
        let head = BucketHeader {
            inline: reader.u32()?,
            overflow_at: reader.u64()?,
            overflow_bytes: reader.u64()?,
        };
        if head.inline as usize > reader.remaining() {
            return Err(Error::damaged(
                0,
                "bytes in a bucket",
                format!("at most {}", reader.remaining()),
                head.inline,
            ));
        }
        if head
            .overflow_at
            .checked_add(head.overflow_bytes)
            .is_none_or(|end| end > overflow)
        {
            let found = format!("{} from {}", head.overflow_bytes, head.overflow_at);
            return Err(Error::damaged(
                4,
                "overflow of a bucket",
                format!("within {overflow} bytes"),
                found,
            ));
        }
        Ok(head)
    }
}

impl BoaState {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let options = &self.options;
        let (block_bytes, memory_bytes) = match options.machine {
            MachineModel::Blocks {
                block_bytes,
                memory_bytes,
            } => (block_bytes, memory_bytes),
            MachineModel::Oblivious => (0, 0),
        };
        ByteWriter::new(&mut out)
            .u8(match options.kind {
                BoaStructure::Leveled => 1,
                BoaStructure::Tiered => 2,
                BoaStructure::Interpolated => 3,
                BoaStructure::Routed => 4,
                BoaStructure::Refined => 5,
            })
            .u8(u8::from(options.duplicates == DuplicateHandling::Fold))
            .u16(options.growth as u16)
            .u32(block_bytes)
            .u64(memory_bytes)
            .u8(options.beta_bits.map_or(255, |bits| bits as u8))
            .bytes(&self.family.encode())
            .u64(self.puts)
            .u64(self.deletes)
            .u32(self.levels.len() as u32);
        for level in &self.levels {
            ByteWriter::new(&mut out).u32(level.runs.len() as u32);
            level.runs.iter().for_each(|run| put_run(&mut out, run));
            put_filter(&mut out, level.filter.as_ref());
        }
        ByteWriter::new(&mut out).u32(self.buffer.len() as u32);
        for entry in &self.buffer {
            entry.encode(self.family.width(), &mut out);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<BoaState> {
        let mut reader = ByteReader::new(bytes);
        let options = get_options(&mut reader)?;
        let family = FingerprintFamily::decode(reader.take(FingerprintFamily::BYTES)?)?;
        let options = BoaOptions {
            fingerprint_bits: family.width(),
            independence: family.independence(),
            seed: family.seed(),
            ..options
        };
        let mut state = BoaState::new(options.checked()?)?;
        (state.puts, state.deletes) = (reader.u64()?, reader.u64()?);
        let levels = reader.u32()?;
        if levels > MAX_LEVELS {
            return Err(Error::damaged(
                57,
                "levels",
                format!("at most {MAX_LEVELS}"),
                levels,
            ));
        }
        for _ in 0..levels {
            let count = reader.u32()?;
            if count >= options.growth {
                return Err(Error::damaged(
                    61,
                    "runs of a level",
                    format!("less than {}", options.growth),
                    count,
                ));
            }
            let mut level = BoaLevel::default();
            for _ in 0..count {
                level.runs.push(get_run(&mut reader, &options)?);
            }
            level.filter = get_filter(&mut reader, &options)?;
            state.levels.push(level);
        }
        let entries = reader.u32()?;
        let place = reader.position() as u64;
        let mut slice = SliceSource {
            bytes: reader.take(reader.remaining())?,
            place,
        };
        for _ in 0..entries {
            let entry = decode(&mut slice, family.width())?;
            state.buffer_bytes += entry.bytes(family.width());
            state.buffer.push(entry);
        }
        if !slice.bytes.is_empty() {
            return Err(Error::damaged(
                slice.place,
                "end of the state",
                "no more bytes",
                slice.bytes.len(),
            ));
        }
        Ok(state)
    }
}

fn get_options(reader: &mut ByteReader<'_>) -> Result<BoaOptions> {
    let kind = match reader.u8()? {
        1 => BoaStructure::Leveled,
        2 => BoaStructure::Tiered,
        3 => BoaStructure::Interpolated,
        4 => BoaStructure::Routed,
        5 => BoaStructure::Refined,
        other => return Err(Error::damaged(0, "structure", "1 to 5", other)),
    };
    let duplicates = match reader.u8()? {
        0 => DuplicateHandling::Keep,
        1 => DuplicateHandling::Fold,
        other => return Err(Error::damaged(1, "duplicates", "0 or 1", other)),
    };
    let growth = u32::from(reader.u16()?);
    let (block_bytes, memory_bytes) = (reader.u32()?, reader.u64()?);
    let beta = reader.u8()?;
    let beta_bits = (beta != 255).then_some(u32::from(beta));
    Ok(BoaOptions {
        duplicates,
        growth,
        beta_bits,
        ..BoaOptions::new(kind, block_bytes, memory_bytes)
    })
}

fn put_run(out: &mut Vec<u8>, run: &BoaRun) {
    ByteWriter::new(out)
        .u8(u8::from(run.layout == BoaRunLayout::Buckets))
        .u8(run.prefix_bits as u8)
        .u64(run.buckets);
    put_extent(out, run.extent);
    put_extent(out, run.overflow.unwrap_or_default());
    ByteWriter::new(out)
        .u64(run.entries)
        .u64(run.bytes)
        .u64(run.fullest);
}

fn get_run(reader: &mut ByteReader<'_>, options: &BoaOptions) -> Result<BoaRun> {
    let at = reader.position() as u64;
    let (layout, prefix_bits, buckets) = (reader.u8()?, u32::from(reader.u8()?), reader.u64()?);
    let (extent, overflow) = (get_extent(reader)?, get_extent(reader)?);
    let run = BoaRun {
        layout: if layout == 0 {
            BoaRunLayout::Packed
        } else {
            BoaRunLayout::Buckets
        },
        prefix_bits,
        buckets,
        extent,
        overflow: (overflow.bytes > 0).then_some(overflow),
        entries: reader.u64()?,
        bytes: reader.u64()?,
        fullest: reader.u64()?,
    };
    let blocks = extent.bytes / options.block_bytes() as u64;
    if layout > 1 || prefix_bits > 63 || buckets != blocks || buckets == 0 || run.bytes < run.entries {
        return Err(Error::damaged(
            at,
            "run",
            format!("a layout and {blocks} buckets"),
            format!("{run:?}"),
        ));
    }
    Ok(run)
}

fn put_filter(out: &mut Vec<u8>, filter: Option<&LevelFilter>) {
    match filter {
        None => _ = ByteWriter::new(out).u8(0),
        Some(LevelFilter::Latest { shape, extent }) => {
            ByteWriter::new(out).u8(1).u8(shape.prefix_bits() as u8);
            put_extent(out, *extent);
        }
        Some(LevelFilter::Refined {
            geometry,
            bits,
            table,
            list,
        }) => {
            ByteWriter::new(out).u8(2).bytes(&geometry.encode(*bits));
            put_extent(out, *table);
            put_extent(out, *list);
        }
    }
}

fn get_filter(reader: &mut ByteReader<'_>, options: &BoaOptions) -> Result<Option<LevelFilter>> {
    let at = reader.position() as u64;
    let character_bits = options.growth.ilog2();
    match (reader.u8()?, options.kind) {
        (0, _) => Ok(None),
        (1, BoaStructure::Routed) => {
            let shape = RoutingArray::new(u32::from(reader.u8()?), character_bits)?;
            let extent = get_extent(reader)?;
            if extent.bytes != shape.bytes() {
                return Err(Error::damaged(
                    at,
                    "bytes of a filter",
                    shape.bytes(),
                    extent.bytes,
                ));
            }
            Ok(Some(LevelFilter::Latest { shape, extent }))
        }
        (2, BoaStructure::Refined) => {
            let (geometry, bits) = RoutingGeometry::decode(reader.take(RoutingGeometry::BYTES)?)?;
            if geometry.payload_bits() != 2 * character_bits {
                let expected = 2 * character_bits;
                return Err(Error::damaged(
                    at,
                    "bits of a sketch",
                    expected,
                    geometry.payload_bits(),
                ));
            }
            let (table, list) = (get_extent(reader)?, get_extent(reader)?);
            if table.bytes != geometry.table_bytes() || list.bytes < bits.div_ceil(8) {
                let expected = format!("{}, and {bits} bits", geometry.table_bytes());
                let found = format!("{}, and {} bytes", table.bytes, list.bytes);
                return Err(Error::damaged(at, "bytes of a filter", expected, found));
            }
            Ok(Some(LevelFilter::Refined {
                geometry,
                bits,
                table,
                list,
            }))
        }
        (other, kind) => Err(Error::damaged(
            at,
            "filter",
            format!("one of a {kind:?} table"),
            other,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::BlockExtent;

    #[test]
    fn the_bytes_of_a_bucket_head_never_change() {
        let head = BucketHeader {
            inline: 5,
            overflow_at: 258,
            overflow_bytes: 7,
        };
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        assert_eq!(
            bytes,
            [5, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
        );
        bytes.extend([0; 5]);
        assert_eq!(BucketHeader::decode(&bytes, 265).unwrap(), head);
        assert!(
            BucketHeader::decode(&bytes, 264).is_err() && BucketHeader::decode(&bytes[..24], 265).is_err()
        );
    }

    #[test]
    fn the_bytes_of_a_state_never_change() {
        let options = BoaOptions {
            seed: 1,
            ..BoaOptions::new(BoaStructure::Refined, 256, 4096)
        };
        let bytes = BoaState::new(options).unwrap().encode();
        let mut expected = vec![5, 0, 4, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 255];
        expected.extend([1, 64, 32, 0, 0, 0, 0, 0, 1]);
        expected.resize(65, 0);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn no_bytes_make_a_state_panic() {
        let options = BoaOptions::new(BoaStructure::Routed, 256, 4096);
        let mut state = BoaState::new(options).unwrap();
        let extent = BlockExtent { at: 512, bytes: 1024 };
        let run = BoaRun {
            layout: BoaRunLayout::Buckets,
            prefix_bits: 9,
            buckets: 4,
            extent,
            overflow: None,
            entries: 10,
            bytes: 200,
            fullest: 90,
        };
        let shape = RoutingArray::new(12, 2).unwrap();
        state.levels.push(BoaLevel {
            runs: vec![run],
            filter: Some(LevelFilter::Latest { shape, extent }),
        });
        let good = state.encode();
        assert_eq!(BoaState::decode(&good).unwrap().encode(), good);
        let mut random = fastrand::Rng::with_seed(3);
        for cut in 0..good.len() {
            assert!(BoaState::decode(&good[..cut]).is_err());
        }
        for _ in 0..5000 {
            let mut bad = good.clone();
            bad[random.usize(..good.len())] = random.u8(..);
            let _ = BoaState::decode(&bad);
        }
    }
}
