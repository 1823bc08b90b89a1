//! Parameters of a block index: the size of the store and the number of bins.

use crate::{Error, Result};

/// Default base-2 logarithm of the number of bins per block. Twice as many bins cost one more bit
/// per block and halve the number of blocks that are read unnecessarily.
pub const DEFAULT_BINS_LOG: u32 = 3;

/// Maximum base-2 logarithm of the number of bins per block.
pub const MAX_BINS_LOG: u32 = 16;

const MAX_BLOCKS: u64 = 1 << 40;

/// Parameters of a block index.
///
/// ```
/// use alluvium_filters::pachash::BlockIndexShape;
/// let shape = BlockIndexShape::new(10_000, 4096)?;
/// assert_eq!((shape.blocks(), shape.bins()), (3, 24));
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIndexShape {
    pub(super) bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) bins_log: u32,
}

impl BlockIndexShape {
    /// Creates the parameters for a store with `bytes` bytes of objects in blocks of `block_bytes`
    /// bytes, with 8 bins per block.
    ///
    /// # Errors
    /// [`Error::Shape`] if the block size is zero, or if there are more than 2^40 blocks.
    pub fn new(bytes: u64, block_bytes: u32) -> Result<BlockIndexShape> {
        BlockIndexShape::with_bins(bytes, block_bytes, DEFAULT_BINS_LOG)
    }

    /// Creates the parameters like [`BlockIndexShape::new`], but with 2^`bins_log` bins per block.
    ///
    /// # Errors
    /// The same errors as [`BlockIndexShape::new`], and [`Error::Shape`] if `bins_log` exceeds
    /// [`MAX_BINS_LOG`].
    pub fn with_bins(bytes: u64, block_bytes: u32, bins_log: u32) -> Result<BlockIndexShape> {
        let shape = BlockIndexShape {
            bytes,
            block_bytes,
            bins_log,
        };
        if block_bytes == 0 || bins_log > MAX_BINS_LOG || shape.blocks() > MAX_BLOCKS {
            return Err(Error::shape(
                format!("2^{bins_log} bins in blocks of {block_bytes} bytes for {bytes} bytes"),
                format!("at most 2^{MAX_BINS_LOG} bins, and 1 to {MAX_BLOCKS} blocks"),
            ));
        }
        Ok(shape)
    }

    /// Returns the total size of all objects, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of a block, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Returns the number of blocks. The last block may be shorter than the others.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.bytes.div_ceil(self.block_bytes.max(1).into())
    }

    /// Returns the number of bins.
    #[must_use]
    pub fn bins(&self) -> u64 {
        self.blocks() << self.bins_log
    }

    /// Returns the bin of a hash. A greater hash never has a smaller bin.
    #[must_use]
    #[inline]
    pub fn bin(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.bins())) >> 64) as u64
    }
}
