//! Builds a block index while its packed store is being written.

use super::format::{BlockIndexHeader, encode};
use super::sequence::SequenceWriter;
use super::shape::BlockIndexShape;
use crate::{Error, Result};

/// Builds the index of a packed store whose objects are added in hash order.
///
/// ```
/// use alluvium_filters::pachash::{BlockIndexBuilder, BlockIndex, BlockIndexShape};
/// let mut builder = BlockIndexBuilder::new(BlockIndexShape::new(9000, 4096)?);
/// builder.push(1 << 60, 5000)?;
/// builder.push(9 << 60, 4000)?;
/// let bytes = builder.finish()?;
/// let index = BlockIndex::open(&bytes)?;
/// assert_eq!(index.blocks(1 << 60)?, 0..2);
/// assert_eq!(index.blocks(9 << 60)?, 1..3);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Debug)]
pub struct BlockIndexBuilder {
    shape: BlockIndexShape,
    sequence: SequenceWriter,
    position: u64,
    objects: u64,
    last: u64,
}

impl BlockIndexBuilder {
    #[must_use]
    pub fn new(shape: BlockIndexShape) -> BlockIndexBuilder {
        BlockIndexBuilder {
            shape,
            sequence: SequenceWriter::new(shape.bins_log),
            position: 0,
            objects: 0,
            last: 0,
        }
    }

    /// Adds the next object, which has `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Order`] if the hash is less than the previous one; [`Error::Shape`] if the object
    /// is empty, or longer than the bytes of the shape that are left.
    pub fn push(&mut self, hash: u64, bytes: u64) -> Result<()> {
        if hash < self.last {
            return Err(Error::Order {
                entry: hash,
                last: self.last,
            });
        }
        let left = self.shape.bytes - self.position;
        if bytes == 0 || bytes > left {
            let what = format!("an object of {bytes} bytes in a packed store");
            return Err(Error::shape(what, format!("1 to {left}")));
        }
        let block_bytes = u64::from(self.shape.block_bytes);
        let bin = self.shape.bin(hash);
        let first = self.position.div_ceil(block_bytes);
        let end = (self.position + bytes).div_ceil(block_bytes);
        for block in first..end {
            let begins_here = block * block_bytes == self.position;
            let least = if self.objects == 0 {
                0
            } else {
                self.shape.bin(self.last) + 1
            };
            self.sequence.push(if begins_here { least.min(bin) } else { bin });
        }
        self.position += bytes;
        self.objects += 1;
        self.last = hash;
        Ok(())
    }

    /// Completes the index and returns its bytes.
    ///
    /// # Errors
    /// [`Error::Shape`] if the objects have fewer bytes in total than the shape.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        if self.position != self.shape.bytes {
            let what = format!(
                "a packed store of {} bytes with {}",
                self.shape.bytes, self.position
            );
            return Err(Error::shape(what, "the bytes of all objects"));
        }
        self.sequence.advance(self.shape.blocks());
        let header = BlockIndexHeader {
            shape: self.shape,
            objects: self.objects,
        };
        Ok(encode(&header, self.sequence))
    }
}
