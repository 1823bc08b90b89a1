//! Keys composed of typed parts, encoded so that their byte order equals the order of the parts.
//!
//! *Scope*: encodings of integers, floating-point numbers, strings, bytes, options, and tuples of
//! these.
//!
//! *Must not depend on*: keyspaces; the results are ordinary keys.
//!
//! ```
//! use alluvium::keys::{decode, encode};
//! let key = encode(&("berlin", 2026u16, -3.5f64));
//! assert!(key < encode(&("berlin", 2026u16, 20.0)));
//! assert!(key < encode(&("berlin", 2027u16, -90.0)));
//! let (city, year, degrees): (String, u16, f64) = decode(&key)?;
//! assert_eq!((&city[..], year, degrees), ("berlin", 2026, -3.5));
//! # Ok::<(), alluvium::keys::BadKey>(())
//! ```
//!
//! The encoding of a tuple's first parts is a prefix of the entire key. For example,
//! `keyspace.prefix(encode(&("berlin",)))` iterates over the keys of one city.

mod format;

use thiserror::Error;

/// The error for bytes that do not encode the requested type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} at byte {at} of the key")]
pub struct BadKey {
    /// Description of what was expected at this position, such as "text".
    pub expected: &'static str,
    /// Offset of the error in the key, in bytes.
    pub at: usize,
}

/// A type whose encoding preserves the order of its values. No encoding of a value is a prefix of
/// another value's encoding.
pub trait EncodePart {
    /// Appends the encoding of the value to `out`.
    fn encode_part(&self, out: &mut Vec<u8>);
}

/// A type that can be decoded from a key.
pub trait DecodePart: Sized {
    /// Decodes a value at the current position of `key`.
    ///
    /// # Errors
    /// [`BadKey`] if the bytes do not encode the type.
    fn decode_part(key: &mut KeyDecoder<'_>) -> Result<Self, BadKey>;
}

/// A cursor that decodes an encoded key part by part.
#[derive(Clone, Debug)]
pub struct KeyDecoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> KeyDecoder<'a> {
    /// Creates a cursor at the beginning of `key`.
    #[must_use]
    pub fn new(key: &'a [u8]) -> KeyDecoder<'a> {
        KeyDecoder { bytes: key, at: 0 }
    }

    /// Returns the next `len` bytes of the key and advances the cursor past them. `expected`
    /// describes these bytes in the error.
    ///
    /// # Errors
    /// [`BadKey`] if fewer bytes are left.
    pub fn take(&mut self, len: usize, expected: &'static str) -> Result<&'a [u8], BadKey> {
        let taken = self.rest().get(..len).ok_or(self.bad(expected))?;
        self.at += len;
        Ok(taken)
    }

    /// Returns the bytes after the cursor, which have not been decoded yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Returns an error at the cursor's position. `expected` describes what should be there.
    #[must_use]
    pub fn bad(&self, expected: &'static str) -> BadKey {
        BadKey {
            expected,
            at: self.at,
        }
    }
}

/// Encodes a single part or a tuple of parts as a key.
#[must_use]
pub fn encode(key: &impl EncodePart) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    key.encode_part(&mut out);
    out
}

/// Decodes an entire key.
///
/// # Errors
/// [`BadKey`] if the key is not an encoding of `K`, or if bytes follow it.
pub fn decode<K: DecodePart>(key: &[u8]) -> Result<K, BadKey> {
    let mut parts = KeyDecoder::new(key);
    let decoded = K::decode_part(&mut parts)?;
    if parts.rest().is_empty() {
        Ok(decoded)
    } else {
        Err(parts.bad("the end"))
    }
}

impl<T: EncodePart + ?Sized> EncodePart for &T {
    fn encode_part(&self, out: &mut Vec<u8>) {
        (**self).encode_part(out);
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),+))+) => {$(
        impl<$($part: EncodePart),+> EncodePart for ($($part,)+) {
            fn encode_part(&self, out: &mut Vec<u8>) {
                $(self.$at.encode_part(out);)+
            }
        }

        impl<$($part: DecodePart),+> DecodePart for ($($part,)+) {
            fn decode_part(key: &mut KeyDecoder<'_>) -> Result<Self, BadKey> {
                Ok(($($part::decode_part(key)?,)+))
            }
        }
    )+};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Checks three properties of the encoding: ascending values have ascending keys, no key is a
    /// prefix of another, and decoding a key returns its value.
    fn ascend<K: EncodePart + DecodePart + Debug>(values: &[K]) {
        let keys: Vec<Vec<u8>> = values.iter().map(encode).collect();
        for (pair, values) in keys.windows(2).zip(values.windows(2)) {
            assert!(pair[0] < pair[1], "{values:?}: {pair:?}");
            assert!(!pair[1].starts_with(&pair[0]), "{values:?}");
        }
        for (key, value) in keys.iter().zip(values) {
            let again: K = decode(key).unwrap();
            assert_eq!(format!("{again:?}"), format!("{value:?}"));
            assert!(decode::<K>(&key[..key.len() - 1]).is_err(), "{value:?} cut short");
            assert!(
                decode::<K>(&[&key[..], b"x"].concat()).is_err(),
                "{value:?} and more"
            );
        }
    }

    #[test]
    fn keys_are_in_the_order_of_what_they_say() {
        ascend(&[i64::MIN, -256, -1, 0, 1, 255, i64::MAX]);
        ascend(&[i8::MIN, -1, 0, i8::MAX]);
        ascend(&[0u16, 1, 255, 256, u16::MAX]);
        ascend(&[
            f64::NEG_INFINITY,
            -1e300,
            -1.5,
            -0.0,
            0.0,
            1e-300,
            2.5,
            f64::INFINITY,
            f64::NAN,
        ]);
        ascend(&[-1.0f32, 0.0, 7.5]);
        ascend(&[false, true]);
        ascend(&["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "aa", "b", "ß"].map(str::to_owned));
        ascend(&[
            vec![],
            vec![0u8],
            vec![0, 0xff],
            vec![1],
            vec![0xff],
            vec![0xff, 0xff],
        ]);
        ascend(&[None, Some(i32::MIN), Some(5)]);
        ascend(&[
            ("a".to_owned(), 2u8),
            ("a".to_owned(), 3),
            ("a\0".to_owned(), 0),
            ("b".to_owned(), 0),
        ]);
        ascend(&[
            (1u8, None, true),
            (1, Some("x".to_owned()), false),
            (2, None, false),
        ]);
    }

    #[test]
    fn strings_are_found_by_the_parts_before_them() {
        let key = encode(&("berlin", "mitte"));
        assert!(key.starts_with(&encode(&("berlin",))));
        assert!(!encode(&("berlin-west",)).starts_with(&encode(&("berlin",))));
        assert_eq!(
            decode::<String>(b"\xff\0\0"),
            Err(BadKey {
                expected: "text",
                at: 0
            })
        );
        assert_eq!(
            decode::<bool>(&[2]),
            Err(BadKey {
                expected: "a boolean",
                at: 0
            })
        );
        assert!(decode::<Vec<u8>>(b"a\0\x07").is_err());
    }
}
