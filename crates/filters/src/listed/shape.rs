//! Parameters of a filter, which define how a hash maps to a fingerprint, and a fingerprint to its
//! page and bucket.

use crate::{Error, Result};

/// Maximum number of hashes in a filter.
pub const MOST_HASHES: u64 = 1 << 36;

/// Maximum b for a false-positive rate of 2^-b.
pub const MOST_BITS: u32 = 24;

/// Base-2 logarithm of the average number of hashes in a bucket.
const BUCKET_LOG: u32 = 4;

/// Base-2 logarithm of the number of buckets in a page.
const PAGE_LOG: u32 = 6;

/// Number of buckets per page.
pub(super) const BUCKETS: usize = 1 << PAGE_LOG;

/// Number of extra hash bits from which a fingerprint is computed. With two, some fingerprints are
/// a quarter more likely than others, which increases the false-positive rate by at most 1.6 %.
const SPARE_BITS: u32 = 2;

/// The parameters of a filter.
///
/// ```
/// use alluvium_filters::listed::ListedShape;
/// let shape = ListedShape::new(1_000_000, 10)?;
/// assert_eq!((shape.known_bits(), shape.pages()), (20 + 10 + 2, 977));
/// assert_eq!(shape.page_of(0), 0);
/// assert_eq!(shape.page_of(u64::MAX), 976);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedShape {
    pub(super) hashes: u64,
    pub(super) bits: u32,
    pub(super) known: u32,
}

impl ListedShape {
    /// Returns the shape of a filter of `hashes` hashes with a false-positive rate of 2^-`bits`.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are more than [`MOST_HASHES`] hashes, or if `bits` is 0 or greater
    /// than [`MOST_BITS`].
    pub fn new(hashes: u64, bits: u32) -> Result<ListedShape> {
        if hashes > MOST_HASHES {
            let instead = format!("at most {MOST_HASHES}");
            return Err(Error::shape(format!("a filter of {hashes} hashes"), instead));
        }
        if !(1..=MOST_BITS).contains(&bits) {
            let instead = format!("1 to {MOST_BITS}");
            return Err(Error::shape(format!("a filter of {bits} bits"), instead));
        }
        let log = hashes.max(1).next_power_of_two().ilog2();
        Ok(ListedShape {
            hashes,
            bits,
            known: log + bits + SPARE_BITS,
        })
    }

    /// Returns the same shape for hashes of which only the first `bits` bits are known. The
    /// false-positive rate increases if the shape would use more bits.
    ///
    /// # Panics
    /// If `bits` is 0.
    #[must_use]
    pub fn knowing(self, bits: u32) -> ListedShape {
        assert!(bits > 0, "a fingerprint has a bit");
        ListedShape {
            known: self.known.min(bits),
            ..self
        }
    }

    /// Returns the number of leading bits of a hash from which its fingerprint is computed.
    #[must_use]
    pub fn known_bits(&self) -> u32 {
        self.known
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.hashes.max(1).div_ceil(1 << (BUCKET_LOG + PAGE_LOG)) as u32
    }

    /// Returns the number of the page for a hash.
    #[must_use]
    pub fn page_of(&self, hash: u64) -> u32 {
        self.page(self.fingerprint(hash))
    }

    /// Returns the maximum length in bytes of any filter of this shape.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        // The differences in a bucket have fewer than 2^(BUCKET_LOG + 1) ones in total.
        let buckets = self.hashes.max(1).div_ceil(1 << BUCKET_LOG);
        let ones = buckets << (BUCKET_LOG + 1);
        let bits = self.hashes * u64::from(self.low_bits() + 1) + ones;
        // Add one five-hundredth for the zeros that pad lists to the step size.
        let bytes = bits / 8 + bits / 4000 + super::format::most_overhead(self.pages());
        bytes as usize
    }

    /// Returns the number of possible fingerprints.
    #[inline]
    pub(super) fn universe(&self) -> u64 {
        self.hashes.max(1) << self.bits
    }

    /// Returns the fingerprint of a hash. A greater hash never has a smaller fingerprint.
    #[inline]
    pub(super) fn fingerprint(&self, hash: u64) -> u64 {
        let first = u128::from(hash >> (u64::BITS - self.known));
        ((first * u128::from(self.universe())) >> self.known) as u64
    }

    /// Returns the number of the page for a fingerprint.
    #[inline]
    pub(super) fn page(&self, fingerprint: u64) -> u32 {
        (fingerprint >> (self.bits + BUCKET_LOG + PAGE_LOG)) as u32
    }

    /// Returns the location of a fingerprint in its page: its bucket, and its distance from the
    /// smallest fingerprint that the bucket covers.
    #[inline]
    pub(super) fn place(&self, fingerprint: u64) -> (usize, u64) {
        let bits = self.bits + BUCKET_LOG;
        let bucket = (fingerprint >> bits) as usize % BUCKETS;
        (bucket, fingerprint & ((1 << bits) - 1))
    }

    /// Returns the smallest fingerprint that a bucket of a page covers.
    pub(super) fn base(&self, page: u32, bucket: usize) -> u64 {
        (u64::from(page) << PAGE_LOG | bucket as u64) << (self.bits + BUCKET_LOG)
    }

    /// Returns the number of possible fingerprints that a bucket covers.
    pub(super) fn bucket_range(&self) -> u64 {
        1 << (self.bits + BUCKET_LOG)
    }

    /// Returns the number of low bits of a difference that are stored verbatim.
    #[inline]
    pub(super) fn low_bits(&self) -> u32 {
        self.bits - 1
    }
}

/// Maximum number of ones in an encoded difference, which is less than the number of fingerprints
/// that a bucket covers.
pub(super) const MOST_ONES: u32 = (1 << (BUCKET_LOG + 1)) - 1;

// One load returns 57 bits, which must hold a whole encoded difference.
const _: () = assert!(MOST_ONES + 1 + (MOST_BITS - 1) <= 57);
