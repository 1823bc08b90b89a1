//! Sorted lists of integers as Golomb–Rice coded differences.
//!
//! *Knows*: bits within bytes, the parameter that suits a density, the most bits that a list
//! can need (Conway §2.2, Lemma 2).
//!
//! *Does not know*: what the entries and their payloads are; where the bytes lie.
//!
//! *Read in this order*: [`Rice`], [`Delta`]; `format.rs`.
//!
//! - **F10** A list of n entries of a universe of 2^u, with payloads of p bits, takes at most
//!   n (1 + k + p) + 2^(u − k) bits, however its entries lie: the ones of all deltas together
//!   are no more than the universe holds steps of 2^k.

mod format;
#[cfg(test)]
mod tests;

pub use format::{BitReader, BitWriter, Source, decode, encode};

use crate::Error;

/// The parameter of a Golomb–Rice code: how many low bits of a difference are stored as they
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rice {
    parameter: u32,
    universe_bits: u32,
}

impl Rice {
    /// Creates the code for `entries` of a universe of 2^`universe_bits`: ⌊log2(1 / density)⌋
    /// low bits, none where the density is one or more.
    #[must_use]
    pub fn new(entries: u64, universe_bits: u32) -> Rice {
        let log = 64 - entries.saturating_sub(1).leading_zeros();
        Rice {
            parameter: universe_bits.saturating_sub(log).min(56),
            universe_bits,
        }
    }

    /// Returns the code with a parameter that was stored, at most the universe's bits.
    #[must_use]
    pub fn with_parameter(parameter: u32, universe_bits: u32) -> Rice {
        Rice {
            parameter: parameter.min(universe_bits).min(56),
            universe_bits,
        }
    }

    /// Returns the number of low bits.
    #[must_use]
    pub fn parameter(&self) -> u32 {
        self.parameter
    }

    /// Returns the most bits that a list of `entries` can have (F10).
    ///
    /// ```
    /// use alluvium_filters::golomb::Rice;
    /// assert_eq!(Rice::new(1000, 20).worst_bits(1000, 4), 1000 * (1 + 10 + 4) + 1024);
    /// ```
    #[must_use]
    pub fn worst_bits(&self, entries: u64, payload_bits: u32) -> u64 {
        let each = u64::from(1 + self.parameter + payload_bits);
        entries
            .saturating_mul(each)
            .saturating_add(1 << (self.universe_bits - self.parameter).min(62))
    }
}

/// The state of coding a list: its code and the entry before.
#[derive(Clone, Copy, Debug)]
pub struct Delta {
    rice: Rice,
    last: u64,
}

impl Delta {
    /// Begins a list, or begins again at `base`, from which the next difference counts.
    #[must_use]
    pub fn new(rice: Rice, base: u64) -> Delta {
        Delta { rice, last: base }
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// When the entry is less than the one before.
    #[inline]
    pub fn write(&mut self, bits: &mut BitWriter, entry: u64) {
        assert!(entry >= self.last, "entry {entry} comes after {}", self.last);
        let (delta, k) = (entry - self.last, self.rice.parameter);
        bits.unary(delta >> k);
        bits.put(delta, k);
        self.last = entry;
    }

    /// Reads the next entry.
    ///
    /// # Errors
    /// When the bits end, cannot be read, or give an entry over `most`.
    #[inline]
    pub fn read<S: Source>(&mut self, bits: &mut BitReader<S>, most: u64) -> Result<u64, S::Error> {
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
