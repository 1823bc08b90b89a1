//! The layout of records in a page.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  length of the key, k
//!      4     4  length of the value, v
//!      8     k  key
//!  8 + k     v  value; the next record follows it, without padding
//! ```
//!
//! Integers are little-endian.
//!
//! *Scope*: encoding and decoding of one record.
//!
//! *Must not depend on*: stores.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

const HEAD: usize = 8;

/// Returns the length of a record in a page, in bytes.
#[must_use]
pub fn encoded_length(key: &[u8], value: &[u8]) -> usize {
    HEAD + key.len() + value.len()
}

/// Writes a record to the front of `page`. Returns the length of the record, or `None` if the page
/// is too short for it.
#[must_use]
pub fn push_record(page: &mut [u8], key: &[u8], value: &[u8]) -> Option<usize> {
    let key_length = u32::try_from(key.len()).ok()?;
    let value_length = u32::try_from(value.len()).ok()?;
    let (record, _) = page.split_at_mut_checked(encoded_length(key, value))?;
    let (head, body) = record.split_at_mut_checked(HEAD)?;
    let (first, second) = head.split_at_mut_checked(HEAD / 2)?;
    first.copy_from_slice(&key_length.to_le_bytes());
    second.copy_from_slice(&value_length.to_le_bytes());
    let (key_bytes, value_bytes) = body.split_at_mut_checked(key.len())?;
    key_bytes.copy_from_slice(key);
    value_bytes.copy_from_slice(value);
    Some(HEAD + key.len() + value.len())
}

/// A key, its value, and the rest of the page.
pub type SplitRecord<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// Splits the first record off a page. Returns `None` if the page does not begin with a whole
/// record.
#[must_use]
pub fn next_record(page: &[u8]) -> Option<SplitRecord<'_>> {
    let (key_length, rest) = page.split_first_chunk::<4>()?;
    let (value_length, rest) = rest.split_first_chunk::<4>()?;
    let key_length = usize::try_from(u32::from_le_bytes(*key_length)).ok()?;
    let value_length = usize::try_from(u32::from_le_bytes(*value_length)).ok()?;
    let (key, rest) = rest.split_at_checked(key_length)?;
    let (value, rest) = rest.split_at_checked(value_length)?;
    Some((key, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_record_are_fixed() {
        let mut page = [0xee; 14];
        assert_eq!(push_record(&mut page, b"Elbe", b"1"), Some(13));
        assert_eq!(page, *b"\x04\0\0\0\x01\0\0\0Elbe1\xee");
        assert_eq!(next_record(&page), Some((&b"Elbe"[..], &b"1"[..], &b"\xee"[..])));
        assert_eq!(push_record(&mut page[..12], b"Elbe", b"1"), None);
    }

    #[test]
    fn no_bytes_are_a_panic_and_what_is_cut_is_no_record() {
        let mut page = vec![0; 64];
        let length = push_record(&mut page, b"key", b"value").unwrap();
        for end in 0..length {
            assert_eq!(next_record(&page[..end]), None);
        }
        let mut random = fastrand::Rng::with_seed(62);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..) % 12).collect();
            let mut rest = &bytes[..];
            while let Some((key, value, behind)) = next_record(rest) {
                assert_eq!(encoded_length(key, value) + behind.len(), rest.len());
                rest = behind;
            }
        }
    }
}
