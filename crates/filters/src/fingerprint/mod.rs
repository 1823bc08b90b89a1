//! Fingerprints with proven independence, interpreted as strings of characters.
//!
//! *Scope*: how 8 to 128 uniformly distributed bits are computed from a seed and a key; how
//! prefixes, check characters and next characters are extracted from them (Conway §2.2).
//!
//! *Must not depend on*: what fingerprints are used for; who draws and stores the seed.
//!
//! - **F9** With `HashIndependence::Words(k)`, the fingerprints of any `k` keys are independent.
//!   They are values of a polynomial of degree k − 1 over the field of 2^127 − 1 elements, with
//!   coefficients drawn from the seed. The polynomial is evaluated at a field element computed from
//!   the key. Two keys have the same element with probability at most length / 2^127.

mod field;
mod format;
#[cfg(test)]
mod tests;

use crate::{Error, Result};
use alluvium_base::checksum::seeded;

/// How many keys have independent fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashIndependence {
    /// Any set of this many keys has independent fingerprints. With 1, the function is constant and
    /// all keys collide, which is useful in tests.
    Words(u16),
    /// Fingerprints are computed with XXH3, which is faster. Their independence is assumed rather
    /// than proven.
    Assumed,
}

/// Maximum independence, which is the number of the polynomial's coefficients.
pub const MAX_INDEPENDENCE: u16 = 1024;

/// A fingerprint function, defined by a seed, a fingerprint length and an independence.
///
/// ```
/// use alluvium_filters::fingerprint::{FingerprintAlphabet, FingerprintFamily, HashIndependence};
/// let family = FingerprintFamily::new(7, 64, HashIndependence::Words(32)).unwrap();
/// let fingerprint = family.of(b"apple");
/// let alphabet = FingerprintAlphabet::new(64, 4).unwrap(); // characters of 2 bits
/// assert!(alphabet.prefix(fingerprint, 10) < 1024);
/// assert!(alphabet.check(fingerprint, 1) < 4);
/// ```
#[derive(Clone, Debug)]
pub struct FingerprintFamily {
    seed: u128,
    width: u32,
    independence: HashIndependence,
    point: u128,
    high: Vec<u128>,
    low: Vec<u128>,
}

impl FingerprintFamily {
    /// Creates the function for a seed, with fingerprints of `width` bits.
    ///
    /// # Errors
    /// [`Error::Shape`] if the width is not from 8 to 128, or if the independence is 0 or exceeds
    /// [`MAX_INDEPENDENCE`].
    pub fn new(seed: u128, width: u32, independence: HashIndependence) -> Result<FingerprintFamily> {
        if !(8..=128).contains(&width) {
            return Err(Error::shape(
                format!("fingerprints of {width} bits"),
                "8 to 128 bits",
            ));
        }
        let words = match independence {
            HashIndependence::Words(words) if words == 0 || words > MAX_INDEPENDENCE => {
                let instead = format!("1 to {MAX_INDEPENDENCE}");
                return Err(Error::shape(format!("independence of {words} keys"), instead));
            }
            HashIndependence::Words(words) => u64::from(words),
            HashIndependence::Assumed => 0,
        };
        let second = if width > 64 { words } else { 0 };
        Ok(FingerprintFamily {
            seed,
            width,
            independence,
            point: draw(seed, 0),
            high: (1..=words).map(|at| draw(seed, at)).collect(),
            low: (1..=second).map(|at| draw(seed, at << 32)).collect(),
        })
    }

    /// Returns the independence that `entries` keys require: Θ(log N), but at least 16.
    #[must_use]
    pub fn independence_for(entries: u64) -> HashIndependence {
        HashIndependence::Words((2 * (64 - entries.leading_zeros()) as u16).max(16))
    }

    #[must_use]
    pub fn seed(&self) -> u128 {
        self.seed
    }

    /// Returns the length of a fingerprint, in bits.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    #[must_use]
    pub fn independence(&self) -> HashIndependence {
        self.independence
    }

    /// Returns the fingerprint of a key.
    #[must_use]
    pub fn of(&self, key: &[u8]) -> WideFingerprint {
        let (high, low) = if self.high.is_empty() {
            let low = if self.width > 64 {
                seeded((self.seed >> 64) as u64 ^ 0x6c6f77, key)
            } else {
                0
            };
            (seeded(self.seed as u64, key), low)
        } else {
            let element = self.element(key);
            let value = |coefficients: &[u128]| {
                let sum = coefficients
                    .iter()
                    .fold(0, |sum, &c| field::add(field::mul(sum, element), c));
                sum as u64
            };
            (value(&self.high), value(&self.low))
        };
        let bits = u128::from(high) << 64 | u128::from(low);
        WideFingerprint(bits >> (128 - self.width) << (128 - self.width))
    }

    /// Maps a key to a field element: the value of a polynomial at a point drawn from the seed. The
    /// polynomial's coefficients are the length of the key and its pieces of 15 bytes.
    fn element(&self, key: &[u8]) -> u128 {
        key.chunks(15).fold(key.len() as u128, |sum, piece| {
            let piece = piece
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u128::from(byte));
            field::add(field::mul(sum, self.point), piece)
        })
    }
}

/// Computes a pseudo-random field element from a seed and a number.
fn draw(seed: u128, number: u64) -> u128 {
    let word = |part: u8| {
        let text: [u8; 9] = std::array::from_fn(|at| if at < 8 { (number >> (8 * at)) as u8 } else { part });
        seeded(seed as u64, &text) ^ seeded((seed >> 64) as u64, &text[..8]).rotate_left(u32::from(part))
    };
    field::reduce(u128::from(word(1)) << 64 | u128::from(word(2)))
}

/// A fingerprint of up to 128 bits, left-aligned, so that its first bit is the highest bit of the
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WideFingerprint(pub u128);

/// Interprets fingerprints as strings of characters of log2 λ bits each.
///
/// Prefix lengths are given in bits, so a prefix need not end at a character boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FingerprintAlphabet {
    width: u32,
    character_bits: u32,
}

impl FingerprintAlphabet {
    /// Creates the alphabet of λ = `characters` characters for fingerprints of `width` bits.
    ///
    /// # Errors
    /// [`Error::Shape`] if λ is not a power of two from 2 to 256, or if the width is not from 8 to
    /// 128.
    pub fn new(width: u32, characters: u32) -> Result<FingerprintAlphabet> {
        if !characters.is_power_of_two() || !(2..=256).contains(&characters) {
            return Err(Error::shape(
                format!("a growth factor (λ) of {characters}"),
                "a power of two from 2 to 256",
            ));
        }
        if !(8..=128).contains(&width) {
            return Err(Error::shape(
                format!("fingerprints of {width} bits"),
                "8 to 128 bits",
            ));
        }
        Ok(FingerprintAlphabet {
            width,
            character_bits: characters.ilog2(),
        })
    }

    /// Returns the length of a character, in bits.
    #[must_use]
    pub fn character_bits(&self) -> u32 {
        self.character_bits
    }

    #[must_use]
    pub fn characters(&self) -> u32 {
        1 << self.character_bits
    }

    /// Returns the length of a fingerprint, in bits.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns whether a fingerprint has enough bits for a prefix of `prefix_bits` bits and for
    /// `checks` check characters without overlap.
    #[must_use]
    pub fn fits(&self, prefix_bits: u32, checks: u32) -> bool {
        prefix_bits <= 63 && prefix_bits + checks * self.character_bits <= self.width
    }

    /// Returns the first `bits` bits of a fingerprint, at most 63, as a number.
    #[must_use]
    pub fn prefix(&self, fingerprint: WideFingerprint, bits: u32) -> u64 {
        if bits == 0 {
            0
        } else {
            (fingerprint.0 >> (128 - bits)) as u64
        }
    }

    /// Returns the character after a prefix of `prefix_bits` bits.
    #[must_use]
    pub fn next(&self, fingerprint: WideFingerprint, prefix_bits: u32) -> u32 {
        ((fingerprint.0 << prefix_bits) >> (128 - self.character_bits)) as u32
    }

    /// Returns the check character for a level: character number `level` from the end, where the
    /// last character is number 1.
    #[must_use]
    pub fn check(&self, fingerprint: WideFingerprint, level: u32) -> u32 {
        let from_end = 128 - self.width + (level - 1) * self.character_bits;
        (fingerprint.0 >> from_end) as u32 & (self.characters() - 1)
    }
}
