//! How a hash becomes a fingerprint, and where that belongs.

use crate::{Error, Result};

/// The most hashes in a filter.
pub const MOST_HASHES: u64 = 1 << 36;

/// The most bits that a filter's wrong answers may be counted in: once in 2^this lookups.
pub const MOST_BITS: u32 = 24;

/// A bucket covers the fingerprints of 2^this hashes, on average.
const BUCKET_LOG: u32 = 4;

/// A page has 2^this buckets.
const PAGE_LOG: u32 = 6;

/// Buckets of a page.
pub(super) const BUCKETS: usize = 1 << PAGE_LOG;

/// Bits of a hash that make a fingerprint beyond its own: with two, some fingerprints are a quarter
/// more likely than others, and wrong answers 1.6 % more frequent at the worst.
const SPARE_BITS: u32 = 2;

/// What a filter is like.
///
/// ```
/// use alluvium_filters::listed::Shape;
/// let shape = Shape::new(1_000_000, 10)?;
/// assert_eq!((shape.known_bits(), shape.pages()), (20 + 10 + 2, 977));
/// assert_eq!(shape.page_of(0), 0);
/// assert_eq!(shape.page_of(u64::MAX), 976);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) hashes: u64,
    pub(super) bits: u32,
    pub(super) known: u32,
}

impl Shape {
    /// Returns the shape of a filter of this many hashes that says yes in vain once in 2^`bits`
    /// lookups.
    ///
    /// # Errors
    /// [`Error::Shape`] when they are more than [`MOST_HASHES`], or `bits` is 0 or above
    /// [`MOST_BITS`].
    pub fn new(hashes: u64, bits: u32) -> Result<Shape> {
        if hashes > MOST_HASHES {
            let instead = format!("at most {MOST_HASHES}");
            return Err(Error::shape(format!("a filter of {hashes} hashes"), instead));
        }
        if !(1..=MOST_BITS).contains(&bits) {
            let instead = format!("1 to {MOST_BITS}");
            return Err(Error::shape(format!("a filter of {bits} bits"), instead));
        }
        let log = hashes.max(1).next_power_of_two().ilog2();
        Ok(Shape {
            hashes,
            bits,
            known: log + bits + SPARE_BITS,
        })
    }

    /// Returns the same shape for hashes of which no more than the first `bits` are known. Where
    /// the shape asks for more, more answers are wrong.
    ///
    /// # Panics
    /// When `bits` is 0.
    #[must_use]
    pub fn knowing(self, bits: u32) -> Shape {
        assert!(bits > 0, "a fingerprint has a bit");
        Shape {
            known: self.known.min(bits),
            ..self
        }
    }

    /// Returns how many of a hash's first bits make its fingerprint.
    #[must_use]
    pub fn known_bits(&self) -> u32 {
        self.known
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.hashes.max(1).div_ceil(1 << (BUCKET_LOG + PAGE_LOG)) as u32
    }

    /// Returns the page that has a hash.
    #[must_use]
    pub fn page_of(&self, hash: u64) -> u32 {
        self.page(self.fingerprint(hash))
    }

    /// Returns the most bytes that a filter of this shape can have.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        // All differences of a bucket together have fewer than 2^(BUCKET_LOG + 1) ones.
        let buckets = self.hashes.max(1).div_ceil(1 << BUCKET_LOG);
        let ones = buckets << (BUCKET_LOG + 1);
        let bits = self.hashes * u64::from(self.low_bits() + 1) + ones;
        // A five hundredth where lists begin at steps of some bits.
        let bytes = bits / 8 + bits / 4000 + super::format::most_overhead(self.pages());
        bytes as usize
    }

    /// How many fingerprints are possible.
    #[inline]
    pub(super) fn universe(&self) -> u64 {
        self.hashes.max(1) << self.bits
    }

    /// The fingerprint of a hash. It rises with the hash.
    #[inline]
    pub(super) fn fingerprint(&self, hash: u64) -> u64 {
        let first = u128::from(hash >> (u64::BITS - self.known));
        ((first * u128::from(self.universe())) >> self.known) as u64
    }

    /// The page of a fingerprint.
    #[inline]
    pub(super) fn page(&self, fingerprint: u64) -> u32 {
        (fingerprint >> (self.bits + BUCKET_LOG + PAGE_LOG)) as u32
    }

    /// Where a fingerprint belongs within its page: its bucket, and its distance from the least
    /// that the bucket covers.
    #[inline]
    pub(super) fn place(&self, fingerprint: u64) -> (usize, u64) {
        let bits = self.bits + BUCKET_LOG;
        let bucket = (fingerprint >> bits) as usize % BUCKETS;
        (bucket, fingerprint & ((1 << bits) - 1))
    }

    /// The least fingerprint that a bucket covers.
    pub(super) fn base(&self, page: u32, bucket: usize) -> u64 {
        (u64::from(page) << PAGE_LOG | bucket as u64) << (self.bits + BUCKET_LOG)
    }

    /// How many fingerprints a bucket covers.
    pub(super) fn bucket_range(&self) -> u64 {
        1 << (self.bits + BUCKET_LOG)
    }

    /// The bits of a difference that are not coded in unary.
    #[inline]
    pub(super) fn low_bits(&self) -> u32 {
        self.bits - 1
    }
}

/// The most ones of a difference: those of one that is almost a bucket's range.
pub(super) const MOST_ONES: u32 = (1 << (BUCKET_LOG + 1)) - 1;

// One load brings 57 bits.
const _: () = assert!(MOST_ONES + 1 + (MOST_BITS - 1) <= 57);
