//! The encoding of a bundle of trees, version 1. All integers are little-endian.
//!
//! A node is followed by a list's table and entries (`crates/filters/src/routing/format.rs`):
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "ANOD"
//!      4     1  height, from 1
//!      5     1  version, 1
//!      6     2  children
//!      8    24  geometry of the list
//!     32    16  first child: place and bytes of its node; at height 1 of its leaf in the log
//!      …     …  further children
//! ```
//!
//! A payload in the list consists, from the lowest bit, of a check character, a next character
//! and a child number.
//!
//! The trailer of each run on a tape (the run's bits: `crates/filters/src/golomb/format.rs`):
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     5  items
//!      5     6  bytes of the run
//!     11     1  parameter of the code
//! ```
//!
//! An item in a funnel's buffer is its prefix (8) and its payload (16).
//!
//! A state:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  schedule: 0 ruler, or β
//!      1     1  log2 of the records of a leaf, 255 if there was none yet
//!      2     2  λ
//!      4     4  bytes of a block, 0 for none
//!      8     8  bytes of the memory
//!     16     4  s, levels for which sketches are kept
//!     20    24  fingerprint function
//!     44    16  puts and deletes since the last rebuild
//!     60     …  the log, a tape; s + 1 tapes of the queue
//!      …     …  s roots: extent (16) and children (4), zeros for none
//!      …     …  how many records the buffer holds (4), those records
//! ```
//!
//! A tape is runs (8), entries (8), bytes of the tail (4), the tail, chunks (4), and for each
//! its start (8), extent (16) and bytes in use (8).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::node::ChildExtent;
use super::options::{BotOptions, QueueSchedule};
use super::sketch_runs::{SketchItem, SketchRunShape};
use super::table::{BotState, LevelRoot};
use super::tape::{Tape, TapeChunk};
use crate::blocks::format::{get_extent, put_extent};
use crate::blocks::{BlockExtent, Error, MachineModel, Result};
use crate::records::{SliceSource, decode};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_filters::fingerprint::FingerprintFamily;
use alluvium_filters::routing::RoutingGeometry;

/// The kind of table in a root.
pub(super) const ROOT_KIND: u32 = u32::from_be_bytes(*b"ABOT");
/// The size of a node's head in bytes.
pub(super) const HEAD_BYTES: u64 = 32;
/// The size of a child in a node in bytes.
pub(super) const CHILD_BYTES: u64 = 16;
/// The size of a run's trailer in bytes.
pub(super) const TRAILER_BYTES: u64 = 12;
/// The size of an item in a buffer in bytes.
pub(super) const ITEM_BYTES: u64 = 24;

const MAGIC: u32 = u32::from_le_bytes(*b"ANOD");
const VERSION: u8 = 1;
/// The maximum number of chunks in a tape.
const MAX_CHUNKS: u32 = 1 << 24;

/// The head of a node, before its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BotNodeHead {
    pub(super) height: u32,
    pub(super) geometry: RoutingGeometry,
    pub(super) bits: u64,
}

impl BotNodeHead {
    pub(super) fn encode(&self, children: &[ChildExtent], out: &mut Vec<u8>) {
        let count = children.len() as u16;
        let mut writer = ByteWriter::new(out);
        writer
            .u32(MAGIC)
            .u8(self.height as u8)
            .u8(VERSION)
            .u16(count)
            .bytes(&self.geometry.encode(self.bits));
        for child in children {
            writer.u64(child.at).u64(child.bytes);
        }
    }

    /// Decodes the head of a node. Its height must match, and it must have at most `most`
    /// children.
    pub(super) fn decode(bytes: &[u8], height: u32, most: u32) -> Result<(BotNodeHead, Vec<ChildExtent>)> {
        let mut reader = ByteReader::new(bytes);
        let (magic, found, version, count) = (reader.u32()?, reader.u8()?, reader.u8()?, reader.u16()?);
        if magic != MAGIC || version != VERSION || u32::from(found) != height {
            let found = format!("{magic:#x}, version {version}, height {found}");
            return Err(Error::damaged(
                0,
                "node",
                format!("magic, version 1, height {height}"),
                found,
            ));
        }
        if count == 0 || u32::from(count) > most {
            return Err(Error::damaged(6, "children", format!("1 to {most}"), count));
        }
        let (geometry, bits) = RoutingGeometry::decode(reader.take(RoutingGeometry::BYTES)?)?;
        let mut children = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            children.push(get_extent(&mut reader)?);
        }
        Ok((
            BotNodeHead {
                height,
                geometry,
                bits,
            },
            children,
        ))
    }
}

/// The trailer of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunTrailer {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) parameter: u32,
}

impl RunTrailer {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (count, bytes) = (self.count, self.bytes);
        assert!(
            count >> 40 == 0 && bytes >> 48 == 0,
            "a run has less than 2^40 items"
        );
        ByteWriter::new(out)
            .u32(count as u32)
            .u8((count >> 32) as u8)
            .u32(bytes as u32)
            .u16((bytes >> 32) as u16)
            .u8(self.parameter as u8);
    }

    /// Decodes the trailer of a run that ends at offset `end` of a tape.
    pub(super) fn decode(bytes: &[u8], end: u64, shape: SketchRunShape) -> Result<RunTrailer> {
        let mut reader = ByteReader::new(bytes);
        let count = u64::from(reader.u32()?) | u64::from(reader.u8()?) << 32;
        let length = u64::from(reader.u32()?) | u64::from(reader.u16()?) << 32;
        let parameter = u32::from(reader.u8()?);
        let least = count
            .saturating_mul(u64::from(1 + parameter + shape.payload_bits))
            .div_ceil(8);
        if length > end || parameter > shape.prefix_bits || length < least {
            let expected = format!("at most {end} bytes that hold {count} items");
            return Err(Error::damaged(
                end,
                "run on a tape",
                expected,
                format!("{length}, parameter {parameter}"),
            ));
        }
        Ok(RunTrailer {
            count,
            bytes: length,
            parameter,
        })
    }
}

impl SketchItem {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        ByteWriter::new(out).u64(self.prefix).u128(self.payload);
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<SketchItem> {
        let mut reader = ByteReader::new(bytes);
        Ok(SketchItem {
            prefix: reader.u64()?,
            payload: reader.u128()?,
        })
    }
}

fn put_tape(out: &mut Vec<u8>, tape: &Tape) {
    ByteWriter::new(out)
        .u64(tape.runs)
        .u64(tape.entries)
        .u32(tape.tail.len() as u32)
        .bytes(&tape.tail);
    ByteWriter::new(out).u32(tape.chunks.len() as u32);
    for chunk in &tape.chunks {
        ByteWriter::new(out).u64(chunk.start);
        put_extent(out, chunk.extent);
        ByteWriter::new(out).u64(chunk.used);
    }
}

fn get_tape(reader: &mut ByteReader<'_>) -> Result<Tape> {
    let (runs, entries, tail) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let tail = reader.take(tail as usize)?.to_vec();
    let at = reader.position() as u64;
    let count = reader.u32()?;
    if count > MAX_CHUNKS {
        return Err(Error::damaged(
            at,
            "chunks of a tape",
            format!("at most {MAX_CHUNKS}"),
            count,
        ));
    }
    let mut tape = Tape {
        chunks: Vec::new(),
        tail,
        runs,
        entries,
    };
    let mut next = 0u64;
    for _ in 0..count {
        let at = reader.position() as u64;
        let (start, extent, used) = (reader.u64()?, get_extent(reader)?, reader.u64()?);
        if start != next || used > extent.bytes {
            let expected = format!("one that begins at {next}");
            return Err(Error::damaged(
                at,
                "chunk of a tape",
                expected,
                format!("{start}, {used} bytes"),
            ));
        }
        next = start.saturating_add(used);
        tape.chunks.push(TapeChunk {
            start,
            extent,
            used,
            sealed: true,
        });
    }
    Ok(tape)
}

impl BotState {
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
            .u8(match options.schedule {
                QueueSchedule::Ruler => 0,
                QueueSchedule::Every { beta } => beta as u8,
            })
            .u8(self.base_bits.map_or(255, |bits| bits as u8))
            .u16(options.growth as u16)
            .u32(block_bytes)
            .u64(memory_bytes)
            .u32(options.levels)
            .bytes(&self.family.encode())
            .u64(self.puts)
            .u64(self.deletes);
        put_tape(&mut out, &self.log);
        self.queue.tapes.iter().for_each(|tape| put_tape(&mut out, tape));
        for root in &self.roots {
            put_extent(&mut out, root.map_or(BlockExtent::default(), |root| root.extent));
            ByteWriter::new(&mut out).u32(root.map_or(0, |root| root.degree));
        }
        ByteWriter::new(&mut out).u32(self.buffer.len() as u32);
        for entry in &self.buffer {
            entry.encode(self.family.width(), &mut out);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<BotState> {
        let mut reader = ByteReader::new(bytes);
        let (schedule, base, growth) = (reader.u8()?, reader.u8()?, u32::from(reader.u16()?));
        let (block_bytes, memory_bytes, levels) = (reader.u32()?, reader.u64()?, reader.u32()?);
        let family = FingerprintFamily::decode(reader.take(FingerprintFamily::BYTES)?)?;
        let options = BotOptions {
            growth,
            machine: match block_bytes {
                0 => MachineModel::Oblivious,
                _ => MachineModel::Blocks {
                    block_bytes,
                    memory_bytes,
                },
            },
            fingerprint_bits: family.width(),
            independence: family.independence(),
            seed: family.seed(),
            levels,
            schedule: match schedule {
                0 => QueueSchedule::Ruler,
                beta => QueueSchedule::Every {
                    beta: u32::from(beta),
                },
            },
        };
        let mut state = BotState::new(options.checked()?)?;
        state.base_bits = (base != 255).then_some(u32::from(base));
        if let Some(base) = state.base_bits.filter(|base| !state.fits(*base, options.levels)) {
            let expected = format!("bits that leave fingerprints for {levels} levels");
            return Err(Error::damaged(1, "records of a leaf", expected, base));
        }
        (state.puts, state.deletes) = (reader.u64()?, reader.u64()?);
        state.log = get_tape(&mut reader)?;
        for tape in &mut state.queue.tapes {
            *tape = get_tape(&mut reader)?;
        }
        for root in &mut state.roots {
            let (extent, degree) = (get_extent(&mut reader)?, reader.u32()?);
            if degree >= growth || (extent.bytes == 0) != (degree == 0) {
                let at = reader.position() as u64;
                return Err(Error::damaged(
                    at,
                    "degree of a root",
                    format!("less than {growth}"),
                    degree,
                ));
            }
            *root = (degree > 0).then_some(LevelRoot { extent, degree });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_nodes_runs_and_items_never_change() {
        let geometry = RoutingGeometry::new(4, 6, 6, 2).unwrap();
        let head = BotNodeHead {
            height: 2,
            geometry,
            bits: 30,
        };
        let mut bytes = Vec::new();
        head.encode(&[BlockExtent { at: 258, bytes: 7 }], &mut bytes);
        assert_eq!(bytes[..8], *b"ANOD\x02\x01\x01\x00");
        assert_eq!(bytes[32..], [2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            BotNodeHead::decode(&bytes, 2, 4).unwrap(),
            (head, vec![BlockExtent { at: 258, bytes: 7 }])
        );
        let mut bytes = Vec::new();
        let trailer = RunTrailer {
            count: 2,
            bytes: 260,
            parameter: 3,
        };
        trailer.encode(&mut bytes);
        assert_eq!(bytes, [2, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 3]);
        let shape = SketchRunShape {
            prefix_bits: 9,
            payload_bits: 4,
        };
        assert_eq!(RunTrailer::decode(&bytes, 260, shape).unwrap(), trailer);
        assert!(RunTrailer::decode(&bytes, 259, shape).is_err());
        let mut bytes = Vec::new();
        SketchItem {
            prefix: 1,
            payload: 2,
        }
        .encode(&mut bytes);
        assert_eq!((bytes.len() as u64, bytes[0], bytes[8]), (ITEM_BYTES, 1, 2));
    }

    #[test]
    fn a_state_never_changes_and_no_bytes_make_it_panic() {
        let options = BotOptions {
            levels: 2,
            seed: 1,
            ..BotOptions::new(256, 4096)
        };
        let mut state = BotState::new(options).unwrap();
        let empty = state.encode();
        assert_eq!(
            empty[..22],
            [
                0, 255, 4, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 64
            ]
        );
        assert_eq!(empty.len(), 60 + 4 * 24 + 2 * 20 + 4);
        let extent = BlockExtent { at: 512, bytes: 1024 };
        state.base_bits = Some(4);
        state.roots[1] = Some(LevelRoot { extent, degree: 3 });
        state.log.chunks.push(TapeChunk {
            start: 0,
            extent,
            used: 512,
            sealed: true,
        });
        state.queue.tapes[2].tail = vec![1; 9];
        let good = state.encode();
        assert_eq!(BotState::decode(&good).unwrap().encode(), good);
        let mut random = fastrand::Rng::with_seed(3);
        for cut in 0..good.len() {
            assert!(BotState::decode(&good[..cut]).is_err());
        }
        for _ in 0..5000 {
            let mut bad = good.clone();
            bad[random.usize(..good.len())] = random.u8(..);
            let _ = BotState::decode(&bad);
        }
    }
}
