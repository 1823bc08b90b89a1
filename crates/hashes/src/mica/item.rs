//! The memory layout of an item: a header word, optional fields, the key and the value.
//!
//! ```text
//!   WORDS   MEANING
//!   1       bits 0–19 value length · 20–29 key length · 30 expires · 31 has slack
//!   0 or 2  when it expires, in the caller's unit of time
//!   any     the key, filled up to a word
//!   any     the value, filled up to a word
//!   0 or 1  slack: how many words from here on are left of what was allocated, this one counted
//! ```
//!
//! In the thesis, the header also contains the key's hash and the allocated size. Here, the hash is
//! computed from the key, and the allocated size is stored only if it differs from the size that
//! the item needs. The header therefore takes 4 bytes instead of 24.

use super::error::{Error, Result};
use super::key::HashedKey;
use super::memory::{ItemWords, WORD};
use super::mode::ConcurrencyMode;

/// Maximum length of a key in bytes.
pub const MAX_KEY_BYTES: usize = (1 << KEY_BITS) - 1;
/// Maximum length of a value in bytes.
pub const MAX_VALUE_BYTES: usize = (1 << VALUE_BITS) - 1;
/// Expiry time of an item that never expires.
pub const NEVER: u64 = u64::MAX;

const VALUE_BITS: u32 = 20;
const KEY_BITS: u32 = 10;
const EXPIRES: u32 = 1 << 30;
const SLACK: u32 = 1 << 31;
const _: () = assert!(VALUE_BITS + KEY_BITS == 30);

/// Maximum number of words in an item.
pub(super) const MAX_WORDS: usize = 3 + MAX_KEY_BYTES.div_ceil(WORD) + MAX_VALUE_BYTES.div_ceil(WORD);

/// The header of an item, which is its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemHeaderWord(u32);

impl ItemHeaderWord {
    /// Creates the header of an item that fills all words allocated for it.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the key or the value is too long.
    #[inline]
    pub(super) fn new(key: &[u8], value: &[u8], expires_at: u64) -> Result<ItemHeaderWord> {
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(too_large(key.len(), value.len()));
        }
        let expires = if expires_at == NEVER { 0 } else { EXPIRES };
        Ok(ItemHeaderWord(
            value.len() as u32 | (key.len() as u32) << VALUE_BITS | expires,
        ))
    }

    #[inline(always)]
    pub(super) fn load<M: ConcurrencyMode>(words: &ItemWords<M>, at: usize) -> ItemHeaderWord {
        ItemHeaderWord(words.load(at))
    }

    #[inline(always)]
    pub(super) fn key_len(self) -> usize {
        (self.0 >> VALUE_BITS) as usize & MAX_KEY_BYTES
    }

    #[inline(always)]
    pub(super) fn value_len(self) -> usize {
        self.0 as usize & MAX_VALUE_BYTES
    }

    #[inline(always)]
    fn lead(self) -> usize {
        if self.0 & EXPIRES == 0 { 1 } else { 3 }
    }

    /// Returns the offset of the key within the item, in words.
    #[inline(always)]
    pub(super) fn key_at(self) -> usize {
        self.lead()
    }

    /// Returns the offset of the value within the item, in words.
    #[inline(always)]
    pub(super) fn value_at(self) -> usize {
        self.lead() + self.key_len().div_ceil(WORD)
    }

    /// Returns the number of words that the item needs.
    #[inline(always)]
    pub(super) fn needed(self) -> usize {
        self.value_at() + self.value_len().div_ceil(WORD)
    }
}

#[cold]
fn too_large(key: usize, value: usize) -> Error {
    if key > MAX_KEY_BYTES {
        let (what, bytes, most) = ("a key", key, MAX_KEY_BYTES);
        return Error::TooLarge { what, bytes, most };
    }
    let (what, bytes, most) = ("a value", value, MAX_VALUE_BYTES);
    Error::TooLarge { what, bytes, most }
}

/// Returns the header of the item at word `at`, or `None` if the item has a different key.
#[inline(always)]
pub(super) fn header_of<M: ConcurrencyMode>(
    words: &ItemWords<M>,
    at: usize,
    key: HashedKey<'_>,
) -> Option<ItemHeaderWord> {
    let header = ItemHeaderWord::load(words, at);
    // Another thread may be overwriting the item, so the lengths in its header may be invalid.
    if M::SHARED && at + header.needed() > words.len() {
        return None;
    }
    let is_same = header.key_len() == key.bytes().len() && words.equals(at + header.key_at(), key.bytes());
    is_same.then_some(header)
}

/// Returns the number of words allocated for the item at word `at`.
#[inline]
pub(super) fn allocated<M: ConcurrencyMode>(words: &ItemWords<M>, at: usize) -> usize {
    let header = ItemHeaderWord::load(words, at);
    let needed = header.needed();
    if header.0 & SLACK == 0 {
        needed
    } else {
        needed + words.load(at + needed) as usize
    }
}

/// Writes an item at word `at`, where `allocated` words have been allocated for it.
#[inline]
pub(super) fn write<M: ConcurrencyMode>(
    words: &ItemWords<M>,
    at: usize,
    allocated: usize,
    header: ItemHeaderWord,
    (key, value, expires_at): (&[u8], &[u8], u64),
) {
    let needed = header.needed();
    assert!(needed <= allocated, "an item of {needed} words in {allocated}");
    if needed < allocated {
        words.store(at, header.0 | SLACK);
        words.store(at + needed, (allocated - needed) as u32);
    } else {
        words.store(at, header.0);
    }
    if header.0 & EXPIRES != 0 {
        words.store_pair(at + 1, expires_at);
    }
    words.write(at + header.key_at(), key);
    words.write(at + header.value_at(), value);
}

/// Returns the item's expiry time, or [`NEVER`].
#[inline(always)]
pub(super) fn expires_at<M: ConcurrencyMode>(words: &ItemWords<M>, at: usize, header: ItemHeaderWord) -> u64 {
    if header.0 & EXPIRES == 0 {
        NEVER
    } else {
        words.load_pair(at + 1)
    }
}

/// Returns whether the item has expired at time `now`.
#[inline]
pub(super) fn has_expired<M: ConcurrencyMode>(
    words: &ItemWords<M>,
    at: usize,
    header: ItemHeaderWord,
    now: u64,
) -> bool {
    header.0 & EXPIRES != 0 && words.load_pair(at + 1) <= now
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::super::mode::Crew;
    use super::*;

    #[test]
    fn an_item_is_as_long_as_it_says_with_and_without_expiry_and_slack() {
        let words = ItemWords::<Crew>::reserve(4096).unwrap();
        for (key, value, expires_at, needed) in [
            (&b"12345678"[..], &b"abcdefgh"[..], NEVER, 5),
            (b"12345678", b"abcdefgh", 17, 7),
            (b"", b"", NEVER, 1),
            (b"1", b"", 3, 4),
            (b"", b"12345", NEVER, 3),
        ] {
            let header = ItemHeaderWord::new(key, value, expires_at).unwrap();
            assert_eq!(header.needed(), needed);
            for slack in [0, 1, 2, 900] {
                write(&words, 5, needed + slack, header, (key, value, expires_at));
                let read = ItemHeaderWord::load(&words, 5);
                assert_eq!(allocated(&words, 5), needed + slack);
                assert_eq!((read.key_len(), read.value_len()), (key.len(), value.len()));
                assert!(words.equals(5 + read.key_at(), key) && words.equals(5 + read.value_at(), value));
                assert_eq!(has_expired(&words, 5, read, 17), expires_at <= 17);
                assert_eq!(super::expires_at(&words, 5, read), expires_at);
                assert!(!has_expired(&words, 5, read, 2));
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused_with_its_length() {
        let (key, value) = (vec![0; MAX_KEY_BYTES], vec![0; MAX_VALUE_BYTES]);
        let longest = ItemHeaderWord::new(&key, &value, 0).unwrap();
        assert_eq!(longest.needed(), MAX_WORDS);
        let refused = ItemHeaderWord::new(&[0; MAX_KEY_BYTES + 1], &[], NEVER).unwrap_err();
        assert!(refused.to_string().contains("1024 bytes"), "{refused}");
        assert!(ItemHeaderWord::new(&[], &vec![0; MAX_VALUE_BYTES + 1], NEVER).is_err());
    }
}
