//! The encoding of the toy store. All integers are little-endian.
//!
//! ```text
//! slot, and journal record:
//! OFFSET  SIZE  MEANING
//!      0     8  XXH3-64 of everything from offset 8 on, seeded with the kind
//!      8     8  generation
//!     16     8  sequence number: of the last commit in the slot, of the commit in the record
//!     24     4  how many pairs follow
//!     28     4  how many bytes they have
//!     32     …  pairs: key length (4), value length + 1, or 0 for a delete (4), key, value
//! ```

use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::seeded;

pub(crate) const HEADER: usize = 32;

/// The use of a block, which is the seed of its checksum.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Slot = 1,
    Record = 2,
}

pub(crate) struct Block {
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) pairs: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

pub(crate) fn encode(kind: Kind, block: &Block) -> Vec<u8> {
    let mut pairs = Vec::new();
    for (key, value) in &block.pairs {
        let len = value.as_ref().map_or(0, |value| value.len() as u32 + 1);
        ByteWriter::new(&mut pairs)
            .u32(key.len() as u32)
            .u32(len)
            .bytes(key)
            .bytes(value.as_deref().unwrap_or(&[]));
    }
    let mut body = Vec::new();
    ByteWriter::new(&mut body)
        .u64(block.generation)
        .u64(block.sequence)
        .u32(block.pairs.len() as u32)
        .u32(pairs.len() as u32)
        .bytes(&pairs);
    let mut bytes = Vec::new();
    ByteWriter::new(&mut bytes)
        .u64(seeded(kind as u64, &body))
        .bytes(&body);
    bytes
}

/// Decodes the block at the start of `bytes`. Returns the block and its length, or `None` if there
/// is no valid block.
pub(crate) fn decode(kind: Kind, bytes: &[u8]) -> Option<(Block, usize)> {
    let len = HEADER + ByteReader::new(bytes.get(28..)?).u32().ok()? as usize;
    let bytes = bytes.get(..len)?;
    let mut reader = ByteReader::new(bytes);
    let sum = reader.u64().ok()?;
    if sum != seeded(kind as u64, &bytes[8..]) {
        return None;
    }
    read_block(&mut reader).ok().map(|block| (block, len))
}

fn read_block(reader: &mut ByteReader<'_>) -> Result<Block, TruncatedInput> {
    let (generation, sequence, count, _) = (reader.u64()?, reader.u64()?, reader.u32()?, reader.u32()?);
    let mut pairs = Vec::new();
    for _ in 0..count {
        let (key, value) = (reader.u32()?, reader.u32()?);
        let key = reader.take(key as usize)?.to_vec();
        let value = match value {
            0 => None,
            len => Some(reader.take(len as usize - 1)?.to_vec()),
        };
        pairs.push((key, value));
    }
    Ok(Block {
        generation,
        sequence,
        pairs,
    })
}

#[test]
fn a_block_is_read_back_and_a_spoiled_one_is_not() {
    let pairs = vec![(b"k".to_vec(), Some(b"v".to_vec())), (b"gone".to_vec(), None)];
    let block = Block {
        generation: 3,
        sequence: 9,
        pairs: pairs.clone(),
    };
    let mut bytes = encode(Kind::Slot, &block);
    let (found, len) = decode(Kind::Slot, &bytes).unwrap();
    assert_eq!(
        (found.generation, found.sequence, found.pairs, len),
        (3, 9, pairs, bytes.len())
    );
    assert!(decode(Kind::Record, &bytes).is_none());
    bytes[40] ^= 1;
    assert!(decode(Kind::Slot, &bytes).is_none());
}
