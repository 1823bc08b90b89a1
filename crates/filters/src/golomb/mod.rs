//! Sorted integer lists, stored as differences in a Golomb–Rice code.
//!
//! *Scope*: how bits are packed; the best parameter for the density of a list; the maximum size of
//! a list in bits (Conway §2.2, Lemma 2).
//!
//! *Must not depend on*: what entries and payloads mean; where the bytes are stored.
//!
//! - **F10** However its entries are distributed, a list of n entries from a universe of 2^u
//!   integers, with payloads of p bits, has at most n (1 + k + p) + 2^(u − k) bits. The reason is
//!   that all differences combined have at most 2^(u − k) ones, because each one stands for a step
//!   of 2^k in the universe.

mod format;
#[cfg(test)]
mod tests;

pub use format::{BitReader, ByteSource, StreamBitWriter, decode, encode};

use crate::Error;

/// A Golomb–Rice code. Its parameter is the number of low bits of a difference that are stored
/// verbatim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RiceCode {
    parameter: u32,
    universe_bits: u32,
}

impl RiceCode {
    /// Returns the best code for a list of `entries` entries from a universe of 2^`universe_bits`
    /// integers. Its parameter is ⌊log2(1 / density)⌋, or 0 if the density is one or more.
    #[must_use]
    pub fn new(entries: u64, universe_bits: u32) -> RiceCode {
        let log = 64 - entries.saturating_sub(1).leading_zeros();
        RiceCode {
            parameter: universe_bits.saturating_sub(log).min(56),
            universe_bits,
        }
    }

    /// Returns the code with a parameter that was read from a list, reduced to `universe_bits` if
    /// it is greater.
    #[must_use]
    pub fn with_parameter(parameter: u32, universe_bits: u32) -> RiceCode {
        RiceCode {
            parameter: parameter.min(universe_bits).min(56),
            universe_bits,
        }
    }

    /// Returns the parameter, which is the number of low bits stored verbatim.
    #[must_use]
    pub fn parameter(&self) -> u32 {
        self.parameter
    }

    /// Returns the maximum number of bits in a list of `entries` entries (F10).
    ///
    /// ```
    /// use alluvium_filters::golomb::RiceCode;
    /// assert_eq!(RiceCode::new(1000, 20).worst_bits(1000, 4), 1000 * (1 + 10 + 4) + 1024);
    /// ```
    #[must_use]
    pub fn worst_bits(&self, entries: u64, payload_bits: u32) -> u64 {
        let each = u64::from(1 + self.parameter + payload_bits);
        entries
            .saturating_mul(each)
            .saturating_add(1 << (self.universe_bits - self.parameter).min(62))
    }
}

/// The state of encoding or decoding a list: the code and the previous entry.
#[derive(Clone, Copy, Debug)]
pub struct DeltaCoder {
    rice: RiceCode,
    last: u64,
}

impl DeltaCoder {
    /// Starts a list, or continues one at a known position, so that the next difference is relative
    /// to `base`.
    #[must_use]
    pub fn new(rice: RiceCode, base: u64) -> DeltaCoder {
        DeltaCoder { rice, last: base }
    }

    /// Appends an entry as the difference from the previous one.
    ///
    /// # Panics
    /// If the entry is less than the previous one.
    #[inline]
    pub fn write(&mut self, bits: &mut StreamBitWriter, entry: u64) {
        assert!(entry >= self.last, "entry {entry} comes after {}", self.last);
        let (delta, k) = (entry - self.last, self.rice.parameter);
        bits.unary(delta >> k);
        bits.put(delta, k);
        self.last = entry;
    }

    /// Reads the next entry, which may be at most `most`.
    ///
    /// # Errors
    /// If the bits end, cannot be read, or stand for an entry greater than `most`.
    #[inline]
    pub fn read<S: ByteSource>(&mut self, bits: &mut BitReader<S>, most: u64) -> Result<u64, S::Error> {
        let k = self.rice.parameter;
        let (at, left) = (bits.position(), most.saturating_sub(self.last));
        let high = bits.unary(left >> k)?;
        let delta = high << k | bits.get(k)?;
        if delta > left {
            let (expected, found) = (format!("at most {left}"), delta.to_string());
            return Err(Error::damaged_bits(at, "difference in a list", expected, found).into());
        }
        self.last += delta;
        Ok(self.last)
    }
}
