//! Format, version 1, of the range deletes at the end of a run's footer. All integers are LEB128
//! varints of at most 10 bytes.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     -  n: keys at which a delete begins or ends
//!            -  b: bytes of those keys
//!            b  the keys, ascending, each once, in groups of 16. Each: how many bytes it shares with
//!               the one before (0 for the first of a group), the length of the rest, the rest
//!            -  m: deletes, the oldest first
//!        m × -  each: the number of the key that it begins with, how many keys on it ends, its
//!               sequence number without that of the one before
//! ```
//!
//! The keys have the same encoding in memory. Decoding never allocates much more memory than the
//! input occupies.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::RangeTombstoneIndex;
use super::builder::RangeTombstoneBuilder;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use std::cmp::Ordering;

/// Number of keys in a group, of which the first is stored in full.
const GROUP: usize = 16;

/// Approximate size of the pieces, in bytes, in which encoded range deletes are passed to the
/// caller.
const PIECE: usize = 16 << 10;

/// A sorted list of distinct keys, prefix-compressed in groups of [`GROUP`] keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BoundaryKeys {
    bytes: Box<[u8]>,
    /// Offset of each group's first key in `bytes`.
    groups: Box<[u32]>,
    count: u32,
}

#[derive(Debug, Default)]
pub(super) struct BoundaryKeysBuilder {
    bytes: Vec<u8>,
    groups: Vec<u32>,
    count: u32,
    last: Vec<u8>,
}

impl BoundaryKeysBuilder {
    /// Creates a builder with memory reserved for the keys of several sources.
    pub(super) fn with_room<'k>(
        sources: impl Iterator<Item = &'k BoundaryKeys> + Clone,
    ) -> BoundaryKeysBuilder {
        let groups = sources.clone().map(|keys| keys.groups.len()).sum();
        BoundaryKeysBuilder {
            bytes: Vec::with_capacity(sources.map(|keys| keys.bytes.len()).sum()),
            groups: Vec::with_capacity(groups),
            ..BoundaryKeysBuilder::default()
        }
    }

    /// Adds a key, which must not be less than the previous one, and returns its number.
    ///
    /// # Panics
    /// If the total size of the keys reaches 4 GiB.
    #[allow(
        clippy::indexing_slicing,
        reason = "both keys have at least the bytes that they have in common"
    )]
    pub(super) fn add(&mut self, key: &[u8]) -> u32 {
        let number = self.count;
        if number > 0 && *key == *self.last {
            return number - 1;
        }
        assert!(number == 0 || *self.last < *key, "keys in order");
        let mut shared = 0;
        if (number as usize).is_multiple_of(GROUP) {
            let at = u32::try_from(self.bytes.len()).expect("range deletes with less than 4 GiB of keys");
            self.groups.push(at);
        } else {
            shared = common_prefix(&self.last, key);
        }
        let rest = &key[shared..];
        ByteWriter::new(&mut self.bytes)
            .varint(shared as u64)
            .varint(rest.len() as u64)
            .bytes(rest);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
        self.count += 1;
        number
    }

    pub(super) fn finish(self) -> BoundaryKeys {
        BoundaryKeys {
            bytes: self.bytes.into(),
            groups: self.groups.into(),
            count: self.count,
        }
    }
}

/// An iterator over the keys in ascending order.
#[derive(Debug)]
pub(super) struct BoundaryKeyIter<'k> {
    reader: ByteReader<'k>,
    left: u32,
    key: Vec<u8>,
}

impl BoundaryKeyIter<'_> {
    /// Advances to the next key, or returns false at the end.
    pub(super) fn next(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let (shared, rest) = entry(&mut self.reader).expect("keys were examined when they were read");
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        true
    }

    /// Returns the current key, which is empty before the first call of `next`.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

/// Reads an encoded key. Returns the number of bytes that it shares with the previous key, and the
/// rest of it.
#[inline]
fn entry<'k>(reader: &mut ByteReader<'k>) -> Result<(usize, &'k [u8]), TruncatedInput> {
    let (shared, rest) = (reader.varint()?, reader.varint()?);
    let len = usize::try_from(rest).unwrap_or(usize::MAX);
    Ok((usize::try_from(shared).unwrap_or(usize::MAX), reader.take(len)?))
}

/// Returns the length of the common prefix of two keys.
#[inline]
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

impl BoundaryKeys {
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    fn from(&self, group: usize) -> BoundaryKeyIter<'_> {
        let at = self.groups.get(group).map_or(self.bytes.len(), |&at| at as usize);
        BoundaryKeyIter {
            reader: ByteReader::new(self.bytes.get(at..).unwrap_or_default()),
            left: self.count.saturating_sub((group * GROUP) as u32),
            key: Vec::new(),
        }
    }

    pub(super) fn walk(&self) -> BoundaryKeyIter<'_> {
        self.from(0)
    }

    /// Returns the key with the given number.
    pub(super) fn get(&self, number: u32) -> Vec<u8> {
        let number = number as usize;
        let mut walk = self.from(number / GROUP);
        for _ in 0..=number % GROUP {
            walk.next();
        }
        walk.key
    }

    /// Returns the number of keys less than `key`, or less than or equal to it if `included`.
    pub(super) fn count_before(&self, key: &[u8], included: bool) -> usize {
        let is_before = |order| order == Ordering::Less || (included && order == Ordering::Equal);
        let read = |at: usize| ByteReader::new(self.bytes.get(at..).unwrap_or_default());
        let head = |&at: &u32| entry(&mut read(at as usize)).is_ok_and(|(_, head)| is_before(head.cmp(key)));
        let group = self.groups.partition_point(head).checked_sub(1);
        let Some((group, &at)) = group.and_then(|group| Some((group, self.groups.get(group)?))) else {
            return 0;
        };
        let first = group * GROUP;
        let mut reader = read(at as usize);
        // Length of the common prefix of `key` and the previous key, which is less than `key`.
        let mut same = 0;
        let mut number = first;
        while number < self.len().min(first + GROUP)
            && let Ok((shared, rest)) = entry(&mut reader)
        {
            // A key that shares more than `same` bytes with the previous key differs from `key` at
            // the same byte as the previous key, and is therefore also less than `key`.
            if shared <= same {
                let wanted = key.get(shared..).unwrap_or_default();
                if shared < same || !is_before(rest.cmp(wanted)) {
                    break;
                }
                same += common_prefix(rest, wanted);
            }
            number += 1;
        }
        number
    }

    /// Returns the memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.groups)
    }

    /// Decodes `count` keys. Returns `None` if the bytes are invalid.
    fn decode(bytes: &[u8], count: u64) -> Option<BoundaryKeys> {
        // Every encoded key has at least two bytes, one for each of its lengths.
        let count = u32::try_from(count).ok()?;
        let mut groups = Vec::with_capacity((bytes.len() / 2).min(count as usize).div_ceil(GROUP));
        let mut reader = ByteReader::new(bytes);
        let mut last = Vec::new();
        for number in 0..count as usize {
            let at = reader.position();
            let (shared, rest) = entry(&mut reader).ok()?;
            if number.is_multiple_of(GROUP) {
                groups.push(u32::try_from(at).ok()?);
                if shared > 0 || (number > 0 && *rest <= *last) {
                    return None;
                }
            } else if last.get(shared..).is_none_or(|last| rest <= last) {
                return None;
            }
            last.truncate(shared);
            last.extend_from_slice(rest);
        }
        (reader.remaining() == 0).then(|| BoundaryKeys {
            bytes: bytes.into(),
            groups: groups.into(),
            count,
        })
    }
}

impl RangeTombstoneIndex {
    /// Encodes the range deletes and passes the result to `piece` in pieces, because it may be
    /// long.
    ///
    /// # Errors
    /// Errors from `piece`.
    pub fn encode<E>(&self, mut piece: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let keys = &self.keys;
        let mut out = Vec::new();
        ByteWriter::new(&mut out)
            .varint(keys.len() as u64)
            .varint(keys.bytes.len() as u64);
        piece(&out)?;
        piece(&keys.bytes)?;
        out.clear();
        ByteWriter::new(&mut out).varint(self.len() as u64);
        let mut before = 0;
        for delete in self.deletes() {
            ByteWriter::new(&mut out)
                .varint(u64::from(delete.start))
                .varint(u64::from(delete.end - delete.start))
                .varint(delete.sequence - before);
            before = delete.sequence;
            if out.len() >= PIECE {
                piece(&out)?;
                out.clear();
            }
        }
        piece(&out)
    }

    /// Decodes range deletes.
    ///
    /// # Errors
    /// If the bytes are invalid, what was expected in their place.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<RangeTombstoneIndex, &'static str> {
        let bad = |_| "range deletes to their end";
        let (count, len) = (reader.varint().map_err(bad)?, reader.varint().map_err(bad)?);
        let bytes = reader.take(usize::try_from(len).unwrap_or(usize::MAX));
        let keys =
            BoundaryKeys::decode(bytes.map_err(bad)?, count).ok_or("keys of range deletes in order")?;
        let count = reader.varint().map_err(bad)?;
        // Every encoded range delete has at least three bytes, one for each of its varints.
        let most = (reader.remaining() / 3) as u64;
        let room = count.min(most) as usize;
        let (mut ranges, mut sequences) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut sequence = 0u64;
        for _ in 0..count {
            let mut number = || reader.varint().map_err(bad);
            let (start, keys_on, later) = (number()?, number()?, number()?);
            let end = start.checked_add(keys_on).filter(|&end| end < keys.len() as u64);
            let (Some(end), 1..) = (end, keys_on) else {
                return Err("range deletes of keys that are listed");
            };
            sequence = sequence.checked_add(later).ok_or("range deletes in order")?;
            ranges.push((start as u32, end as u32));
            sequences.push(sequence);
        }
        let draft = RangeTombstoneBuilder {
            keys,
            ranges,
            sequences,
        };
        Ok(draft.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn encoded(deletes: &RangeTombstoneIndex) -> Vec<u8> {
        let mut bytes = Vec::new();
        let piece = |piece: &[u8]| -> Result<(), ()> {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        deletes.encode(piece).unwrap();
        bytes
    }

    fn three() -> RangeTombstoneIndex {
        RangeTombstoneIndex::new(&[
            (b"abc".to_vec(), b"abd".to_vec(), 300),
            (b"abd".to_vec(), b"b".to_vec(), 5),
            (b"".to_vec(), b"abc".to_vec(), 300),
        ])
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let bytes = encoded(&three());
        // Keys: "", "abc", "abd", "b".
        let keys = "04 0d 0000 0003616263 020164 000162";
        let deletes = "03 020105 0001a702 010100";
        assert_eq!(hex(&bytes), [keys, deletes].concat().replace(' ', ""));
        assert_eq!(hex(&encoded(&RangeTombstoneIndex::default())), "000000");
    }

    #[test]
    fn deletes_come_back_and_wrong_ones_are_refused() {
        let mut random = fastrand::Rng::with_seed(3);
        for count in [0, 1, 3, 40, 300, 6000] {
            let key = |random: &mut fastrand::Rng| -> Vec<u8> {
                (0..random.usize(..6)).map(|_| random.u8(..4)).collect()
            };
            let deletes: Vec<_> = (0..count)
                .map(|_| {
                    let (start, end, most) = (key(&mut random), key(&mut random), random.u32(..40));
                    (start, end, random.u64(..1 << most))
                })
                .collect();
            let deletes = RangeTombstoneIndex::new(&deletes);
            let bytes = encoded(&deletes);
            let decode = |bytes: &[u8]| RangeTombstoneIndex::decode(&mut ByteReader::new(bytes));
            assert_eq!(decode(&bytes), Ok(deletes));
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 2000) {
                assert!(decode(&bytes[..end]).is_err());
            }
            // Decoding arbitrary bytes does not panic, and the result can be encoded.
            for _ in 0..if count > 300 { 20 } else { 2000 } {
                let mut bad = bytes.clone();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(..bad.len());
                    bad[at] = random.u8(..);
                }
                if let Ok(deletes) = decode(&bad) {
                    assert_eq!(decode(&encoded(&deletes)), Ok(deletes));
                }
            }
        }
    }

    #[test]
    fn keys_are_found_by_number_and_by_order() {
        let mut random = fastrand::Rng::with_seed(5);
        for count in [0, 1, 15, 16, 17, 400] {
            let mut key = || -> Vec<u8> { (0..random.usize(..9)).map(|_| random.u8(..3)).collect() };
            let mut all: Vec<Vec<u8>> = (0..count).map(|_| key()).collect();
            let mut asked: Vec<Vec<u8>> = (0..300).map(|_| key()).collect();
            all.sort();
            all.dedup();
            let mut growing = BoundaryKeysBuilder::default();
            for (key, number) in all.iter().zip(0..) {
                assert_eq!(growing.add(key), number);
                assert_eq!(growing.add(key), number, "once");
            }
            let keys = growing.finish();
            assert_eq!(keys.len(), all.len());
            let mut walk = keys.walk();
            for (key, number) in all.iter().zip(0..) {
                assert!(walk.next());
                assert_eq!((walk.key(), &keys.get(number)), (&key[..], key));
            }
            assert!(!walk.next());
            asked.extend_from_slice(&all);
            for key in asked {
                let before = all.partition_point(|other| *other < key);
                let at = all.partition_point(|other| *other <= key);
                assert_eq!(keys.count_before(&key, false), before, "{key:?} of {all:?}");
                assert_eq!(keys.count_before(&key, true), at, "{key:?} of {all:?}");
            }
        }
    }
}
