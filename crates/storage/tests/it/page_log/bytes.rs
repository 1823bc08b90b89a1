//! The bytes of the miniature store. All integers are little-endian.
//!
//! ```text
//! pairs (a log record; a leaf, zero-padded to whole pages):
//! OFFSET  SIZE  MEANING
//!      0     4  how many
//!      4     …  each: key length (2), value length + 1, or 0 for a delete (4), key, value
//!
//! root (zero-padded to whole pages):
//! OFFSET  SIZE  MEANING
//!      0     4  how many leaves
//!      4     …  each: length of its first key (2), first key, place
//!      …     4  how many extents of ballast
//!      …     …  each: extent (12)
//!
//! place: node pointer (32), extent (12)
//! payload of the superblock: nothing for an empty tree, else the place of the root
//! ```

use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_storage::extents::Extent;
use alluvium_storage::{DiskLocation, Error, NodePointer, OnDiskObject, PageSize, Result};

pub(crate) type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The location of a node, and the extent that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) pointer: NodePointer,
    pub(crate) extent: Extent,
}

fn bad(place: &DiskLocation, error: &TruncatedInput) -> Error {
    Error::corrupt(place.clone(), "pairs or leaves", error.to_string())
}

/// Encoded length of a pair in bytes.
pub(crate) fn pair_len(key: &[u8], value: Option<&[u8]>) -> usize {
    6 + key.len() + value.map_or(0, <[u8]>::len)
}

pub(crate) fn encode_pairs<'a>(
    pairs: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    ByteWriter::new(&mut bytes).u32(pairs.len() as u32);
    for (key, value) in pairs {
        let len = value.map_or(0, |value| value.len() as u32 + 1);
        ByteWriter::new(&mut bytes)
            .u16(key.len() as u16)
            .u32(len)
            .bytes(key)
            .bytes(value.unwrap_or(&[]));
    }
    bytes
}

pub(crate) fn decode_pairs(bytes: &[u8], place: &DiskLocation) -> Result<Pairs> {
    let mut reader = ByteReader::new(bytes);
    let mut read = || -> std::result::Result<Pairs, TruncatedInput> {
        let mut pairs = Vec::new();
        for _ in 0..reader.u32()? {
            let (key, value) = (reader.u16()?, reader.u32()?);
            let key = reader.take(key.into())?.to_vec();
            let value = match value {
                0 => None,
                len => Some(reader.take(len as usize - 1)?.to_vec()),
            };
            pairs.push((key, value));
        }
        Ok(pairs)
    };
    read().map_err(|error| bad(place, &error))
}

pub(crate) fn encode_place(placed: &Placed, out: &mut Vec<u8>) {
    placed.pointer.encode(out);
    placed.extent.encode(out);
}

pub(crate) fn decode_place(
    reader: &mut ByteReader<'_>,
    place: &DiskLocation,
    page_size: PageSize,
) -> Result<Placed> {
    let pointer = NodePointer::decode(reader, place, page_size)?;
    Ok(Placed {
        pointer,
        extent: Extent::decode(reader, place)?,
    })
}

pub(crate) fn decode_payload(payload: &[u8], page_size: PageSize) -> Result<Option<Placed>> {
    if payload.is_empty() {
        return Ok(None);
    }
    let place = DiskLocation::new(OnDiskObject::Superblock, "superblock", 0);
    decode_place(&mut ByteReader::new(payload), &place, page_size).map(Some)
}

/// The leaves with their first keys, and the extents of ballast, which hold no data.
pub(crate) type Root = (Vec<(Vec<u8>, Placed)>, Vec<Extent>);

pub(crate) fn encode_root(leaves: &[(Vec<u8>, Placed)], ballast: &[Extent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ByteWriter::new(&mut bytes).u32(leaves.len() as u32);
    for (first, placed) in leaves {
        ByteWriter::new(&mut bytes).u16(first.len() as u16).bytes(first);
        encode_place(placed, &mut bytes);
    }
    ByteWriter::new(&mut bytes).u32(ballast.len() as u32);
    ballast.iter().for_each(|extent| extent.encode(&mut bytes));
    bytes
}

pub(crate) fn decode_root(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<Root> {
    let mut reader = ByteReader::new(bytes);
    let count = reader.u32().map_err(|error| bad(place, &error))?;
    let mut leaves = Vec::new();
    for _ in 0..count {
        let first = reader.u16().and_then(|len| reader.take(len.into()));
        let first = first.map_err(|error| bad(place, &error))?.to_vec();
        leaves.push((first, decode_place(&mut reader, place, page_size)?));
    }
    let count = reader.u32().map_err(|error| bad(place, &error))?;
    let ballast = (0..count).map(|_| Extent::decode(&mut reader, place));
    Ok((leaves, ballast.collect::<Result<_>>()?))
}

#[test]
fn pairs_are_read_back() {
    let pairs: Pairs = vec![
        (b"a".to_vec(), Some(b"1".to_vec())),
        (b"b".to_vec(), None),
        (b"c".to_vec(), Some(vec![])),
    ];
    let borrowed = pairs.iter().map(|(key, value)| (&key[..], value.as_deref()));
    let mut bytes = encode_pairs(borrowed);
    bytes.extend_from_slice(&[0; 100]);
    let place = DiskLocation::new(OnDiskObject::Node, "test", 0);
    assert_eq!(decode_pairs(&bytes, &place).unwrap(), pairs);
    assert!(decode_pairs(&bytes[..10], &place).is_err());
}
