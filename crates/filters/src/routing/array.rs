//! The routing filter: maps a prefix to the latest run with a fingerprint of that prefix.

use crate::golomb::{BitReader, ByteSource, StreamBitWriter};
use crate::{Error, Result};
use std::ops::Range;

/// The shape of a routing filter: an array with one character per prefix.
///
/// A character is the index of a run, or the greatest character for none: a level never has as many
/// runs as there are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingArray {
    prefix_bits: u32,
    character_bits: u32,
}

impl RoutingArray {
    /// Creates the shape for prefixes of `prefix_bits` and run indexes of `character_bits`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the prefix exceeds 48 bits or the character is not 1 to 8 bits.
    pub fn new(prefix_bits: u32, character_bits: u32) -> Result<RoutingArray> {
        if prefix_bits > 48 || !(1..=8).contains(&character_bits) {
            return Err(Error::shape(
                format!("prefixes of {prefix_bits} bits with characters of {character_bits}"),
                "at most 48 bits, and 1 to 8",
            ));
        }
        Ok(RoutingArray {
            prefix_bits,
            character_bits,
        })
    }

    /// Returns the length of a prefix in bits.
    #[must_use]
    pub fn prefix_bits(&self) -> u32 {
        self.prefix_bits
    }

    /// Returns the size of the filter in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (u64::from(self.character_bits) << self.prefix_bits).div_ceil(8)
    }

    /// Returns the range of the bytes (one or two) that contain a prefix's character.
    #[must_use]
    pub fn place(&self, prefix: u64) -> Range<u64> {
        let bit = prefix * u64::from(self.character_bits);
        bit / 8..(bit + u64::from(self.character_bits)).div_ceil(8)
    }

    /// Reads a prefix's run from the bytes at [`RoutingArray::place`].
    ///
    /// # Errors
    /// [`Error::Damaged`] if there are too few bytes.
    pub fn read(&self, bytes: &[u8], prefix: u64) -> Result<Option<u32>> {
        let mut bits = BitReader::new(bytes);
        bits.get((prefix * u64::from(self.character_bits) % 8) as u32)?;
        Ok(self.run(bits.get(self.character_bits)?))
    }

    fn none(&self) -> u64 {
        (1 << self.character_bits) - 1
    }

    fn run(&self, character: u64) -> Option<u32> {
        (character != self.none()).then_some(character as u32)
    }
}

/// Writes a filter with an additional run, reading the old filter once from front to back.
///
/// ```
/// use alluvium_filters::routing::{RoutingArray, RoutingUpdate};
/// let shape = RoutingArray::new(4, 2).unwrap();
/// let mut first = RoutingUpdate::<&[u8]>::new(shape, None, 0);
/// assert_eq!(first.group(5).unwrap(), None);
/// let bytes = first.finish().unwrap();
/// let mut second = RoutingUpdate::new(shape, Some(bytes.as_slice()), 1);
/// assert_eq!(second.group(5).unwrap(), Some(0), "run 0 had the prefix before");
/// ```
#[derive(Debug)]
pub struct RoutingUpdate<S> {
    shape: RoutingArray,
    old: Option<BitReader<S>>,
    out: StreamBitWriter,
    run: u32,
    next: u64,
    last: Option<(u64, Option<u32>)>,
}

impl<S: ByteSource> RoutingUpdate<S> {
    /// Starts the update of `old` (`None` for an empty filter) with the run of index `run`.
    ///
    /// # Panics
    /// If the run's index is not a character, or is the character for none.
    #[must_use]
    pub fn new(shape: RoutingArray, old: Option<S>, run: u32) -> RoutingUpdate<S> {
        assert!(
            u64::from(run) < shape.none(),
            "run {run} has a character of its own"
        );
        RoutingUpdate {
            shape,
            old: old.map(BitReader::new),
            out: StreamBitWriter::new(),
            run,
            next: 0,
            last: None,
        }
    }

    /// Records the run for a prefix, and returns the run previously recorded for it. Prefixes must
    /// be ascending. A repeated prefix belongs to the same group and gets the same answer: the
    /// second entry of a group must not find its own run (Conway §2.3 does, which cuts the chain).
    ///
    /// # Errors
    /// If the old filter cannot be read.
    ///
    /// # Panics
    /// If a prefix is less than the previous one, or out of range.
    pub fn group(&mut self, prefix: u64) -> std::result::Result<Option<u32>, S::Error> {
        if let Some((_, previous)) = self.last.filter(|(last, _)| *last == prefix) {
            return Ok(previous);
        }
        assert!(
            prefix >= self.next && prefix >> self.shape.prefix_bits == 0,
            "prefix {prefix} is in order"
        );
        self.copy_to(prefix)?;
        let previous = self.old_character()?;
        self.out.put(u64::from(self.run), self.shape.character_bits);
        self.next = prefix + 1;
        let previous = self.shape.run(previous);
        self.last = Some((prefix, previous));
        Ok(previous)
    }

    /// Takes the complete bytes and keeps the bits after them.
    pub fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Copies up to `most` of the prefixes after the last group. Returns whether the end was
    /// reached.
    ///
    /// # Errors
    /// If the old filter cannot be read.
    pub fn copy(&mut self, most: u64) -> std::result::Result<bool, S::Error> {
        let end = 1 << self.shape.prefix_bits;
        self.copy_to(end.min(self.next.saturating_add(most)))?;
        Ok(self.next == end)
    }

    /// Copies the rest after the last group and takes the last bytes.
    ///
    /// # Errors
    /// If the old filter cannot be read.
    pub fn finish(mut self) -> std::result::Result<Vec<u8>, S::Error> {
        self.copy_to(1 << self.shape.prefix_bits)?;
        Ok(self.out.finish())
    }

    fn copy_to(&mut self, prefix: u64) -> std::result::Result<(), S::Error> {
        let bits = self.shape.character_bits;
        let together = u64::from(48 / bits);
        while self.next < prefix {
            let step = together.min(prefix - self.next);
            let word = match &mut self.old {
                Some(old) => old.get(step as u32 * bits)?,
                None => u64::MAX,
            };
            self.out.put(word, step as u32 * bits);
            self.next += step;
        }
        Ok(())
    }

    fn old_character(&mut self) -> std::result::Result<u64, S::Error> {
        match &mut self.old {
            Some(old) => old.get(self.shape.character_bits),
            None => Ok(self.shape.none()),
        }
    }
}
