//! The encodings of key parts by type, version 1. Their byte order equals the order of the values.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0   1-8  an unsigned integer, most significant byte first
//!      0   1-8  a signed one: the same, with the sign bit turned over
//!      0   4,8  a floating-point number: its bits, all turned over if it is negative, else the
//!               sign bit: the total order of IEEE 754
//!      0     1  a truth value: 0 or 1
//!      0     n  text or bytes: a zero byte stands as 0 and 255, the end as 0 and 0
//!      0     1  an option: 0 for none, or 1 and
//!      1     n  its value
//! ```
//!
//! A tuple is encoded as the concatenation of the encodings of its parts.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{BadKey, DecodePart, EncodePart, KeyDecoder};

macro_rules! integers {
    ($($type:ty, $flip:expr, $expected:literal;)+) => {$(
        impl EncodePart for $type {
            fn encode_part(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(*self ^ $flip).to_be_bytes());
            }
        }

        impl DecodePart for $type {
            fn decode_part(key: &mut KeyDecoder<'_>) -> Result<$type, BadKey> {
                let bytes = key.take(size_of::<$type>(), $expected)?;
                let bytes = bytes.try_into().expect("as many were taken");
                Ok(<$type>::from_be_bytes(bytes) ^ $flip)
            }
        }
    )+};
}

integers! {
    u8, 0, "an unsigned integer of one byte";
    u16, 0, "an unsigned integer of two bytes";
    u32, 0, "an unsigned integer of four bytes";
    u64, 0, "an unsigned integer of eight bytes";
    i8, i8::MIN, "an integer of one byte";
    i16, i16::MIN, "an integer of two bytes";
    i32, i32::MIN, "an integer of four bytes";
    i64, i64::MIN, "an integer of eight bytes";
}

macro_rules! floats {
    ($($type:ty, $bits:ty, $sign:expr;)+) => {$(
        impl EncodePart for $type {
            fn encode_part(&self, out: &mut Vec<u8>) {
                let bits = self.to_bits();
                let turned = if bits & $sign == 0 { bits ^ $sign } else { !bits };
                turned.encode_part(out);
            }
        }

        impl DecodePart for $type {
            fn decode_part(key: &mut KeyDecoder<'_>) -> Result<$type, BadKey> {
                let turned = <$bits>::decode_part(key)?;
                let bits = if turned & $sign == 0 { !turned } else { turned ^ $sign };
                Ok(<$type>::from_bits(bits))
            }
        }
    )+};
}

floats! {
    f32, u32, 1 << 31;
    f64, u64, 1 << 63;
}

impl EncodePart for bool {
    fn encode_part(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl DecodePart for bool {
    fn decode_part(key: &mut KeyDecoder<'_>) -> Result<bool, BadKey> {
        let expected = "a boolean";
        let bad = key.bad(expected);
        match key.take(1, expected)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(bad),
        }
    }
}

impl EncodePart for [u8] {
    fn encode_part(&self, out: &mut Vec<u8>) {
        for &byte in self {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
        out.extend_from_slice(&[0, 0]);
    }
}

impl EncodePart for Vec<u8> {
    fn encode_part(&self, out: &mut Vec<u8>) {
        self[..].encode_part(out);
    }
}

impl DecodePart for Vec<u8> {
    fn decode_part(key: &mut KeyDecoder<'_>) -> Result<Vec<u8>, BadKey> {
        let expected = "a terminated byte string";
        let mut bytes = Vec::new();
        loop {
            let &[byte] = key.take(1, expected)? else {
                return Err(key.bad(expected));
            };
            if byte != 0 {
                bytes.push(byte);
                continue;
            }
            match key.take(1, expected)? {
                [0] => return Ok(bytes),
                [0xff] => bytes.push(0),
                _ => return Err(key.bad(expected)),
            }
        }
    }
}

impl EncodePart for str {
    fn encode_part(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode_part(out);
    }
}

impl EncodePart for String {
    fn encode_part(&self, out: &mut Vec<u8>) {
        self[..].encode_part(out);
    }
}

impl DecodePart for String {
    fn decode_part(key: &mut KeyDecoder<'_>) -> Result<String, BadKey> {
        let bad = key.bad("text");
        String::from_utf8(Vec::decode_part(key)?).map_err(|_| bad)
    }
}

impl<T: EncodePart> EncodePart for Option<T> {
    fn encode_part(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode_part(out);
        }
    }
}

impl<T: DecodePart> DecodePart for Option<T> {
    fn decode_part(key: &mut KeyDecoder<'_>) -> Result<Option<T>, BadKey> {
        bool::decode_part(key)?.then(|| T::decode_part(key)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::keys::encode;

    #[test]
    fn the_bytes_of_each_type_are_these() {
        assert_eq!(encode(&(258u16, -1i8, 1i32)), b"\x01\x02\x7f\x80\0\0\x01");
        assert_eq!(encode(&(1.0f32, -1.0f32)), b"\xbf\x80\0\0\x40\x7f\xff\xff");
        assert_eq!(
            encode(&("a\0b", true, None::<u8>, Some(7u8))),
            b"a\0\xffb\0\0\x01\0\x01\x07"
        );
    }
}
