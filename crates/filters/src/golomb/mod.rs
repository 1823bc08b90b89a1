//! Sorted lists of integers as Golomb–Rice coded differences.
//!
//! *Scope*: bit packing, the parameter for a density, and the maximum size of a list in bits
//! (Conway §2.2, Lemma 2).
//!
//! *Must not depend on*: the meaning of entries and payloads; the location of the bytes.
//!
//! - **F10** A list of n entries from a universe of 2^u, with payloads of p bits, occupies at most
//!   n (1 + k + p) + 2^(u − k) bits for any distribution of the entries: all deltas together have
//!   at most as many ones as the universe has steps of 2^k.

mod format;
#[cfg(test)]
mod tests;

pub use format::{BitReader, ByteSource, StreamBitWriter, decode, encode};

use crate::Error;

/// The parameter of a Golomb–Rice code: the number of low bits of a difference that are stored
/// verbatim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RiceCode {
    parameter: u32,
    universe_bits: u32,
}

impl RiceCode {
    /// Creates the code for `entries` from a universe of 2^`universe_bits`: ⌊log2(1 / density)⌋ low
    /// bits, and none for a density of one or more.
    #[must_use]
    pub fn new(entries: u64, universe_bits: u32) -> RiceCode {
        let log = 64 - entries.saturating_sub(1).leading_zeros();
        RiceCode {
            parameter: universe_bits.saturating_sub(log).min(56),
            universe_bits,
        }
    }

    /// Returns the code with a stored parameter, limited to the universe's bits.
    #[must_use]
    pub fn with_parameter(parameter: u32, universe_bits: u32) -> RiceCode {
        RiceCode {
            parameter: parameter.min(universe_bits).min(56),
            universe_bits,
        }
    }

    /// Returns the number of low bits.
    #[must_use]
    pub fn parameter(&self) -> u32 {
        self.parameter
    }

    /// Returns the maximum number of bits in a list of `entries` (F10).
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

/// The state of encoding or decoding a list: its code and the previous entry.
#[derive(Clone, Copy, Debug)]
pub struct DeltaCoder {
    rice: RiceCode,
    last: u64,
}

impl DeltaCoder {
    /// Starts a list, or restarts at `base`, from which the next difference is counted.
    #[must_use]
    pub fn new(rice: RiceCode, base: u64) -> DeltaCoder {
        DeltaCoder { rice, last: base }
    }

    /// Appends an entry.
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

    /// Reads the next entry.
    ///
    /// # Errors
    /// If the bits end, cannot be read, or yield an entry above `most`.
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
