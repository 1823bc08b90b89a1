//! A routing filter that maps each prefix to the latest run with a fingerprint that has this
//! prefix.

use crate::golomb::{BitReader, ByteSource, StreamBitWriter};
use crate::{Error, Result};
use std::ops::Range;

/// Parameters of a routing filter, which is an array with one character per prefix.
///
/// A character is the index of a run. The greatest character can stand for "no run", because a
/// level always has fewer runs than there are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingArray {
    prefix_bits: u32,
    character_bits: u32,
}

impl RoutingArray {
    /// Creates the parameters of a filter with prefixes of `prefix_bits` bits and characters of
    /// `character_bits` bits.
    ///
    /// # Errors
    /// [`Error::Shape`] if `prefix_bits` is greater than 48, or if `character_bits` is not from 1
    /// to 8.
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

    /// Returns the length of a prefix, in bits.
    #[must_use]
    pub fn prefix_bits(&self) -> u32 {
        self.prefix_bits
    }

    /// Returns the size of the filter, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (u64::from(self.character_bits) << self.prefix_bits).div_ceil(8)
    }

    /// Returns the offsets of the one or two bytes that contain the character of a prefix.
    #[must_use]
    pub fn place(&self, prefix: u64) -> Range<u64> {
        let bit = prefix * u64::from(self.character_bits);
        bit / 8..(bit + u64::from(self.character_bits)).div_ceil(8)
    }

    /// Returns the run of a prefix, or `None` if no run contains it. `bytes` are those at
    /// [`RoutingArray::place`].
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

/// Writes a filter that includes one more run. The old filter is read once, from beginning to end.
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
    /// Starts updating the filter `old` with run number `run`. `old` is `None` if the level had no
    /// run before.
    ///
    /// # Panics
    /// If the run's index is too large for a character, or is the character for "no run".
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

    /// Maps a prefix to the new run, and returns the run that it was mapped to before. Prefixes
    /// must be passed in ascending order. Repeating a prefix returns the same run again, and never
    /// the new run. In Conway §2.3 it returns the new run, which breaks the chain of runs.
    ///
    /// # Errors
    /// If the old filter cannot be read.
    ///
    /// # Panics
    /// If a prefix is less than the previous one, or has too many bits.
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

    /// Removes and returns the complete bytes. The bits of the last, partial byte stay in the
    /// writer.
    pub fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Copies the entries of up to `most` prefixes after the last one. Returns whether all prefixes
    /// have been copied.
    ///
    /// # Errors
    /// If the old filter cannot be read.
    pub fn copy(&mut self, most: u64) -> std::result::Result<bool, S::Error> {
        let end = 1 << self.shape.prefix_bits;
        self.copy_to(end.min(self.next.saturating_add(most)))?;
        Ok(self.next == end)
    }

    /// Copies the entries of all prefixes after the last one, and returns the remaining bytes.
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
