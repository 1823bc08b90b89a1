//! Encoding of the trunk in a checkpoint, version 3. All integers are little-endian; a *varint* is
//! LEB128 of at most 10 bytes.
//!
//! The root of a tree, which a checkpoint returns to its caller:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 3
//!      1     1  bits of a fingerprint
//!      2     8  the number of the next group
//!     10    44  pointer to the trunk's root
//! ```
//!
//! A pointer to a trunk node, which is a byte range in storage nodes that it may share with other
//! trunk nodes:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0    32  node pointer
//!     32     4  where it begins in the node
//!     36     4  its length in bytes
//!     40     4  zero
//! ```
//!
//! A trunk node:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 3
//!      1     1  height
//!      2     8  the number of the next bundle
//!     10        range: low key; 1 and high key, or 0
//!               groups (varint), each: number (8), pointer to its maplet (32), runs (varint), each: 1 and pointer (32);
//!                 2, pointer and the sequence number of its records (8), where they have none of their own; or 0 where no pivot of this node
//!                 needs it
//!               clips (varint), each: low key; 1 and high key, or 0
//!               bundles (varint), each: parts (varint), each: group (varint), clip + 1 or 0 (varint)
//!               pivots (varint), each:
//!                 low key
//!                 1, pointer to the child (44); or 0
//!                 own parts (varint), each: group (varint), clip + 1 or 0 (varint), weight
//!                 live bundles (varint), the newest of those above, each: a weight for each of its parts
//! ```
//!
//! A key consists of its length (varint) and its bytes. A weight consists of bytes, records and
//! tombstones (varints).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::run::RangeWeight;
use alluvium_base::SequenceNumber;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::{DiskLocation, Error, IMPOSSIBLE, NodePointer, PageSize, Result};

const VERSION: u8 = 3;
/// Maximum number of groups, clips, bundles, pivots or parts in a node. Real nodes have far fewer.
const MOST: u64 = 1 << 20;

/// The root of a tree on disk, from which the tree is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    pub fingerprint_bits: u8,
    pub next_group: u64,
    /// The root of the trunk.
    pub trunk: ValuePointer,
}

/// A trunk node in its on-disk form. It refers to other structures by location, without opening
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNode {
    /// Number of levels below the node; 0 for a leaf.
    pub height: u8,
    /// The number of the next bundle that the node receives.
    pub next: u64,
    /// The key range of the node.
    pub range: KeyRange,
    /// The groups that the node's parts refer to.
    pub groups: Vec<StoredGroup>,
    /// The clips that the node's parts refer to.
    pub clips: Vec<KeyRange>,
    /// The parts of each bundle, oldest to newest.
    pub bundles: Vec<Vec<StoredPart>>,
    /// The pivots in key order.
    pub pivots: Vec<StoredPivot>,
}

/// A stored reference to a group: the group's number, its maplet, and its runs from oldest to
/// newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredGroup {
    /// The group's number, which is unique in the store.
    pub id: u64,
    /// The directory of the maplet, from which the maplet is opened.
    pub maplet: NodePointer,
    /// The runs of the group, oldest to newest. The entry of a run that the node does not need is
    /// `None`.
    pub runs: Vec<Option<StoredRun>>,
}

/// A stored reference to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// The footer of the run, from which the run is opened.
    pub pointer: NodePointer,
    /// The sequence number that the trunk assigns to all records of the run, or 0 if each record
    /// has its own (T10).
    pub base: SequenceNumber,
}

/// A stored part: the indices of its group and its clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// Index of the group in the node's list of groups.
    pub group: usize,
    /// Index of the clip in the node's list of clips, or `None` if the part has no clip.
    pub clip: Option<usize>,
}

/// A pivot in its on-disk form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPivot {
    /// The smallest key of the pivot's range.
    pub low: Box<[u8]>,
    /// The location of the child; `None` in a leaf.
    pub child: Option<ValuePointer>,
    /// The pivot's own parts with their weights, oldest to newest.
    pub own: Vec<(StoredPart, RangeWeight)>,
    /// For each bundle that is live for this pivot, the weights of its parts. The live bundles are
    /// always the node's newest ones.
    pub live: Vec<Vec<RangeWeight>>,
}

impl TreeRoot {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ByteWriter::new(&mut out)
            .u8(VERSION)
            .u8(self.fingerprint_bits)
            .u64(self.next_group);
        encode_pointer(&self.trunk, &mut out);
        out
    }

    /// Decodes a root that a checkpoint returned.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::NewerFormat`] at `place`.
    pub fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<TreeRoot> {
        let mut decoder = TrunkDecoder::new(bytes, place, page_size);
        decoder.version()?;
        let read = TreeRoot {
            fingerprint_bits: decoder.u8()?,
            next_group: decoder.read(ByteReader::u64)?,
            trunk: decoder.pointer()?,
        };
        if read.next_group >= IMPOSSIBLE || decoder.reader.remaining() > 0 {
            return Err(decoder.bad("the root of a tree"));
        }
        Ok(read)
    }
}

fn encode_pointer(pointer: &ValuePointer, out: &mut Vec<u8>) {
    pointer.node.encode(out);
    ByteWriter::new(out).u32(pointer.at).u32(pointer.len).u32(0);
}

fn encode_key(key: &[u8], out: &mut Vec<u8>) {
    ByteWriter::new(out).varint(key.len() as u64).bytes(key);
}

fn encode_range(range: &KeyRange, out: &mut Vec<u8>) {
    encode_key(&range.low, out);
    match &range.high {
        Some(high) => {
            out.push(1);
            encode_key(high, out);
        }
        None => out.push(0),
    }
}

fn encode_weight(weight: &RangeWeight, out: &mut Vec<u8>) {
    ByteWriter::new(out)
        .varint(weight.bytes)
        .varint(weight.records)
        .varint(weight.tombstones);
}

fn encode_run(run: Option<&StoredRun>, out: &mut Vec<u8>) {
    out.push(run.map_or(0, |run| if run.base == 0 { 1 } else { 2 }));
    if let Some(run) = run {
        run.pointer.encode(out);
        if run.base > 0 {
            ByteWriter::new(out).u64(run.base);
        }
    }
}

fn encode_part(part: StoredPart, out: &mut Vec<u8>) {
    let clip = part.clip.map_or(0, |clip| clip as u64 + 1);
    ByteWriter::new(out).varint(part.group as u64).varint(clip);
}

impl StoredNode {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ByteWriter::new(&mut out)
            .u8(VERSION)
            .u8(self.height)
            .u64(self.next);
        encode_range(&self.range, &mut out);
        ByteWriter::new(&mut out).varint(self.groups.len() as u64);
        for group in &self.groups {
            ByteWriter::new(&mut out).u64(group.id);
            group.maplet.encode(&mut out);
            ByteWriter::new(&mut out).varint(group.runs.len() as u64);
            for run in &group.runs {
                encode_run(run.as_ref(), &mut out);
            }
        }
        ByteWriter::new(&mut out).varint(self.clips.len() as u64);
        self.clips.iter().for_each(|clip| encode_range(clip, &mut out));
        ByteWriter::new(&mut out).varint(self.bundles.len() as u64);
        for parts in &self.bundles {
            ByteWriter::new(&mut out).varint(parts.len() as u64);
            parts.iter().for_each(|part| encode_part(*part, &mut out));
        }
        ByteWriter::new(&mut out).varint(self.pivots.len() as u64);
        for pivot in &self.pivots {
            pivot.encode(&mut out);
        }
        out
    }

    /// Decodes a node, and verifies every property of its shape that other code relies on.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::NewerFormat`] at `place`.
    pub fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<StoredNode> {
        let mut decoder = TrunkDecoder::new(bytes, place, page_size);
        decoder.version()?;
        let mut form = StoredNode {
            height: decoder.u8()?,
            next: decoder.read(ByteReader::u64)?,
            range: decoder.range()?,
            groups: decoder.list(TrunkDecoder::group)?,
            clips: decoder.list(TrunkDecoder::range)?,
            bundles: Vec::new(),
            pivots: Vec::new(),
        };
        let (groups, clips) = (form.groups.len(), form.clips.len());
        form.bundles = decoder.list(|decoder| decoder.list(|decoder| decoder.part(groups, clips)))?;
        let bundles: Vec<usize> = form.bundles.iter().map(Vec::len).collect();
        form.pivots = decoder.list(|decoder| decoder.pivot(groups, clips, &bundles))?;
        let done = decoder.reader.remaining() == 0;
        if done && form.is_sound() {
            Ok(form)
        } else {
            Err(decoder.bad("a trunk node in order"))
        }
    }

    fn is_sound(&self) -> bool {
        let pivots = &self.pivots;
        let ascend = pivots.is_sorted_by(|one, next| one.low < next.low);
        let begins = pivots.first().is_some_and(|pivot| pivot.low == self.range.low);
        let ends = pivots
            .last()
            .is_some_and(|pivot| !self.range.ends_before(&pivot.low));
        let children = pivots
            .iter()
            .all(|pivot| pivot.child.is_some() == (self.height > 0));
        let numbered = self.next > self.bundles.len() as u64 && self.next < IMPOSSIBLE;
        ascend && begins && ends && children && numbered && (self.height > 0 || pivots.len() == 1)
    }
}

impl StoredPivot {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_key(&self.low, out);
        out.push(u8::from(self.child.is_some()));
        self.child.iter().for_each(|child| encode_pointer(child, out));
        ByteWriter::new(out).varint(self.own.len() as u64);
        for (part, weight) in &self.own {
            encode_part(*part, out);
            encode_weight(weight, out);
        }
        ByteWriter::new(out).varint(self.live.len() as u64);
        self.live
            .iter()
            .flatten()
            .for_each(|weight| encode_weight(weight, out));
    }
}

/// A decoder for bytes that may be damaged. Error messages name `place` as their location.
struct TrunkDecoder<'b> {
    reader: ByteReader<'b>,
    place: &'b DiskLocation,
    page_size: PageSize,
}

impl<'b> TrunkDecoder<'b> {
    fn new(bytes: &'b [u8], place: &'b DiskLocation, page_size: PageSize) -> TrunkDecoder<'b> {
        TrunkDecoder {
            reader: ByteReader::new(bytes),
            place,
            page_size,
        }
    }

    fn bad(&self, expected: &str) -> Error {
        let found = format!("something else up to byte {}", self.reader.position());
        Error::corrupt(self.place.clone(), expected, found)
    }

    fn read<T>(
        &mut self,
        read: impl FnOnce(&mut ByteReader<'b>) -> std::result::Result<T, TruncatedInput>,
    ) -> Result<T> {
        read(&mut self.reader)
            .map_err(|error| Error::corrupt(self.place.clone(), "more of a trunk node", error.to_string()))
    }

    fn version(&mut self) -> Result<()> {
        match self.u8()? {
            VERSION => Ok(()),
            found if found > VERSION => Err(Error::NewerFormat {
                place: self.place.clone(),
                found: u32::from(found),
                supported: u32::from(VERSION),
            }),
            _ => Err(self.bad("version 3")),
        }
    }

    fn u8(&mut self) -> Result<u8> {
        self.read(ByteReader::u8)
    }

    fn varint(&mut self) -> Result<u64> {
        self.read(ByteReader::varint)
    }

    fn count(&mut self) -> Result<usize> {
        let count = self.varint()?;
        // Every list element occupies at least one byte.
        if count > MOST.min(self.reader.remaining() as u64) {
            return Err(self.bad("a count of what follows"));
        }
        Ok(count as usize)
    }

    fn key(&mut self) -> Result<Box<[u8]>> {
        let len = self.count()?;
        Ok(self.read(|reader| reader.take(len))?.into())
    }

    fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("0 or 1")),
        }
    }

    fn range(&mut self) -> Result<KeyRange> {
        let low = self.key()?;
        let high = if self.flag()? { Some(self.key()?) } else { None };
        Ok(KeyRange { low, high })
    }

    fn node_pointer(&mut self) -> Result<NodePointer> {
        NodePointer::decode(&mut self.reader, self.place, self.page_size)
    }

    fn pointer(&mut self) -> Result<ValuePointer> {
        let node = self.node_pointer()?;
        let pointer = ValuePointer {
            node,
            at: self.read(ByteReader::u32)?,
            len: self.read(ByteReader::u32)?,
        };
        if self.read(ByteReader::u32)? != 0 {
            return Err(self.bad("zeros"));
        }
        Ok(pointer)
    }

    fn weight(&mut self) -> Result<RangeWeight> {
        Ok(RangeWeight {
            bytes: self.varint()?,
            records: self.varint()?,
            tombstones: self.varint()?,
        })
    }

    /// Decodes a list preceded by its length.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn group(&mut self) -> Result<StoredGroup> {
        let (id, maplet) = (self.read(ByteReader::u64)?, self.node_pointer()?);
        let runs = self.list(TrunkDecoder::run)?;
        if runs.is_empty() {
            return Err(self.bad("a group with a run"));
        }
        Ok(StoredGroup { id, maplet, runs })
    }

    fn run(&mut self) -> Result<Option<StoredRun>> {
        let kind = self.u8()?;
        if kind == 0 {
            return Ok(None);
        }
        let pointer = self.node_pointer()?;
        let base = if kind == 1 { 0 } else { self.read(ByteReader::u64)? };
        if kind > 2 || base >= IMPOSSIBLE || (kind == 2 && base == 0) {
            return Err(self.bad("a run, with a sequence number or without"));
        }
        Ok(Some(StoredRun { pointer, base }))
    }

    fn part(&mut self, groups: usize, clips: usize) -> Result<StoredPart> {
        let (group, clip) = (self.varint()?, self.varint()?);
        if group >= groups as u64 || clip > clips as u64 {
            return Err(self.bad("a group and a clip of this node"));
        }
        Ok(StoredPart {
            group: group as usize,
            clip: (clip as usize).checked_sub(1),
        })
    }

    /// Decodes a pivot. `groups` and `clips` are the numbers of groups and clips in the node, and
    /// `bundles` lists the number of parts in each of its bundles.
    #[allow(
        clippy::indexing_slicing,
        reason = "there are at most as many as bundles, asked before"
    )]
    fn pivot(&mut self, groups: usize, clips: usize, bundles: &[usize]) -> Result<StoredPivot> {
        let low = self.key()?;
        let child = if self.flag()? { Some(self.pointer()?) } else { None };
        let own = self.list(|decoder| Ok((decoder.part(groups, clips)?, decoder.weight()?)))?;
        let count = self.varint()?;
        if count > bundles.len() as u64 {
            return Err(self.bad("at most as many live bundles as there are"));
        }
        let live = &bundles[bundles.len() - count as usize..];
        let live = live
            .iter()
            .map(|parts| (0..*parts).map(|_| self.weight()).collect());
        Ok(StoredPivot {
            low,
            child,
            own,
            live: live.collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::{NodeCodec, OnDiskObject};

    fn node_at(offset: u64) -> NodePointer {
        NodePointer {
            offset,
            birth: 7,
            checksum: 0x0102_0304_0506_0708,
            encoded_len: 4096,
            tier: 1,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    fn pointer(offset: u64) -> ValuePointer {
        ValuePointer {
            node: node_at(offset),
            at: 0x21,
            len: 0x0305,
        }
    }

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "tier-1.data", 8192)
    }

    fn weight(bytes: u64) -> RangeWeight {
        RangeWeight {
            bytes,
            records: 300,
            tombstones: 2,
        }
    }

    fn example() -> StoredNode {
        let name = |group, clip| StoredPart { group, clip };
        let run = |offset, base| {
            let pointer = node_at(offset);
            Some(StoredRun { pointer, base })
        };
        StoredNode {
            height: 1,
            next: 9,
            range: KeyRange::new(b"a", Some(b"m")),
            groups: vec![StoredGroup {
                id: 5,
                maplet: node_at(4096),
                runs: vec![run(8192, 0), None, run(20480, 0x0506)],
            }],
            clips: vec![KeyRange::new(b"b", None)],
            bundles: vec![vec![name(0, None)], vec![name(0, Some(0)), name(0, None)]],
            pivots: vec![
                StoredPivot {
                    low: b"a"[..].into(),
                    child: Some(pointer(12288)),
                    own: vec![(name(0, Some(0)), weight(1000))],
                    live: vec![vec![weight(1)], vec![weight(2), weight(3)]],
                },
                StoredPivot {
                    low: b"f"[..].into(),
                    child: Some(pointer(16384)),
                    own: Vec::new(),
                    live: vec![vec![weight(4), weight(5)]],
                },
            ],
        }
    }

    #[test]
    fn the_bytes_of_a_trunk_node_do_not_change() {
        let mut wanted = b"\x03\x01\x09\0\0\0\0\0\0\0\x01a\x01\x01m\x01\x05\0\0\0\0\0\0\0".to_vec();
        node_at(4096).encode(&mut wanted);
        wanted.extend_from_slice(b"\x03\x01");
        node_at(8192).encode(&mut wanted);
        wanted.extend_from_slice(b"\0\x02");
        node_at(20480).encode(&mut wanted);
        wanted.extend_from_slice(b"\x06\x05\0\0\0\0\0\0\x01\x01b\0\x02\x01\0\0\x02\0\x01\0\0\x02\x01a\x01");
        node_at(12288).encode(&mut wanted);
        wanted.extend_from_slice(b"\x21\0\0\0\x05\x03\0\0\0\0\0\0\x01\0\x01\xe8\x07\xac\x02\x02\x02");
        wanted.extend_from_slice(b"\x01\xac\x02\x02\x02\xac\x02\x02\x03\xac\x02\x02\x01f\x01");
        node_at(16384).encode(&mut wanted);
        wanted.extend_from_slice(b"\x21\0\0\0\x05\x03\0\0\0\0\0\0\0\x01\x04\xac\x02\x02\x05\xac\x02\x02");
        assert_eq!(example().encode(), wanted);
        assert_eq!(
            StoredNode::decode(&wanted, &place(), PageSize::MIN).unwrap(),
            example()
        );
    }

    #[test]
    fn the_bytes_of_a_root_do_not_change() {
        let root = TreeRoot {
            fingerprint_bits: 33,
            next_group: 0x0102,
            trunk: pointer(4096),
        };
        let mut wanted = b"\x03\x21\x02\x01\0\0\0\0\0\0".to_vec();
        node_at(4096).encode(&mut wanted);
        wanted.extend_from_slice(b"\x21\0\0\0\x05\x03\0\0\0\0\0\0");
        assert_eq!(root.encode(), wanted);
        let decode = |bytes: &[u8]| TreeRoot::decode(bytes, &place(), PageSize::MIN);
        assert_eq!(decode(&wanted).unwrap(), root);
        assert!((0..wanted.len()).all(|len| decode(&wanted[..len]).is_err()));
        wanted.push(0);
        assert!(decode(&wanted).is_err());
    }

    #[test]
    fn a_node_that_is_cut_or_out_of_order_is_refused() {
        let whole = example().encode();
        for len in 0..whole.len() {
            assert!(
                StoredNode::decode(&whole[..len], &place(), PageSize::MIN).is_err(),
                "{len} bytes"
            );
        }
        let refused = |change: &dyn Fn(&mut StoredNode)| {
            let mut form = example();
            change(&mut form);
            StoredNode::decode(&form.encode(), &place(), PageSize::MIN).is_err()
        };
        assert!(refused(&|form| form.pivots[1].low = b"a"[..].into()));
        assert!(refused(&|form| form.pivots[0].low = b"b"[..].into()));
        assert!(refused(&|form| form.pivots[1].low = b"m"[..].into()));
        assert!(refused(&|form| form.pivots[1].child = None));
        assert!(refused(&|form| form.height = 0));
        assert!(refused(&|form| form.next = 2));
        assert!(refused(&|form| form.bundles[0][0].group = 1));
        assert!(refused(&|form| form.bundles[0][0].clip = Some(1)));
        assert!(refused(&|form| form.groups[0].runs.clear()));
        assert!(refused(
            &|form| form.groups[0].runs[0].as_mut().unwrap().base = u64::MAX
        ));
    }
}
