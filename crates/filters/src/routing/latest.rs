//! The routing filter: which run is the latest that holds a fingerprint with a given prefix.

use crate::golomb::{BitReader, BitWriter, Source};
use crate::{Error, Result};
use std::ops::Range;

/// The shape of a routing filter: an array with one character for each prefix.
///
/// A character is a run's index, or the greatest character for none: a level never holds as
/// many runs as there are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
    prefix_bits: u32,
    character_bits: u32,
}

impl Latest {
    /// Creates the shape for prefixes of `prefix_bits` and runs numbered by `character_bits`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the prefix has over 48 bits or the character none or over 8.
    pub fn new(prefix_bits: u32, character_bits: u32) -> Result<Latest> {
        if prefix_bits > 48 || !(1..=8).contains(&character_bits) {
            return Err(Error::shape(
                format!("prefixes of {prefix_bits} bits with characters of {character_bits}"),
                "at most 48 bits, and 1 to 8",
            ));
        }
        Ok(Latest {
            prefix_bits,
            character_bits,
        })
    }

    /// Returns the bits of a prefix.
    #[must_use]
    pub fn prefix_bits(&self) -> u32 {
        self.prefix_bits
    }

    /// Returns how many bytes the filter has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (u64::from(self.character_bits) << self.prefix_bits).div_ceil(8)
    }

    /// Returns the bytes that hold a prefix's character: one or two.
    #[must_use]
    pub fn place(&self, prefix: u64) -> Range<u64> {
        let bit = prefix * u64::from(self.character_bits);
        bit / 8..(bit + u64::from(self.character_bits)).div_ceil(8)
    }

    /// Reads a prefix's run from the bytes of [`Latest::place`].
    ///
    /// # Errors
    /// [`Error::Damaged`] when there are too few bytes.
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

/// Writes a filter with a further run, reading the old one once from front to back.
///
/// ```
/// use alluvium_filters::routing::{Latest, Update};
/// let shape = Latest::new(4, 2).unwrap();
/// let mut first = Update::<&[u8]>::new(shape, None, 0);
/// assert_eq!(first.group(5).unwrap(), None);
/// let bytes = first.finish().unwrap();
/// let mut second = Update::new(shape, Some(bytes.as_slice()), 1);
/// assert_eq!(second.group(5).unwrap(), Some(0), "run 0 had the prefix before");
/// ```
#[derive(Debug)]
pub struct Update<S> {
    shape: Latest,
    old: Option<BitReader<S>>,
    out: BitWriter,
    run: u32,
    next: u64,
    last: Option<(u64, Option<u32>)>,
}

impl<S: Source> Update<S> {
    /// Begins the update of `old` (none: of an empty filter) by the run of index `run`.
    ///
    /// # Panics
    /// When the run's index is no character, or the one for none.
    #[must_use]
    pub fn new(shape: Latest, old: Option<S>, run: u32) -> Update<S> {
        assert!(
            u64::from(run) < shape.none(),
            "run {run} has a character of its own"
        );
        Update {
            shape,
            old: old.map(BitReader::new),
            out: BitWriter::new(),
            run,
            next: 0,
            last: None,
        }
    }

    /// Puts a prefix of the run in, and returns the run that held it before. Prefixes come in
    /// rising order; one that comes again is the same group, with the same answer: the second
    /// entry of a group must not find its own run (Conway §2.3 does, and so cuts the chain).
    ///
    /// # Errors
    /// When the old filter cannot be read.
    ///
    /// # Panics
    /// When a prefix is less than the one before, or not of the filter.
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

    /// Takes the bytes that are complete.
    pub fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Copies some of what follows the last group and returns whether the end is reached.
    ///
    /// # Errors
    /// When the old filter cannot be read.
    pub fn copy(&mut self, most: u64) -> std::result::Result<bool, S::Error> {
        let end = 1 << self.shape.prefix_bits;
        self.copy_to(end.min(self.next.saturating_add(most)))?;
        Ok(self.next == end)
    }

    /// Copies all that follows the last group and takes the last bytes.
    ///
    /// # Errors
    /// When the old filter cannot be read.
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
