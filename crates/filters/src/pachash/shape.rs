//! The size of a store, and how many bins its hashes are split into.

use crate::{Error, Result};

/// The logarithm of a block's bins. Each time they double they cost a bit a block, and halve
/// the blocks that are read in vain.
pub const DEFAULT_BINS_LOG: u32 = 3;

/// The most bins of a block, as a logarithm.
pub const MAX_BINS_LOG: u32 = 16;

/// The most blocks.
const MAX_BLOCKS: u64 = 1 << 40;

/// What an index is made for.
///
/// ```
/// use alluvium_filters::pachash::Shape;
/// let shape = Shape::new(10_000, 4096)?;
/// assert_eq!((shape.blocks(), shape.bins()), (3, 24));
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) bins_log: u32,
}

impl Shape {
    /// Creates the shape of a store of objects of `bytes` bytes altogether, in blocks of
    /// `block_bytes`, with 8 bins a block.
    ///
    /// # Errors
    /// [`Error::Shape`] when blocks have no byte, or there are more than 2^40.
    pub fn new(bytes: u64, block_bytes: u32) -> Result<Shape> {
        Shape::with_bins(bytes, block_bytes, DEFAULT_BINS_LOG)
    }

    /// Creates a shape with 2^`bins_log` bins a block.
    ///
    /// # Errors
    /// [`Error::Shape`] as [`Shape::new`], and when that is more than [`MAX_BINS_LOG`].
    pub fn with_bins(bytes: u64, block_bytes: u32, bins_log: u32) -> Result<Shape> {
        let shape = Shape {
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

    /// Returns how many bytes the objects have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Returns how many blocks there are; the last may be shorter.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.bytes.div_ceil(self.block_bytes.max(1).into())
    }

    /// Returns how many bins there are.
    #[must_use]
    pub fn bins(&self) -> u64 {
        self.blocks() << self.bins_log
    }

    /// Returns the bin of a hash. Bins rise with hashes.
    #[must_use]
    #[inline]
    pub fn bin(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.bins())) >> 64) as u64
    }
}
