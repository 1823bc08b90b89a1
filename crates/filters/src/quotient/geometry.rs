//! The geometry of a filter: how a fingerprint is split into page, block, quotient and remainder.
//!
//! A fingerprint `f` of `p` bits is interpreted as the fraction `f / 2^p` and multiplied by the
//! number of quotients, `T = pages × blocks × 48`. The integer part of the product is the quotient,
//! and the highest `r` bits of its fractional part are the remainder. If `T = 2^q`, this is the
//! textbook's split of `p` bits into `q` and `r`. But `T` may be any number, so the size of a
//! filter fits the number of its entries rather than the next power of two. `r` is the smallest
//! value for which no two fingerprints share both quotient and remainder, which is the case if
//! `2^(p - r) ≤ T`. The mapping is therefore invertible ([`FilterGeometry::fingerprint_at`]).

use super::bits::BitKernel;
use super::format::{BLOCK_BYTES, HEADER_BYTES, SLOT_LOAD_BYTES};
use crate::{Error, Fingerprint, MAX_FINGERPRINT_BITS, MAX_VALUE_BITS, Result};

/// Number of quotients in a block, which is the number of bits that a metadata word has besides a
/// 16-bit position.
pub const BLOCK_QUOTIENTS: u32 = 48;

/// Maximum number of slots for the runs of a block, which is the number of bits in a metadata word.
pub const BLOCK_SLOTS: u32 = 64;

/// Maximum length of a slot, in bits. A slot holds a remainder and a value, and is read with one
/// unaligned 64-bit load.
pub const MAX_SLOT_BITS: u32 = 57;

/// Maximum number of quotients in a filter, up to which the fixed-point computation that maps a
/// location back to its fingerprint is exact.
pub const MAX_QUOTIENTS: u64 = 1 << 31;

/// Default number of entries in a [`FilterShape`], as a percentage of the number of quotients.
pub const DEFAULT_LOAD_PERCENT: u32 = 90;

/// Length, in bits, of the count after a word that occurs three times or more.
pub(super) const COUNT_BITS: u32 = 32;

/// Parameters of a filter, which determine its [`FilterGeometry`] for a given number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterShape {
    /// Length of a fingerprint in bits, from 8 to 48. A filter with `n` entries has a
    /// false-positive rate of `n / 2^fingerprint_bits`.
    pub fingerprint_bits: u32,
    /// Length of a value in bits, from 0 to 16.
    pub value_bits: u32,
    /// Size of a page in bytes, a power of two from 4 KiB to 64 KiB.
    pub page_bytes: u32,
    /// Number of entries as a percentage of the number of quotients, from 10 to 95. Lower
    /// percentages make lookups slightly faster, and higher ones make the filter smaller.
    pub load_percent: u32,
}

impl FilterShape {
    /// Returns the parameters for pages of 4 KiB, and for entries amounting to 90 % of the
    /// quotients.
    #[must_use]
    pub fn new(fingerprint_bits: u32, value_bits: u32) -> FilterShape {
        FilterShape {
            fingerprint_bits,
            value_bits,
            page_bytes: 4096,
            load_percent: DEFAULT_LOAD_PERCENT,
        }
    }
}

/// The geometry of one filter, which determines where its fingerprints are stored. It is small and
/// `Copy`. The filter's owner stores it with the filter ([`FilterGeometry::encode`]).
///
/// ```
/// use alluvium_filters::{Fingerprint, FilterGeometry, FilterShape};
/// // 2^20 keys in a store whose fingerprints have 33 bits, 16 runs to tell apart.
/// let geometry = FilterGeometry::for_entries(1 << 20, FilterShape::new(33, 4))?;
/// assert_eq!(geometry.remainder_bits(), 13);
/// let bits_per_key = geometry.bytes() as f64 * 8.0 / (1 << 20) as f64;
/// assert!(bits_per_key < 23.0, "{bits_per_key}");
/// let fingerprint = Fingerprint::of(0xfedc_ba98_7654_3210, 33);
/// assert!(geometry.page_of(fingerprint) < geometry.pages());
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterGeometry {
    pub(super) fingerprint_bits: u32,
    pub(super) remainder_bits: u32,
    pub(super) value_bits: u32,
    pub(super) slot_bits: u32,
    pub(super) page_bytes: u32,
    pub(super) pages: u32,
    pub(super) blocks: u32,
    pub(super) capacity: u32,
    /// Bit offset of the slots in a page.
    pub(super) slots_bit: u32,
    /// How many bits to shift a word right if its highest bits are the remainder.
    remainder_shift: u32,
    /// Mask of the hash bits that belong to the fingerprint.
    fingerprint_mask: u64,
    /// Number of slots, called lanes, that are compared with a single load.
    pub(super) lanes: u32,
    /// Mask of the lowest remainder bit of each lane. Multiplying a remainder by this mask copies
    /// it to every lane.
    pub(super) lane_low: u64,
    /// Mask of the highest bit of each lane.
    pub(super) lane_high: u64,
    /// Mask of all bits of each lane except its highest bit.
    pub(super) lane_rest: u64,
    /// Mask of the remainder bits of each lane.
    pub(super) lane_remainder: u64,
    /// The number `2^(63 + p - r) / T`, which [`FilterGeometry::fingerprint_at`] uses.
    step: u64,
    pub(super) kernel: BitKernel,
}

impl FilterGeometry {
    /// Returns the smallest geometry for `entries` entries at the percentage given by the shape.
    ///
    /// # Errors
    /// [`Error::Shape`] if a parameter is out of range, or if the fingerprints are too short for
    /// this number of entries.
    pub fn for_entries(entries: u64, shape: FilterShape) -> Result<FilterGeometry> {
        if !(10..=95).contains(&shape.load_percent) {
            return Err(Error::shape(
                format!("a load of {} %", shape.load_percent),
                "10 to 95 %",
            ));
        }
        let quotients = (u128::from(entries) * 100).div_ceil(u128::from(shape.load_percent));
        let found = Self::search(shape, |per_page| {
            u64::try_from(quotients.div_ceil(u128::from(per_page))).unwrap_or(u64::MAX)
        })?;
        // This number of pages may allow shorter remainders than those with which the search found
        // it. The geometry must depend only on the number of pages, so that a stored filter is
        // recognised.
        Self::with_pages(found.pages, shape)
    }

    /// Returns the geometry of a filter with `pages` pages. With more pages, quotients are longer
    /// and remainders shorter.
    ///
    /// # Errors
    /// [`Error::Shape`] if a parameter is out of range.
    pub fn with_pages(pages: u32, shape: FilterShape) -> Result<FilterGeometry> {
        Self::search(shape, |_| u64::from(pages))
    }

    /// Finds the shortest remainder length that tells all fingerprints apart. Shorter remainders
    /// leave space for more slots per page, so that fewer pages are needed, but fewer pages in turn
    /// require longer remainders. The lengths are therefore tried in ascending order until one is
    /// sufficient.
    fn search(shape: FilterShape, pages_for: impl Fn(u64) -> u64) -> Result<FilterGeometry> {
        let FilterShape {
            fingerprint_bits,
            value_bits,
            page_bytes,
            ..
        } = shape;
        if !(8..=MAX_FINGERPRINT_BITS).contains(&fingerprint_bits) {
            return Err(Error::shape(
                format!("fingerprints of {fingerprint_bits} bits"),
                "8 to 48",
            ));
        }
        if value_bits > MAX_VALUE_BITS {
            return Err(Error::shape(format!("values of {value_bits} bits"), "0 to 16"));
        }
        if !page_bytes.is_power_of_two() || !(4096..=65536).contains(&page_bytes) {
            return Err(Error::shape(
                format!("pages of {page_bytes} bytes"),
                "a power of two from 4096 to 65536",
            ));
        }
        let mut too_many = None;
        for remainder_bits in 2..=(MAX_SLOT_BITS - value_bits).min(fingerprint_bits) {
            let blocks = blocks_in(page_bytes, remainder_bits + value_bits);
            let pages = pages_for(u64::from(blocks * BLOCK_QUOTIENTS)).max(1);
            let quotients = pages.saturating_mul(u64::from(blocks * BLOCK_QUOTIENTS));
            if quotients > MAX_QUOTIENTS {
                // A longer remainder may still work, because a page then has fewer quotients.
                too_many = Some(quotients);
                continue;
            }
            too_many = None;
            if fingerprint_bits - quotients.ilog2().min(fingerprint_bits) <= remainder_bits {
                return Ok(Self::derive(shape, remainder_bits, blocks, pages as u32));
            }
        }
        if let Some(quotients) = too_many {
            return Err(Error::shape(
                format!("{quotients} quotients"),
                format!("at most {MAX_QUOTIENTS}"),
            ));
        }
        Err(Error::shape(
            format!(
                "fingerprints of {fingerprint_bits} bits with values of {value_bits} bits in so few pages"
            ),
            "shorter fingerprints, smaller values, or more pages",
        ))
    }

    fn derive(shape: FilterShape, remainder_bits: u32, blocks: u32, pages: u32) -> FilterGeometry {
        let FilterShape {
            fingerprint_bits,
            value_bits,
            page_bytes,
            ..
        } = shape;
        let slot_bits = remainder_bits + value_bits;
        // Depending on its length, a slot may start at different bits of a byte, which reduces the
        // number of usable bits in a 64-bit load.
        let skew = [0, 7, 6, 7, 4, 7, 6, 7][slot_bits as usize % 8];
        // A run with a count has three equal slots and the slots of the count, so a run of at most
        // `lanes` slots never contains a count.
        let lanes = ((64 - skew) / slot_bits).min(2 + COUNT_BITS.div_ceil(slot_bits));
        let lane_ones = (0..lanes).fold(0u64, |ones, lane| ones | 1 << (lane * slot_bits));
        let quotients = u128::from(pages) * u128::from(blocks * BLOCK_QUOTIENTS);
        let step = ((1u128 << (63 + fingerprint_bits)) / quotients) >> remainder_bits;
        FilterGeometry {
            fingerprint_bits,
            remainder_bits,
            value_bits,
            slot_bits,
            page_bytes,
            pages,
            blocks,
            capacity: capacity_of(page_bytes, blocks, slot_bits),
            slots_bit: (HEADER_BYTES as u32 + blocks * BLOCK_BYTES as u32) * 8,
            remainder_shift: 64 - remainder_bits,
            fingerprint_mask: u64::MAX << (64 - fingerprint_bits),
            lanes,
            lane_low: lane_ones << value_bits,
            lane_high: lane_ones << (slot_bits - 1),
            lane_rest: (lane_ones << (slot_bits - 1)).wrapping_sub(lane_ones),
            lane_remainder: lane_ones.wrapping_mul(((1 << remainder_bits) - 1) << value_bits),
            step: step as u64,
            kernel: BitKernel::detect(),
        }
    }

    /// Returns the same geometry with the portable implementation, which processors without BMI2
    /// use. For tests and comparisons.
    #[must_use]
    pub fn portable(mut self) -> FilterGeometry {
        self.kernel = BitKernel::Portable;
        self
    }

    /// Returns the fingerprint of a hash, which is made of its first bits.
    #[must_use]
    #[inline]
    pub fn fingerprint(&self, hash: u64) -> Fingerprint {
        Fingerprint(hash & self.fingerprint_mask)
    }

    /// Returns the number of the page for all entries of a fingerprint.
    #[must_use]
    #[inline]
    pub fn page_of(&self, fingerprint: Fingerprint) -> u32 {
        ((u128::from(fingerprint.0) * u128::from(self.pages)) >> 64) as u32
    }

    /// Returns the smallest fingerprint in a page.
    pub(super) fn first_fingerprint(&self, page: u32) -> Fingerprint {
        let first = (u128::from(page) << self.fingerprint_bits).div_ceil(u128::from(self.pages));
        Fingerprint((first as u64) << (64 - self.fingerprint_bits))
    }

    /// Returns the location of a fingerprint in its page.
    #[inline(always)]
    pub(super) fn place(&self, fingerprint: Fingerprint) -> QuotientAddress {
        let in_page = fingerprint.0.wrapping_mul(u64::from(self.pages));
        let in_block = u128::from(in_page) * u128::from(self.blocks);
        let in_quotient = u128::from(in_block as u64) * u128::from(BLOCK_QUOTIENTS);
        QuotientAddress {
            block: (in_block >> 64) as u32,
            quotient: (in_quotient >> 64) as u32,
            remainder: in_quotient as u64 >> self.remainder_shift,
        }
    }

    /// Returns the position of a block's first quotient on the fixed-point scale of
    /// [`FilterGeometry::fingerprint_at`].
    pub(super) fn block_base(&self, page: u32, block: u32) -> u128 {
        let blocks = u64::from(page) * u64::from(self.blocks) + u64::from(block);
        // The number is less than 2^127. It has 96 - p fractional bits, of which 63 are needed.
        let base = (u128::from(blocks * u64::from(BLOCK_QUOTIENTS)) << 96) / u128::from(self.quotients());
        base << self.fingerprint_bits.saturating_sub(33) >> 33u32.saturating_sub(self.fingerprint_bits)
    }

    /// Returns the distance between the positions of consecutive blocks on the same scale as
    /// [`FilterGeometry::block_base`].
    pub(super) fn block_step(&self) -> u128 {
        (u128::from(BLOCK_QUOTIENTS) << (63 + self.fingerprint_bits)) / u128::from(self.quotients())
    }

    /// Returns the fingerprint with the given quotient and remainder in the block at position
    /// `base`, which is the inverse of [`FilterGeometry::place`].
    ///
    /// A fingerprint `f` satisfies `f × T = quotient × 2^p + remainder × 2^(p-r) + d` with `0 ≤ d <
    /// 2^(p-r) ≤ T`. Therefore `f` is the sum without `d`, divided by `T` and rounded up. The
    /// division by `T` uses fixed point with 63 fractional bits, and its result is slightly too
    /// small. The error is less than `2^-47` for the base and `2^(r-57)` for the rest. Rounding up
    /// gives the exact result if the error is less than `1 / T`, which [`MAX_QUOTIENTS`] and the
    /// limit of 48 fingerprint bits ensure.
    #[inline(always)]
    pub(super) fn fingerprint_at(&self, base: u128, quotient: u32, remainder: u64) -> Fingerprint {
        let offset = u64::from(quotient) << self.remainder_bits | remainder;
        let sum = base + u128::from(offset) * u128::from(self.step);
        let number = ((sum + ((1 << 63) - 1)) >> 63) as u64;
        Fingerprint(number << (64 - self.fingerprint_bits))
    }

    /// Returns the slot word of an entry, with the remainder above the value. The value is
    /// complemented so that the newest entry sorts first.
    #[inline(always)]
    pub(super) fn word(&self, remainder: u64, value: u16) -> u64 {
        let value = u64::from(!value) & ((1 << self.value_bits) - 1);
        remainder << self.value_bits | value
    }

    /// Returns the value in a slot word.
    #[inline(always)]
    pub(super) fn value(&self, word: u64) -> u16 {
        (!word & ((1 << self.value_bits) - 1)) as u16
    }

    /// Returns the number of slots that a count takes up.
    #[inline]
    pub(super) fn count_slots(&self) -> u32 {
        COUNT_BITS.div_ceil(self.slot_bits)
    }

    /// Returns the length of a fingerprint, in bits.
    #[must_use]
    pub fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// Returns the length of a remainder, in bits. A slot stores nothing else of a fingerprint.
    #[must_use]
    pub fn remainder_bits(&self) -> u32 {
        self.remainder_bits
    }

    /// Returns the length of a value, in bits.
    #[must_use]
    pub fn value_bits(&self) -> u32 {
        self.value_bits
    }

    /// Returns the size of a page, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Returns the number of main pages, excluding spill pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the size of all main pages, excluding spill pages, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page_bytes)
    }

    /// Returns the number of quotients in all pages. A filter's load is the number of its entries
    /// divided by this number.
    #[must_use]
    pub fn quotients(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.blocks * BLOCK_QUOTIENTS)
    }

    /// Returns the false-positive rate of a filter with `fingerprints` distinct fingerprints.
    #[must_use]
    pub fn false_positive_rate(&self, fingerprints: u64) -> f64 {
        // Of all 2^p fingerprints, n are present. An absent key has one of them by chance.
        fingerprints as f64 / f64::from(self.fingerprint_bits).exp2()
    }

    /// Returns the parameters of this geometry, with the default percentage of entries.
    #[must_use]
    pub fn shape(&self) -> FilterShape {
        FilterShape {
            page_bytes: self.page_bytes,
            ..FilterShape::new(self.fingerprint_bits, self.value_bits)
        }
    }
}

/// Location of a fingerprint in its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QuotientAddress {
    pub(super) block: u32,
    /// Index of the quotient in the block.
    pub(super) quotient: u32,
    pub(super) remainder: u64,
}

/// Returns the maximum number of blocks in a page with one slot per quotient.
fn blocks_in(page_bytes: u32, slot_bits: u32) -> u32 {
    let bits = (page_bytes as usize - HEADER_BYTES - SLOT_LOAD_BYTES) as u32 * 8;
    let blocks = bits / (BLOCK_BYTES as u32 * 8 + BLOCK_QUOTIENTS * slot_bits);
    blocks.min(u32::from(u16::MAX) / BLOCK_QUOTIENTS)
}

fn capacity_of(page_bytes: u32, blocks: u32, slot_bits: u32) -> u32 {
    let bytes = page_bytes as usize - HEADER_BYTES - SLOT_LOAD_BYTES - blocks as usize * BLOCK_BYTES;
    (bytes as u32 * 8 / slot_bits).min(u32::from(u16::MAX))
}
